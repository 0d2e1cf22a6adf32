"""The chart of the last 30 days, as a photo: drawn in a process of its own."""

import base64
import json
import logging
from dataclasses import dataclass
from datetime import date

from bot.attachments.outgoing_files import prepare_file
from bot.domain import OutgoingFile
from bot.jobs.times.formatting import format_zone
from bot.translations.translator import ENGLISH, Translator
from bot.usage import charts
from bot.usage.chart_image import ChartJson, draw_png_base64
from bot.usage.report import UsageReport
from tools.sandbox.process import SandboxLimits, SandboxStopped, run_in_sandbox

# Separate, because Pillow takes a tenth of a second to load and keeps megabytes.
CHART_LIMITS = SandboxLimits(
    wall_seconds=30.0, cpu_seconds=20, memory_bytes=3 * 1024**3, max_result_bytes=4 * 1024**2
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CaptionedChart:
    """A chart, and what is written below the picture."""

    chart: ChartJson
    caption: str


def build_usage_chart(
    report: UsageReport, last_day: date, translate: Translator, *, is_admin: bool
) -> CaptionedChart:
    """The chart of a report by day, of a person or of everybody. Admins see what was written, too."""
    chart_translate = translate
    if translate.language in charts.UNDRAWABLE_LANGUAGES:
        chart_translate = ENGLISH
    chart = charts.build_daily_chart(
        report, last_day, _format_title(report, chart_translate), chart_translate, with_output=is_admin
    )
    return CaptionedChart(chart, _format_title(report, translate))


async def draw_chart(chart: CaptionedChart) -> OutgoingFile | None:
    """The picture of a chart; None if it cannot be drawn."""
    body = json.dumps(chart.chart).encode()
    try:
        png = base64.b64decode(await run_in_sandbox(draw_png_base64, body, CHART_LIMITS))
    except SandboxStopped as error:
        _log.warning("a chart was not drawn: %s", error, extra={"action": "pictures.lost"})
        return None
    return prepare_file("usage.png", png, chart.caption)


def _format_title(report: UsageReport, translate: Translator) -> str:
    scope = report.query.scope
    if scope.user is None:
        return translate("Everybody, the last 30 days ({zone})", zone=format_zone(scope.zone))
    return translate("You, the last 30 days ({zone})", zone=format_zone(scope.zone))
