"""The calculator's parser, functions and number formatting."""
