"""People and groups: roles, who is let in, names, time zones, limits, and sessions of the admins' page."""
