"""Measures the gateway from outside, beside two yardsticks that do the same work in the same run."""
