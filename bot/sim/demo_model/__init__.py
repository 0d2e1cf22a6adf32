"""What the demo's model says."""
