"""The sessions in a PostgreSQL database."""
