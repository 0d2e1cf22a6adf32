"""Judges several calls at once: how many run, which goes first, and whether an abort frees a seat. Pure."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from bot.check.findings import Verdict, fail_verdict, pass_verdict, unknown_verdict, warn_verdict
from bot.check.observations import LoadProbeResult, Observations, ProbeResponse

_HTTP_BUSY = 503
_MIN_BLOCKS_LEFT = 8  # blocks that the aborted reply still had, at least
_MIN_CANVAS_SECONDS = 0.02  # seconds per canvas; below it the order of two calls is chance
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
    running, may_be_more = _count_running(crowd)
    if running is None:
        return _judge_queue_times(crowd, observations.needs_seats)
    observation = f"{running} of {len(crowd.calls)} calls ran at once"
    unused = ""
    if observations.needs_seats is not None and running > observations.needs_seats:
        unused = f" The gateway uses {observations.needs_seats} of these seats: see MODEL_SEATS."
    if may_be_more:
        return pass_verdict(f"At least {observation}.{unused}")
    if observations.needs_seats is not None and running < observations.needs_seats:
        if _full_counts(crowd).count(running) == 1:
            return unknown_verdict(f"{observation}, but that showed only once; ask again.")
        return warn_verdict(
            f"{observation}; the gateway is set to {observations.needs_seats}.",
            f"MODEL_SEATS={running}, or --max-num-seqs {observations.needs_seats}",
        )
    return pass_verdict(f"{observation}, the others waited.{unused}")


def judge_priority(observations: Observations) -> Verdict:
    """Whether an urgent call runs before those that wait."""
    crowd = observations.crowd
    if crowd is None:
        return unknown_verdict(f"Not tried: {observations.unknown_reason('crowd')}.")
    if observations.refuses_ours is not None:
        return unknown_verdict("The common protocol has no priorities.")
    if _is_shared(crowd):
        return unknown_verdict(_IN_USE_REASON)
    running, _ = _count_running(crowd)
    if running is None:
        running = _count_at_most(crowd)
    gap = median_block_gap(crowd.calls)
    urgent = crowd.urgent
    has_waited = running is not None and gap >= _MIN_CANVAS_SECONDS
    if not has_waited or urgent is None or urgent.first_block_at is None:
        return unknown_verdict("Nobody had to wait, or not for long enough to see an order.")
    # A call with a seat before the urgent one was sent says nothing; a first block comes a canvas after the
    # seat.
    earliest = urgent.sent_at + 1.25 * gap
    rivals = [first for first in _first_blocks_of_waiting(crowd, running or 0) if first > earliest]
    is_behind = any(first < urgent.first_block_at - gap / 2 for first in rivals)
    is_ahead = any(first > urgent.first_block_at + gap / 2 for first in rivals)
    if is_ahead and not is_behind:
        return pass_verdict("An urgent call went before those that waited.")
    if is_behind and not is_ahead:
        return warn_verdict(
            "An urgent call had to wait behind calls that were not. "
            "Warming up and summaries may delay people.",
            "--scheduling-policy priority",
        )
    return unknown_verdict(
        "The urgent call and those that waited got their seats together, or none waited any more."
    )


def judge_abort(observations: Observations) -> Verdict:
    """Whether an aborted call frees its seat."""
    abort = observations.abort
    if abort is None:
        return unknown_verdict(f"Not tried: {observations.unknown_reason('abort')}.")
    if abort.before is None:
        return unknown_verdict("Without /metrics it does not show what runs.")
    if abort.before.running or abort.before.waiting:
        return unknown_verdict(_IN_USE_REASON)
    if abort.has_ended or not abort.gauge_samples:
        return unknown_verdict("The reply was over before it could be left.")
    if abort.gauge_samples[-1].running > 0:
        return fail_verdict(
            "A call that was left in the middle still runs: /stop does not free the seat.",
            "a proxy in front that closes its own connection when its client goes",
        )
    if abort.watched_seconds > _MIN_BLOCKS_LEFT * abort.first_block_seconds:
        return unknown_verdict("The reply may have ended by itself, so quickly does it write.")
    return pass_verdict("A call that is left in the middle frees its seat.")


def _is_shared(result: LoadProbeResult) -> bool:
    return result.before is not None and (result.before.running > 0 or result.before.waiting > 0)


def _judge_queue_times(crowd: LoadProbeResult, needs_seats: int | None) -> Verdict:
    """What the server's own queue times show: a quick call may have waited unseen, so only too few seats."""
    at_most = _count_at_most(crowd)
    if at_most is None or needs_seats is None or at_most >= needs_seats:
        return unknown_verdict("The calls were over before it showed who waited.")
    return warn_verdict(
        f"At most {at_most} of {len(crowd.calls)} calls ran at once; the gateway is set to {needs_seats}.",
        f"MODEL_SEATS={at_most}, or --max-num-seqs {needs_seats}",
    )


def _count_running(result: LoadProbeResult) -> tuple[int | None, bool]:
    """How many ran at once by the gauges, and whether it may be more; None if it did not show."""
    if any(sample.running >= len(result.calls) for sample in result.gauge_samples):
        return len(result.calls), True
    full_counts = _full_counts(result)
    if full_counts:
        return max(full_counts), False
    return None, False


def _count_at_most(result: LoadProbeResult) -> int | None:
    """How many ran at once, at most: all but those that the server says had waited; None if it does not."""
    queue_seconds = [call.queue_seconds for call in result.calls if call.queue_seconds is not None]
    if len(queue_seconds) < len(result.calls):
        return None
    min_wait = max(_MIN_CANVAS_SECONDS, median_block_gap(result.calls) / 2)
    return sum(seconds <= min_wait for seconds in queue_seconds)


def _full_counts(result: LoadProbeResult) -> list[int]:
    """How many ran at each look at which others waited.

    A look may fall between the end of one call and the start of the next: the most of all looks counts.
    """
    return [sample.running for sample in result.gauge_samples if sample.waiting]


def _first_blocks_of_waiting(result: LoadProbeResult, running: int) -> list[float]:
    """When the calls that had to wait showed their first block."""
    first_blocks = sorted(call.first_block_at for call in result.calls if call.first_block_at is not None)
    return first_blocks[running:]


def median_block_gap(calls: Sequence[ProbeResponse]) -> float:
    """The median of the seconds between two blocks of a reply; 0 where there is none."""
    gaps = [
        later.after_seconds - earlier.after_seconds
        for call in calls
        for earlier, later in pairwise(call.blocks)
    ]
    if gaps:
        return median(gaps)
    return 0.0
