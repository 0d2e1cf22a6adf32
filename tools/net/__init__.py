"""HTTP to public hosts, and to private ones that the operator names: addresses, bodies, readable pages."""
