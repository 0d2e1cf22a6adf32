"""`bench thinking`, `tools` and `prefill`: when it thinks, which tools it offers, what it sends again."""
