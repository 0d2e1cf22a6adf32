"""The calculator: exact where it can be, and never longer than a moment, whatever it is asked."""

from tools.arithmetic.formatting import format_number
from tools.arithmetic.parser import BitLimitExceeded, ExpressionRefused, evaluate_expression, evaluate_large
from tools.base import ToolError, tool
from tools.sandbox.process import SandboxLimits, SandboxStopped, run_in_sandbox

INLINE_MAX_BITS = (
    4096  # bits up to which numbers are worked out in the gateway: a whole expression takes some milliseconds
)
SANDBOX_LIMITS = SandboxLimits(wall_seconds=4, cpu_seconds=3, memory_bytes=256 * 1024 * 1024)


@tool(repeatable=True, thinking="never", timeout=10)
async def calculate(expression: str) -> str:
    """Exact arithmetic with sqrt, factorial, gcd, ln, sin and the like.

    Args:
        expression: Such as 2^10/3 or 15% of 80.
    """
    try:
        return format_number(evaluate_expression(expression, INLINE_MAX_BITS))
    except ExpressionRefused as refused:
        raise ToolError(str(refused)) from refused
    except BitLimitExceeded:
        return await _calculate_in_sandbox(expression)


async def _calculate_in_sandbox(expression: str) -> str:
    try:
        found = await run_in_sandbox(evaluate_large, expression.encode(), SANDBOX_LIMITS)
    except SandboxStopped as stopped:
        raise ToolError("That takes too long to work out; ask for less.") from stopped
    if "refused" in found:
        raise ToolError(found["refused"])
    return str(found["told"])
