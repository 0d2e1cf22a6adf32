"""The endpoint that `canvasgram bench … --endpoint sim` selects, for a test to act upon."""

from typing import Any

from bot.bench.endpoint import simulated
from bot.sim.vllm.server import Timing
from tests.support.endpoint.server import ScriptedEndpoint


def build_bench_endpoint(timing: Timing, **fields: Any) -> ScriptedEndpoint:
    """The endpoint; `timing` is what the bench should measure."""
    return ScriptedEndpoint(timing=timing, seats=simulated.SEATS, brain=simulated.answer_prompt, **fields)
