"""Makes text of strangers safe for a prompt: control tokens and prompt injection."""
