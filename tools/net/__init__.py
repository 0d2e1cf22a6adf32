"""HTTP to public hosts only: addresses, connections, bodies and readable pages."""
