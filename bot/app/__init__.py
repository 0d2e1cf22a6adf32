"""The composition root: builds every part of the gateway once and runs them side by side."""
