"""The composition root: builds every part of the gateway and runs them."""
