"""The catalogues of the gateway's own words: `python -m tests.translations` writes them, tests check them."""
