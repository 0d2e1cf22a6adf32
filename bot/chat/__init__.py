"""What people may do: who is let in, commands and buttons, groups, quota, and the messages that turns answer.

One runner handles the inbox items of each kind (update, reminder, task).
"""
