"""Sessions made to cost as much as they can, run through every command."""
