"""The conditions of a run: cores and load of the machine."""

import os


def count_cores() -> int:
    """How many processes can run at once."""
    return os.cpu_count() or 1


def read_load() -> float | None:
    """How many processes ran or waited to, over the last minute; None where the machine does not say."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def describe_load() -> str:
    """The load of the machine over 1, 5 and 15 minutes."""
    try:
        return " ".join(f"{load:.1f}" for load in os.getloadavg())
    except OSError:
        return "unknown"
