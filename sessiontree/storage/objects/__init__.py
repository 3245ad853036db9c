"""The sessions in a bucket of object storage."""
