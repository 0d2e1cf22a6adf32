"""Seconds counted into buckets of a logarithmic scale: small to keep, easy to add, percentiles with a known
error.

Pure. Whoever stores durations and whoever reads them meets here.
"""

import math
from collections.abc import Mapping

MIN_SECONDS = 0.001  # seconds; what is shorter counts as none at all
BUCKET_GROWTH = 1.05  # how much longer the end of a bucket is than its beginning
MAX_RELATIVE_ERROR = math.sqrt(BUCKET_GROWTH) - 1
"""How far a percentile may be from the true one, as a share of it: half a bucket."""


def bucket_number(seconds: float) -> int | None:
    """The bucket of a duration, numbered from 0; None if it is none at all."""
    if seconds < MIN_SECONDS:
        return None
    return int(math.log(seconds / MIN_SECONDS) / math.log(BUCKET_GROWTH))


def bucket_midpoint(number: int) -> float:
    """The duration a bucket stands for, in seconds: as far from its beginning as from its end, on that scale."""
    return MIN_SECONDS * math.pow(BUCKET_GROWTH, number + 0.5)


def percentile(counts: Mapping[int, int], share: float) -> float:
    """The duration that `share` (0 to 1) of those counted do not exceed; there must be one at least."""
    wanted = max(1, math.ceil(share * sum(counts.values())))
    passed = 0
    for number in sorted(counts):
        passed += counts[number]
        if passed >= wanted:
            break
    return bucket_midpoint(number)


def exact_percentile(durations: list[float], share: float) -> float:
    """The same of durations that are known one by one, in order."""
    return durations[max(1, math.ceil(share * len(durations))) - 1]
