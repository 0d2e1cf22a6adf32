"""The metrics at /metrics: sums of what ended since this process started, and the state of now.

They are read from the database at each request, so that nothing is counted in two places; of several replicas
each counts what ended while it led. Names are those of OpenTelemetry's `gen_ai` conventions where there are
any. No label has a person, a chat or a name that a model made up.
"""

import asyncio
import math
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder

from bot.canvases import costs_canvases, count_canvases
from bot.db.maintenance.backup import BackupDirectory
from bot.db.shares import OwnShares
from bot.db.usage.ended import INTERVALS, EndedRows, EndedWatcher

OTHER_TOOL = "other"  # a tool that was not offered
_TOKEN_BUCKETS = tuple(4**power for power in range(14))  # as OpenTelemetry advises
_CALL_SECONDS_BUCKETS = tuple(0.01 * 2**power for power in range(16))
_INTERVAL_SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_CONFIRMATION_SECONDS = 1.0
_CONFIRMATION_PAUSE_SECONDS = 0.01
_SINCE = "since this process began"


class SeatUsage(Protocol):
    """The seats of an endpoint."""

    @property
    def in_use(self) -> int: ...

    @property
    def queue_length(self) -> int: ...


@dataclass(frozen=True, slots=True)
class GatewayState:
    """What is asked about a gateway at each request.

    `is_ready`: as /healthz says. `data_folder`: where its database is. `backup_directory` None: it makes no
    backups. `own_shares`: of a replica.
    """

    is_ready: Callable[[], bool]
    data_folder: Path | None = None
    backup_directory: BackupDirectory | None = None
    own_shares: OwnShares | None = None


class GatewayMetrics:
    """The metrics of one gateway, in a registry of their own.

    `seats` are by endpoint; `is_known_tool` says which tool names may be labels.
    """

    def __init__(
        self,
        ended_watcher: EndedWatcher,
        seats: Mapping[str, SeatUsage],
        is_known_tool: Callable[[str], bool],
        version: str,
        state: GatewayState,
    ) -> None:
        self._ended_watcher = ended_watcher
        self._seats = seats
        self._is_known_tool = is_known_tool
        self._own_shares = state.own_shares
        self._lock = asyncio.Lock()
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series beside each counter
        registry = CollectorRegistry()
        self._registry = registry
        self._leader_registry = CollectorRegistry()  # what the sum over all replicas would count twice
        ProcessCollector(registry=registry)
        Info("canvasgram_build", "What runs.", registry=registry).info({"version": version})
        self._calls = _CallMetrics(registry)
        self._turns = Counter(
            "canvasgram_turns", f"Turns by how they ended, {_SINCE}.", ["ending"], registry=registry
        )
        self._tool_calls = Counter(
            "canvasgram_tool_calls", f"Tool calls, {_SINCE}.", ["tool", "outcome"], registry=registry
        )
        self._intervals = Histogram(
            "canvasgram_turn_interval_seconds",
            f"Where the seconds of a turn went, {_SINCE}; an interval that a turn had none of is left out.",
            ["interval"],
            registry=registry,
            buckets=_INTERVAL_SECONDS_BUCKETS,
        )
        self._in_use = Gauge(
            "canvasgram_seats_in_use",
            "Seats its calls hold now.",
            ["endpoint"],
            registry=registry,
        )
        self._queued = Gauge(
            "canvasgram_seats_waiting",
            "Its calls that wait for a seat.",
            ["endpoint"],
            registry=registry,
        )
        self._inbox = Gauge(
            "canvasgram_inbox_waiting",
            "Inbox items that wait, in the database.",
            registry=self._leader_registry,
        )
        self._outbox = Gauge(
            "canvasgram_outbox_waiting",
            "Messages to deliver, in the database.",
            registry=self._leader_registry,
        )
        self._oldest = Gauge(
            "canvasgram_oldest_waiting_seconds",
            "How long the message has waited that waits longest to be answered or delivered.",
            registry=self._leader_registry,
        )
        self._failed_jobs = Gauge(
            "canvasgram_system_jobs_failed",
            "System jobs that failed when they ran last.",
            registry=self._leader_registry,
        )
        self._shows_queues = False
        _add_state_gauges(registry, state)
        if state.own_shares is not None:
            _add_share_gauges(registry, state.own_shares)

    async def render(self, accept: str) -> tuple[bytes, str]:
        """The page in the format that `accept` asks for, and its media type. Raises StoreUnavailable."""
        async with self._lock:
            is_leader = False
            if await self._wait_until_confirmed():  # else the next request tells what has ended
                ended = await self._ended_watcher.poll(now=time.time())
                if self._own_shares is not None:
                    ended = ended.list_between(*self._own_shares.led_period)
                self._count(ended)
                is_leader = self._own_shares is None or self._own_shares.is_leader
            if is_leader:
                waiting = await self._ended_watcher.count_waiting()
                self._inbox.set(waiting.inbox)
                self._outbox.set(waiting.outbox)
                self._oldest.set(max(0.0, time.time() - (waiting.oldest_at or time.time())))
                self._failed_jobs.set(waiting.failed_jobs)
            self._show_queues(is_leader)
        for endpoint, seats in self._seats.items():
            self._in_use.labels(endpoint).set(seats.in_use)
            self._queued.labels(endpoint).set(seats.queue_length)
        encode, media_type = choose_encoder(accept)
        return encode(self._registry), media_type

    async def _wait_until_confirmed(self) -> bool:
        """Whether it is certain soon who leads; mostly a notification was not read yet."""
        deadline = time.monotonic() + _CONFIRMATION_SECONDS
        while self._own_shares is not None and not self._own_shares.is_confirmed():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_CONFIRMATION_PAUSE_SECONDS)
        return True

    def _show_queues(self, is_shown: bool) -> None:
        if is_shown and not self._shows_queues:
            self._registry.register(self._leader_registry)
        elif self._shows_queues and not is_shown:
            self._registry.unregister(self._leader_registry)
        self._shows_queues = is_shown

    def _count(self, ended: EndedRows) -> None:
        """Add what has ended since the last request."""
        for call in ended.calls:
            self._calls.count(call)
        for turn in ended.turns:
            self._turns.labels(turn.ending).inc()
        for tool in ended.tools:
            name = tool.name if self._is_known_tool(tool.name) else OTHER_TOOL
            self._tool_calls.labels(name, tool.outcome).inc()
        for breakdown in ended.accounts:
            for interval in INTERVALS:
                seconds = getattr(breakdown, interval)
                if seconds:
                    self._intervals.labels(interval).observe(seconds)


