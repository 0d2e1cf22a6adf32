"""A logarithmic histogram of seconds: small to store, easy to add, percentiles with a known error.

Pure. The writer and the readers of stored durations share it.
"""

import math
from collections.abc import Mapping

MIN_SECONDS = 0.001  # what is shorter is not counted
BUCKET_GROWTH = 1.05  # the end of a bucket, as a multiple of its beginning
MAX_RELATIVE_ERROR = math.sqrt(BUCKET_GROWTH) - 1
"""How far a percentile may be from the true one, as a share of that: half a bucket."""


def bucket_number(seconds: float) -> int | None:
    """The bucket of a duration, numbered from 0; None if it is too short to be counted."""
    if seconds < MIN_SECONDS:
        return None
    return int(math.log(seconds / MIN_SECONDS) / math.log(BUCKET_GROWTH))


def bucket_midpoint(number: int) -> float:
    """The duration that a bucket stands for, in seconds: its middle on the logarithmic scale."""
    return MIN_SECONDS * math.pow(BUCKET_GROWTH, number + 0.5)


def percentile(counts: Mapping[int, int], share: float) -> float:
    """The duration in seconds that `share` (0 to 1) of the counted ones do not exceed.

    `counts` must not be empty.
    """
    rank = max(1, math.ceil(share * sum(counts.values())))
    passed = 0
    for number in sorted(counts):
        passed += counts[number]
        if passed >= rank:
            break
    return bucket_midpoint(number)


def exact_percentile(durations: list[float], share: float) -> float:
    """The same for durations that are known one by one, in ascending order."""
    return durations[max(1, math.ceil(share * len(durations))) - 1]
