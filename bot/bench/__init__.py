"""The same work done by the gateway and by yardsticks, measured in one run."""
