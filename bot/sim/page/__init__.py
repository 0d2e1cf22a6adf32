"""The demo's chat page."""
