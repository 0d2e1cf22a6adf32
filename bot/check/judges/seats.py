"""Judges what several calls at once showed: how many run, who goes first, and whether leaving frees a seat.
Pure.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from bot.check.findings import Verdict, fail_verdict, pass_verdict, unknown_verdict, warn_verdict
from bot.check.observations import LoadProbeResult, Observations, ProbeResponse

_HTTP_BUSY = 503
_MIN_BLOCKS_LEFT = 8  # at least, of the reply that was left
_MIN_CANVAS_SECONDS = 0.02  # seconds a canvas; below it the order of two calls is chance
_IN_USE_REASON = "Others are using the endpoint now; ask again when it is idle."


def judge_seats(observations: Observations) -> Verdict:
    """How many calls run before one waits."""
    crowd = observations.crowd
    if crowd is None:
        return unknown_verdict(f"Not tried: {observations.unknown_reason('crowd')}.")
    if _is_shared(crowd):
        return unknown_verdict(_IN_USE_REASON)
    refused = sum(call.status == _HTTP_BUSY for call in crowd.calls)
    if refused:
        return warn_verdict(
            f"{refused} of {len(crowd.calls)} calls at once were refused with HTTP 503.",
            "--max-num-queued-reqs counts running calls, too: seats and as many that may wait",
        )
    if not all(call.ok for call in crowd.calls):
        return unknown_verdict("Some of the calls at once came to nothing.")
    found, more = _count_concurrent(crowd)
    if found is None:
        return unknown_verdict("The calls were over before it showed who waited.")
    told = f"{'At least ' if more else ''}{found} of {len(crowd.calls)} calls ran at once"
    if not more and observations.needs_seats is not None and found < observations.needs_seats:
        return warn_verdict(
            f"{told}; the gateway is set to {observations.needs_seats}.",
            f"MODEL_SEATS={found}, or --max-num-seqs {observations.needs_seats}",
        )
    return pass_verdict(f"{told}." if more else f"{told}, the others waited.")


def judge_priority(observations: Observations) -> Verdict:
    """Whether an urgent call goes before those that wait."""
    crowd = observations.crowd
    if crowd is None:
        return unknown_verdict(f"Not tried: {observations.unknown_reason('crowd')}.")
    if observations.refuses_ours is not None:
        return unknown_verdict("The common protocol has no priorities.")
    if _is_shared(crowd):
        return unknown_verdict(_IN_USE_REASON)
    found, _ = _count_concurrent(crowd)
    gap = _median_block_gap(crowd.calls)
    if (
        found is None
        or gap < _MIN_CANVAS_SECONDS
        or crowd.urgent is None
        or crowd.urgent.first_block_at is None
    ):
        return unknown_verdict("Nobody had to wait, or not for long enough to see an order.")
    begun = crowd.urgent.began
    shown = crowd.urgent.first_block_at
    # Who got a seat before the urgent call was there says nothing; a first block comes a canvas after the
    # seat.
    rivals = [first for first in _first_blocks_of_waiting(crowd, found) if first > begun + 1.25 * gap]
    before = sum(first < shown - gap / 2 for first in rivals)
    after = sum(first > shown + gap / 2 for first in rivals)
    if after and not before:
        return pass_verdict("An urgent call went before those that waited.")
    if before and not after:
        return warn_verdict(
            "An urgent call had to wait behind calls that were not. Warming up and summaries may delay people.",
            "--scheduling-policy priority",
        )
    return unknown_verdict(
        "The urgent call and those that waited got their seats together, or none waited any more."
    )


def judge_abort(observations: Observations) -> Verdict:
    """Whether a call that was left gives its seat back."""
    left = observations.abort
    if left is None:
        return unknown_verdict(f"Not tried: {observations.unknown_reason('abort')}.")
    if left.before is None:
        return unknown_verdict("Without /metrics it does not show what runs.")
    if left.before.running or left.before.waiting:
        return unknown_verdict(_IN_USE_REASON)
    if left.has_ended or not left.gauge_samples:
        return unknown_verdict("The reply was over before it could be left.")
    if left.gauge_samples[-1].running > 0:
        return fail_verdict(
            "A call that was left in the middle still runs: /stop does not free the seat.",
            "a proxy in front that closes its own connection when its client goes",
        )
    if left.watched_seconds > _MIN_BLOCKS_LEFT * left.first_block_seconds:
        return unknown_verdict("The reply may have ended by itself, so quickly does it write.")
    return pass_verdict("A call that is left in the middle frees its seat.")


def _is_shared(result: LoadProbeResult) -> bool:
    return result.before is not None and (result.before.running > 0 or result.before.waiting > 0)


def _count_concurrent(result: LoadProbeResult) -> tuple[int | None, bool]:
    """How many ran at once, and whether it may be more; None if it did not show."""
    queued = [look.running for look in result.gauge_samples if look.waiting]
    if queued:
        return max(queued), False
    if any(look.running >= len(result.calls) for look in result.gauge_samples):
        return len(result.calls), True
    waits = [call.queue_seconds for call in result.calls if call.queue_seconds is not None]
    if len(waits) < len(result.calls):
        return None, False
    least = max(_MIN_CANVAS_SECONDS, _median_block_gap(result.calls) / 2)
    waited = sum(wait > least for wait in waits)
    return len(result.calls) - waited, waited == 0


def _first_blocks_of_waiting(result: LoadProbeResult, running: int) -> list[float]:
    """When those that had no seat at once showed their first block."""
    shown = sorted(call.first_block_at for call in result.calls if call.first_block_at is not None)
    return shown[running:]


def _median_block_gap(calls: Sequence[ProbeResponse]) -> float:
    """Seconds between the blocks of a reply, typically; 0 where there is none."""
    gaps = [
        later.after_seconds - earlier.after_seconds
        for call in calls
        for earlier, later in pairwise(call.blocks)
    ]
    if gaps:
        return median(gaps)
    return 0.0
