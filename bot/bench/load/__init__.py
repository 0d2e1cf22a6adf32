"""`bench load`: speed, memory, faults and endurance of the gateway, compared with two baseline bots."""
