"""What each kind of inbox item does."""
