"""The replies of the demo's simulated model."""
