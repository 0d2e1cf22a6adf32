"""The outside world, small, over real HTTP: an endpoint and a Bot API, for demo, tests and bench."""
