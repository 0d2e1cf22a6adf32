"""Probes what a model endpoint really does with at most 40 calls, and judges the observations."""
