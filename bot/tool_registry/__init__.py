"""The tools the house has now: its own, what admins registered, who may use which, and what is kept sealed
for them.
"""
