"""Draws a report in a process of its own and sends it as a photo.

Not through the outbox: a picture that is lost on its way is asked for again, and what it shows was said in
words.
"""

import base64
import json
import logging

from bot.domain import Lane
from bot.telegram.best_effort_calls import Gestures
from bot.usage import charts
from bot.usage.report import Report
from tools.sandbox.process import Limits, Stopped, run_apart

# The drawing library takes a second to load and keeps tens of megabytes: neither is the gateway's.
LIMITS = Limits(seconds=30.0, processor=20, memory=3 * 1024**3, answer=4 * 1024**2)

_log = logging.getLogger(__name__)


async def send(gestures: Gestures, lane: Lane, report: Report, title: str) -> None:
    """Draw and send; a picture that cannot be drawn is said to be so."""
    body = json.dumps(charts.chart(report, title)).encode()
    try:
        png = base64.b64decode(await run_apart(charts.apart, body, LIMITS))
    except Stopped as why:
        _log.warning("a picture was not drawn: %s", why, extra={"action": "pictures.lost"})
        await gestures.line(lane, "The picture could not be drawn.")
        return
    await gestures.photo(lane, png, title)
