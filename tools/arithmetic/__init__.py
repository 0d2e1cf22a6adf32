"""The calculator's parser and functions."""
