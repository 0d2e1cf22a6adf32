"""The pure core of a turn: what to send to the model, what its reply means, what happens next.

Knows neither Telegram nor SQL. `toolbox` alone is not pure: it runs tools.
"""
