"""`bench thinking`, `tools` and `prefill`: when the gateway thinks, which tools it offers, what it sends again."""
