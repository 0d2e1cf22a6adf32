"""Reads what a check needs of a server's `/metrics` page: who runs, who waits, what was denoised. Pure."""

import math
import re

from bot.check.seen import Gauges

_SAMPLE = re.compile(r"^vllm:(?P<name>\w+)(?:\{[^\n]*\})? (?P<value>\S+)", re.MULTILINE)


def gauges_of(page: str) -> Gauges | None:
    """The numbers of the page, summed over engines; None if it does not tell what runs and waits."""
    sums: dict[str, float] = {}
    for sample in _SAMPLE.finditer(page):
        try:
            value = float(sample["value"])
        except ValueError:
            continue
        if math.isfinite(value):
            sums[sample["name"]] = sums.get(sample["name"], 0.0) + value
    if "num_requests_running" not in sums or "num_requests_waiting" not in sums:
        return None
    steps, committed = sums.get("diffusion_num_denoising_steps_total"), sums.get("diffusion_num_committed_tokens_total")
    return Gauges(round(sums["num_requests_running"]), round(sums["num_requests_waiting"]), steps, committed)
