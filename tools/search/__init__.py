"""Finds pages of the web through a search engine that the operator names."""
