"""Reads what a check needs of a server's `/metrics` page: who runs, who waits, what was denoised. Pure."""

from bot.check.observations import Gauges
from bot.llm.server_api import parse_samples


def parse_gauges(page: str) -> Gauges | None:
    """The numbers of the page, summed over engines; None if it does not tell what runs and waits."""
    told = parse_samples(page)
    if "num_requests_running" not in told or "num_requests_waiting" not in told:
        return None
    steps = told.get("diffusion_num_denoising_steps_total")
    committed = told.get("diffusion_num_committed_tokens_total")
    return Gauges(told["num_requests_running"], told["num_requests_waiting"], steps, committed)
