"""Checks of simulated endpoints, over real HTTP."""

from dataclasses import replace
from typing import Any

from bot.check.client import CheckLimits
from bot.check.findings import CheckReport
from bot.check.probe import CheckOptions, run_check
from bot.http_server import serve
from bot.sim.vllm.server import SimulatedEndpoint

QUICK_LIMITS = CheckLimits(call_seconds=20, pause_seconds=(0.02, 0.1, 0.2))


def ignore_progress(_done: int, _total: int, _what: str) -> None:
    """Ignore the progress."""


async def check_endpoint(endpoint: SimulatedEndpoint, **options: Any) -> CheckReport:
    """The report about an endpoint."""
    async with serve(endpoint.app) as url:
        return await check_url(url, **options)


async def check_url(url: str, **options: Any) -> CheckReport:
    """The report about whatever answers at this address."""
    return await run_check(
        replace(CheckOptions(f"{url}/v1", limits=QUICK_LIMITS), **options), ignore_progress
    )


def problem_statuses(report: CheckReport) -> dict[str, str]:
    """What is warned of or fails."""
    return {finding.name: finding.status for finding in report.findings if finding.status in {"warn", "fail"}}
