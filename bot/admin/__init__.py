"""What the house shows over HTTP: for now only whether it lives."""
