"""Reduces a tool's result to what an admin lets the model read of it."""

from dataclasses import replace

from tools.reduction.expressions import reduce_json
from tools.results import Found
from tools.safety.plain_text import cut_text
from tools.sandbox.process import SandboxLimits, SandboxStopped, run_in_sandbox

MAX_EXCERPT_CHARS = 400  # of a result that the expression does not fit
SANDBOX_LIMITS = SandboxLimits(wall_seconds=5, cpu_seconds=4, memory_bytes=384 * 1024 * 1024)


async def reduce_result(result: Found, expression: str, limits: SandboxLimits = SANDBOX_LIMITS) -> Found:
    """A result with the part of its text that the expression finds; pictures and files stay.

    Of one that it does not fit, the model reads why, and how the text begins.
    """
    try:
        reduced = await run_in_sandbox(
            reduce_json, result.text.encode(errors="replace"), limits, expression=expression
        )
    except SandboxStopped as stopped:
        reduced = {"problem": str(stopped)}
    if "text" in reduced:
        return replace(result, text=reduced["text"])
    excerpt = cut_text(result.text, MAX_EXCERPT_CHARS)
    return replace(
        result,
        text=f"[The reduction that an admin has set does not fit this result: {reduced['problem']}. "
        f"It begins:]\n{excerpt}",
    )
