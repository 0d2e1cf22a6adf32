"""The demo: the whole gateway without a token or a GPU, on a page of this machine or for one question.

`command` runs it; the gateway is a process of its own (`gateway`), which imports nothing of the rest.
"""