def _add_state_gauges(registry: CollectorRegistry, state: GatewayState) -> None:
    ready = Gauge("canvasgram_ready", "1 while a message sent now is stored and answered.", registry=registry)
    ready.set_function(state.is_ready)
    if (folder := state.data_folder) is not None:
        free = Gauge("canvasgram_disk_free_bytes", "Free disk where the database is.", registry=registry)
        free.set_function(lambda: shutil.disk_usage(folder).free)
    if (backup_directory := state.backup_directory) is not None:
        age = Gauge(
            "canvasgram_backup_age_seconds",
            "Age of the newest backup; +Inf: none.",
            registry=registry,
        )
        age.set_function(lambda: time.time() - (backup_directory.find_newest_time() or -math.inf))


def _add_share_gauges(registry: CollectorRegistry, own_shares: OwnShares) -> None:
    held = Gauge("canvasgram_shares_held", "Shares of the chats that this replica holds.", registry=registry)
    held.set_function(lambda: len(own_shares.holds))
    leads = Gauge("canvasgram_leads", "1 for the replica that leads.", registry=registry)
    leads.set_function(lambda: own_shares.is_leader)
    confirmed = Gauge("canvasgram_locks_confirmed", "1 while its locks are certain.", registry=registry)
    confirmed.set_function(own_shares.is_confirmed)


class EndedCall(Protocol):
    """The columns of a model call that metrics need."""

    purpose: str
    model: str
    outcome: str
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    reasoning_tokens: int | None
    seat_at: float | None
    ended_at: float | None


class _CallMetrics:
    """Model calls and what they took. Tokens are the server's counts; unknown ones are in no sum."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, description: str, *labels: str) -> Counter:
            return Counter(f"canvasgram_{name}", f"{description}, {_SINCE}.", labels, registry=registry)

        self._tokens = Histogram(
            "gen_ai_client_token_usage",
            f"Tokens a model call, as the server counted them, {_SINCE}.",
            ["gen_ai_operation_name", "gen_ai_request_model", "gen_ai_token_type"],
            registry=registry,
            buckets=_TOKEN_BUCKETS,
        )
        self._seconds = Histogram(
            "gen_ai_client_operation_duration_seconds",
            f"Seconds of a model call from its seat to its end, {_SINCE}.",
            ["gen_ai_operation_name", "gen_ai_request_model", "error_type"],
            registry=registry,
            buckets=_CALL_SECONDS_BUCKETS,
        )
        self._call_count = counter("model_calls", "Model calls", "purpose", "outcome", "model")
        self._uncounted = counter("model_calls_uncounted", "Model calls without a count of tokens", "purpose")
        self._canvases = counter(
            "canvases_estimated", "Canvases, estimated call by call from tokens", "purpose"
        )
        self._cached = counter("cached_tokens", "Prompt tokens that the server had in its cache", "model")
        self._reasoning = counter("reasoning_tokens", "Output tokens of thought", "model")

    def count(self, call: EndedCall) -> None:
        """Count one more call."""
        self._call_count.labels(call.purpose, call.outcome, call.model).inc()
        if call.prompt_tokens is not None:
            self._tokens.labels("chat", call.model, "input").observe(call.prompt_tokens)
        if call.completion_tokens is not None:
            self._tokens.labels("chat", call.model, "output").observe(call.completion_tokens)
        if call.cached_tokens is not None:
            self._cached.labels(call.model).inc(call.cached_tokens)
        if call.reasoning_tokens is not None:
            self._reasoning.labels(call.model).inc(call.reasoning_tokens)
        if call.completion_tokens is None:
            self._uncounted.labels(call.purpose).inc()
        elif costs_canvases(call.purpose):
            self._canvases.labels(call.purpose).inc(count_canvases(call.completion_tokens))
        if call.seat_at is not None and call.ended_at is not None:
            error = "" if call.outcome == "ok" else call.outcome
            self._seconds.labels("chat", call.model, error).observe(call.ended_at - call.seat_at)
