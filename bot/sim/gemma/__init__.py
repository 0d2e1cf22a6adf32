"""Gemma template, tokens and parsers, simulated."""
