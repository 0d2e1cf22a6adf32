"""`bench thinking` and `bench tools`: how well the gateway decides when to think and which tools to offer."""
