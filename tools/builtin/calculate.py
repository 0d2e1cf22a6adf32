"""The calculator: exact where it can be, and bounded in time whatever the expression."""

from tools.arithmetic.formatting import format_number
from tools.arithmetic.parser import BitLimitExceeded, ExpressionRefused, evaluate_expression, evaluate_large
from tools.base import ToolError, tool
from tools.sandbox.process import SandboxLimits, SandboxStopped, run_in_sandbox

# Bits up to which numbers are computed in the gateway: a whole expression takes some milliseconds.
INLINE_MAX_BITS = 4096
SANDBOX_LIMITS = SandboxLimits(wall_seconds=4, cpu_seconds=3, memory_bytes=256 * 1024 * 1024)


@tool(repeatable=True, thinking="never", timeout=10)
async def calculate(expression: str) -> str:
    """Compute an expression exactly, such as 15% of 80; also sqrt, factorial, ln."""
    try:
        return format_number(evaluate_expression(expression, INLINE_MAX_BITS))
    except ExpressionRefused as refused:
        raise ToolError(str(refused)) from refused
    except BitLimitExceeded:
        return await calculate_in_sandbox(expression)


async def calculate_in_sandbox(expression: str, limits: SandboxLimits = SANDBOX_LIMITS) -> str:
    """The value of an expression with large numbers. Raises ToolError, also for one that takes too long."""
    try:
        outcome = await run_in_sandbox(evaluate_large, expression.encode(), limits)
    except SandboxStopped as stopped:
        raise ToolError("That takes too long to work out; ask for less.") from stopped
    if "refused" in outcome:
        raise ToolError(outcome["refused"])
    return str(outcome["value"])
