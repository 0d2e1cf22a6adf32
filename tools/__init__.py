"""What the assistant can do, one tool a file; knows nothing of the house and never imports it."""
