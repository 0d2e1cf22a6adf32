"""The judgements of a check, each a pure function from what was seen to a verdict."""
