"""Faults that a test injects into the simulated endpoint; owns the queue of those to come."""

import random
from dataclasses import dataclass
from typing import Literal, get_args

from bot.sim.vllm.request import RequestRecord

EndpointFaultKind = Literal[
    "busy",  # 503 before anything is read
    "unauthorized",  # 401
    # The engine dies: 500, open streams get an error line, then /health 503, then connections are cut
    "crash",
    "reset",  # the connection is cut; in a stream after `after_canvases` canvases
    "error_line",  # an error in mid-stream, then [DONE]; 500 where nothing is streamed
    "silent",  # nothing more comes, and the connection stays open
    "slow",  # `seconds` more before the first canvas
    "no_usage",  # the usage chunk is missing, and running usage with it
]


@dataclass(slots=True)
class EndpointFault:
    """What fails, how often (None: forever), how far into the reply, and for which share of requests."""

    kind: EndpointFaultKind
    times: int | None = 1
    after_canvases: int = 0
    seconds: float = 0.0
    rate: float = 1.0


@dataclass(slots=True)
class FaultyRecord(RequestRecord):
    """A request of the log with the fault that hits it."""

    fault: EndpointFault | None = None
    canvas_delay: float = 0.0

    @property
    def fault_kind(self) -> EndpointFaultKind | None:
        return self.fault.kind if self.fault else None


class EndpointFaultQueue:
    """The faults to come.

    Each request takes the first one that applies to it; `rate` is drawn from a seeded source.
    """

    def __init__(self, seed: int = 0) -> None:
        self._faults: list[EndpointFault] = []
        self._random = random.Random(seed)

    def add(self, fault: EndpointFault) -> None:
        """Inject the fault from the next request on."""
        if fault.kind not in get_args(EndpointFaultKind):
            raise ValueError(f"unknown fault {fault.kind!r}; one of {', '.join(get_args(EndpointFaultKind))}")
        self._faults.append(fault)

    def clear(self) -> None:
        """Remove all faults."""
        self._faults.clear()

    def take(self) -> EndpointFault | None:
        """The fault of the request that has just arrived."""
        for fault in self._faults:
            if fault.rate < 1 and self._random.random() >= fault.rate:
                continue
            if fault.times is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self._faults.remove(fault)
            return fault
        return None
