"""What narrower canvases and fewer steps would save: the limits to try, and two sentences.

Reads the ledger of the database that the settings name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.bench.endpoint.result import MeasuredCall
from bot.canvases import CANVAS_TOKENS, count_canvases
from bot.db.readonly import open_readonly
from bot.db.usage import report_sums
from bot.db.usage.usage_sums import Scope
from bot.errors import CanvasgramError
from bot.settings import NO_BOT_TOKEN, load_settings
from bot.usage.figures import format_share

NO_LEDGER = "There is no ledger here that says how much of your canvases stays unused."


@dataclass(frozen=True, slots=True)
class CanvasLimits:
    """What a request asks of its canvases: tokens, and denoising steps at most; None: as it is served."""

    width: int | None = None
    steps: int | None = None

    @property
    def label(self) -> str:
        """The limits in words."""
        canvas = f"canvas {self.width}" if self.width else "as served"
        return f"{canvas}, {self.steps} steps" if self.steps else canvas

    @property
    def fields(self) -> Mapping[str, int]:
        """The limits as vLLM's arguments of a request."""
        fields = {"diffusion_canvas_length": self.width, "diffusion_max_steps": self.steps}
        return {name: limit for name, limit in fields.items() if limit is not None}

    def count_canvases(self, call: MeasuredCall) -> int | None:
        """The canvases of a call, estimated."""
        if call.output is None:
            return None
        return max(1, count_canvases(call.output, self.width or CANVAS_TOKENS))


@dataclass(frozen=True, slots=True)
class LimitedSeconds:
    """The median seconds with limits: of a short answer and a tool call, and of prose and code."""

    label: str
    short: float
    long: float


def list_limits(widths: Sequence[int], steps: Sequence[int]) -> tuple[CanvasLimits, ...]:
    """As it is served, then each width with each limit of steps; nothing without any."""
    if not widths and not steps:
        return ()
    pairs = [CanvasLimits(width, limit) for width in widths or (None,) for limit in steps or (None,)]
    return (CanvasLimits(), *pairs)


async def describe_savings(sweep: Sequence[LimitedSeconds], *, simulated: bool) -> tuple[str, ...]:
    """Two sentences: what the best of the limits saved, and how much of the ledger's canvases is unused.

    Empty until one of the limits was tried.
    """
    if len(sweep) < 2:
        return ()
    served, *others = sweep
    best = min(others, key=lambda seconds: seconds.short)
    change = 100 * (best.short / served.short - 1)
    beginning = "Simulated, so true of no model: with" if simulated else "With"
    saved = (
        f"{beginning} {best.label} a short answer and a tool call took {best.short:.2f} s together instead "
        f"of {served.short:.2f} s ({change:+.0f} %), prose and code {best.long:.2f} s instead of "
        f"{served.long:.2f} s."
    )
    return saved, await _describe_ledger()


async def _describe_ledger() -> str:
    """How much of the canvases is unused in the database that the settings name."""
    try:
        url = load_settings(telegram_token=NO_BOT_TOKEN).database_url
        async with open_readonly(url) as database, database.long_read_transaction() as tx:
            rows = await report_sums.sum_calls(tx, Scope(), None)
    except CanvasgramError:
        return NO_LEDGER
    if not rows or not rows[0].canvases:
        return NO_LEDGER
    tokens = CANVAS_TOKENS * rows[0].canvases
    share = format_share(tokens - rows[0].output, tokens, decimals=0)
    return (
        f"Of the {rows[0].canvases:,} canvases in your ledger {share} stayed unused, which is the most that "
        "narrower ones could leave out."
    )
