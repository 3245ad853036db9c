"""What a session did to files."""
