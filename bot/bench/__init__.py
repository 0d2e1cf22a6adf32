"""Measures the gateway from outside, next to two baseline bots that do the same work in the same run."""
