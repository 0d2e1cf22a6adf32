"""Tools that are calls of somebody's service over HTTP."""
