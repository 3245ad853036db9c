"""What one tool call does to files."""
