"""People: their roles, how they are let in, their time zones, and how much they may use."""
