"""Many sessions: listing, finding, searching and moving them."""
