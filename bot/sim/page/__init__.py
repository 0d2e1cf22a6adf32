"""The demo's chat page, served in the browser."""
