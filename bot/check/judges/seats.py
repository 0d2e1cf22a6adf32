"""Judges what several calls at once showed: how many run, who goes first, and whether leaving frees a seat.
Pure.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from bot.check.findings import Verdict, failed, passed, unknown, warned
from bot.check.observations import Answer, Crowd, Seen

_BUSY = 503
_BLOCKS_LEFT = 8  # at least, of the reply that was left
_QUICK = 0.02  # seconds a canvas; below it the order of two calls is chance
_ALONE = "Others are using the endpoint now; ask again when it is idle."


def seats(seen: Seen) -> Verdict:
    """How many calls run before one waits."""
    crowd = seen.crowd
    if crowd is None:
        return unknown(f"Not tried: {seen.why('crowd')}.")
    if _shared(crowd):
        return unknown(_ALONE)
    refused = sum(call.status == _BUSY for call in crowd.calls)
    if refused:
        return warned(
            f"{refused} of {len(crowd.calls)} calls at once were refused with HTTP 503.",
            "--max-num-queued-reqs counts running calls, too: seats and as many that may wait",
        )
    if not all(call.ok for call in crowd.calls):
        return unknown("Some of the calls at once came to nothing.")
    found, more = _run_at_once(crowd)
    if found is None:
        return unknown("The calls were over before it showed who waited.")
    told = f"{'At least ' if more else ''}{found} of {len(crowd.calls)} calls ran at once"
    if not more and seen.needs_seats is not None and found < seen.needs_seats:
        return warned(
            f"{told}; the gateway is set to {seen.needs_seats}.",
            f"MODEL_SEATS={found}, or --max-num-seqs {seen.needs_seats}",
        )
    return passed(f"{told}." if more else f"{told}, the others waited.")


def priority(seen: Seen) -> Verdict:
    """Whether an urgent call goes before those that wait."""
    crowd = seen.crowd
    if crowd is None:
        return unknown(f"Not tried: {seen.why('crowd')}.")
    if seen.refuses_ours is not None:
        return unknown("The common protocol has no priorities.")
    if _shared(crowd):
        return unknown(_ALONE)
    found, _ = _run_at_once(crowd)
    gap = _gap(crowd.calls)
    if found is None or gap < _QUICK or crowd.urgent is None or crowd.urgent.first_block is None:
        return unknown("Nobody had to wait, or not for long enough to see an order.")
    begun = crowd.urgent.began
    shown = crowd.urgent.first_block
    # Who got a seat before the urgent call was there says nothing; a first block comes a canvas after the
    # seat.
    rivals = [first for first in _waiters(crowd, found) if first > begun + 1.25 * gap]
    before = sum(first < shown - gap / 2 for first in rivals)
    after = sum(first > shown + gap / 2 for first in rivals)
    if after and not before:
        return passed("An urgent call went before those that waited.")
    if before and not after:
        return warned(
            "An urgent call had to wait behind calls that were not. Warming up and summaries may delay people.",
            "--scheduling-policy priority",
        )
    return unknown("The urgent call and those that waited got their seats together, or none waited any more.")


def abort(seen: Seen) -> Verdict:
    """Whether a call that was left gives its seat back."""
    left = seen.abort
    if left is None:
        return unknown(f"Not tried: {seen.why('abort')}.")
    if left.before is None:
        return unknown("Without /metrics it does not show what runs.")
    if left.before.running or left.before.waiting:
        return unknown(_ALONE)
    if left.over or not left.looks:
        return unknown("The reply was over before it could be left.")
    if left.looks[-1].running > 0:
        return failed(
            "A call that was left in the middle still runs: /stop does not free the seat.",
            "a proxy in front that closes its own connection when its client goes",
        )
    if left.watched > _BLOCKS_LEFT * left.pace:
        return unknown("The reply may have ended by itself, so quickly does it write.")
    return passed("A call that is left in the middle frees its seat.")


def _shared(crowd: Crowd) -> bool:
    return crowd.before is not None and (crowd.before.running > 0 or crowd.before.waiting > 0)


def _run_at_once(crowd: Crowd) -> tuple[int | None, bool]:
    """How many ran at once, and whether it may be more; None if it did not show."""
    queued = [look.running for look in crowd.looks if look.waiting]
    if queued:
        return max(queued), False
    if any(look.running >= len(crowd.calls) for look in crowd.looks):
        return len(crowd.calls), True
    waits = [call.queued for call in crowd.calls if call.queued is not None]
    if len(waits) < len(crowd.calls):
        return None, False
    least = max(_QUICK, _gap(crowd.calls) / 2)
    waited = sum(wait > least for wait in waits)
    return len(crowd.calls) - waited, waited == 0


def _waiters(crowd: Crowd, running: int) -> list[float]:
    """When those that had no seat at once showed their first block."""
    shown = sorted(call.first_block for call in crowd.calls if call.first_block is not None)
    return shown[running:]


def _gap(calls: Sequence[Answer]) -> float:
    """Seconds between the blocks of a reply, typically; 0 where there is none."""
    gaps = [later.after - earlier.after for call in calls for earlier, later in pairwise(call.blocks)]
    if gaps:
        return median(gaps)
    return 0.0
