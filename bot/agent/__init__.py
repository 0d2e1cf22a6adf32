"""The pure core of a turn: what to send to the model, what its reply means, what happens next.

Knows neither Telegram nor SQL nor the wire format; a contract keeps clocks and the event loop out.
"""
