"""Draws a report in a process of its own and sends it as a photo.

Not through the outbox: a picture that is lost on its way is asked for again, and what it shows was said in
words.
"""

import base64
import json
import logging

from bot.domain import Lane
from bot.telegram.best_effort_calls import BestEffortCalls
from bot.usage import charts
from bot.usage.report import UsageReport
from tools.sandbox.process import SandboxLimits, SandboxStopped, run_in_sandbox

# The drawing library takes a second to load and keeps tens of megabytes: neither is the gateway's.
CHART_LIMITS = SandboxLimits(
    wall_seconds=30.0, cpu_seconds=20, memory_bytes=3 * 1024**3, max_result_bytes=4 * 1024**2
)

_log = logging.getLogger(__name__)


async def send_chart(best_effort_calls: BestEffortCalls, lane: Lane, report: UsageReport, title: str) -> None:
    """Draw and send; a picture that cannot be drawn is said to be so."""
    body = json.dumps(charts.build_chart(report, title)).encode()
    try:
        png = base64.b64decode(await run_in_sandbox(charts.draw_png_base64, body, CHART_LIMITS))
    except SandboxStopped as why:
        _log.warning("a picture was not drawn: %s", why, extra={"action": "pictures.lost"})
        await best_effort_calls.send_text(lane, "The picture could not be drawn.")
        return
    await best_effort_calls.send_photo(lane, png, title)
