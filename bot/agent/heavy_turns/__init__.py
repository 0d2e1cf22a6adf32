"""Estimates whether the work of a turn is heavy: several calls that build on or stand beside each other.

Pure: a small trained model over what the message says and which of the tools offered match it. Learns
nothing about users; its word classes and weights are files beside the code, read once.
"""
