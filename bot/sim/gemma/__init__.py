"""A simulation of Gemma's chat template, tokens and parsers."""
