"""Tools from OpenAPI documents: fetched, read in a sandbox, and made into routes."""
