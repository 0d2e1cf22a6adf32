"""The judges of a check: each is a pure function from the observations to a verdict."""
