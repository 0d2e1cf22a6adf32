"""Registered tools: their sources and secrets, grants, approvals, the log of calls, and the audit log."""
