"""Queries: registered tools, grants, approvals, audit."""
