"""Checks of simulated endpoints, over real HTTP."""

from dataclasses import replace
from typing import Any

from bot.check.client import CheckLimits
from bot.check.findings import CheckReport
from bot.check.probe import CheckOptions, run_check
from bot.http_server import serve
from bot.sim.vllm.server import ChatRequest
from tests.support.endpoint.server import ScriptedEndpoint, ScriptedReply, ServerProfile, scripted_brain

QUICK_LIMITS = CheckLimits(route_seconds=90, pause_seconds=(0.02, 0.1, 0.2))
LOAD_LIMITS = replace(QUICK_LIMITS, pause_seconds=(0.1, 0.5, 1.0))  # within canvases of a crowd
CANVAS_SECONDS = 1.5  # of a crowd: so slow that seats and their order show, also on a slow machine


def build_endpoint(
    profile: ServerProfile | None = None, *, seats: int = 16, **fields: Any
) -> ScriptedEndpoint:
    """An endpoint that answers at once, with seats for all calls of a check.

    Where some waited, it would be chance which was seen first.
    """
    return ScriptedEndpoint(profile or ServerProfile(), seats=seats, **fields)


def build_crowded_endpoint(
    profile: ServerProfile | None = None,
    *,
    seats: int = 4,
    canvas_seconds: float = CANVAS_SECONDS,
    **fields: Any,
) -> ScriptedEndpoint:
    """An endpoint with few seats, whose replies that count, as those of a crowd do, take their time."""

    def reply_slowly(request: ChatRequest) -> ScriptedReply:
        reply = scripted_brain(request)
        counts = request.user_texts[-1].startswith("Write the numbers")
        return ScriptedReply(reply, canvas_seconds) if counts else reply

    return ScriptedEndpoint(profile or ServerProfile(), seats=seats, brain=reply_slowly, **fields)


def ignore_progress(_done: int, _total: int, _what: str) -> None:
    """Ignore the progress."""


async def check_endpoint(endpoint: ScriptedEndpoint, **options: Any) -> CheckReport:
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
