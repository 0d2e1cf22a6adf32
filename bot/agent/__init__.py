"""Thinking: what to send to the model, what its reply means, what a turn does next. Knows neither Telegram
nor SQL.
"""
