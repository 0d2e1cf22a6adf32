"""Tools that are calls of an HTTP service: routes, requests, responses and the service itself."""
