"""How well a message fits the tools on offer: words brought to a comparable form, and a small trained model.
Pure.

Learns nothing of people; its lists and weights are files beside the code, read once.
"""
