"""Percentiles. Pure."""

from collections.abc import Iterable


def percentile(values: Iterable[float], fraction: float) -> float | None:
    """The value below which `fraction` (0 to 1) of them lie, interpolated; None for no values."""
    ordered = sorted(values)
    if not ordered:
        return None
    position = fraction * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def median(values: Iterable[float]) -> float | None:
    """The middle value; None for no values."""
    return percentile(values, 0.5)
