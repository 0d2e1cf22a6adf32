"""Draws a report in a separate process and sends it as a photo.

Not through the outbox: a picture that is lost can be asked for again, and its figures were sent as text.
"""

import base64
import json
import logging

from bot.domain import Lane
from bot.telegram.best_effort_calls import BestEffortCalls
from bot.usage import charts
from bot.usage.report import UsageReport
from tools.sandbox.process import SandboxLimits, SandboxStopped, run_in_sandbox

# Separate, because the drawing library takes a second to load and keeps tens of megabytes.
CHART_LIMITS = SandboxLimits(
    wall_seconds=30.0, cpu_seconds=20, memory_bytes=3 * 1024**3, max_result_bytes=4 * 1024**2
)

_log = logging.getLogger(__name__)


async def send_chart(best_effort_calls: BestEffortCalls, lane: Lane, report: UsageReport, title: str) -> None:
    """Draw and send a picture, or a line if it cannot be drawn."""
    body = json.dumps(charts.build_chart(report, title)).encode()
    try:
        png = base64.b64decode(await run_in_sandbox(charts.draw_png_base64, body, CHART_LIMITS))
    except SandboxStopped as error:
        _log.warning("a picture was not drawn: %s", error, extra={"action": "pictures.lost"})
        await best_effort_calls.send_text(lane, "The picture could not be drawn.")
        return
    await best_effort_calls.send_photo(lane, png, title)
