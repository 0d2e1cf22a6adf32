"""HTTP to public hosts only."""
