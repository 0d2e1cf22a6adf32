"""Tools that the assistant can call, and what it takes to define, check and run them; never imports bot.

`threads`, `sandbox` and `net` serve the gateway as well.
"""
