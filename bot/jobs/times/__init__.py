"""When something is due: words for times understood, rules of recurrence reckoned and told. Pure; knows no
table.
"""
