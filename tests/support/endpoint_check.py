"""Checks of simulated endpoints, over real HTTP."""

from dataclasses import replace
from typing import Any

from bot.check.client import Limits
from bot.check.command import run
from bot.check.findings import Report
from bot.check.probe import Wish
from bot.http_server import serve
from bot.sim.vllm.server import Endpoint

QUICK = Limits(call_seconds=20, pauses=(0.02, 0.1, 0.2))


def quiet(_done: int, _total: int, _what: str) -> None:
    """Nobody watches."""


async def check(endpoint: Endpoint, **wish: Any) -> Report:
    """The report about an endpoint."""
    async with serve(endpoint.app) as url:
        return await check_at(url, **wish)


async def check_at(url: str, **wish: Any) -> Report:
    """The report about whatever answers at this address."""
    return await run(replace(Wish(f"{url}/v1", limits=QUICK), **wish), quiet)


def wrong(report: Report) -> dict[str, str]:
    """What is warned of or fails."""
    return {finding.name: finding.status for finding in report.findings if finding.status in {"warn", "fail"}}
