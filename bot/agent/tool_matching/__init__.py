"""Matches a message against the tools offered: text features and a small trained model. Pure.

Learns nothing about users; its word lists and weights are files beside the code, read once.
"""
