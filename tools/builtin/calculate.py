"""The calculator: exact where it can be, and never longer than a moment, whatever it is asked."""

from tools.arithmetic.formatting import told
from tools.arithmetic.parser import Bigger, Refused, large, work_out
from tools.base import ToolError, tool
from tools.sandbox.process import Limits, Stopped, run_apart

QUICK = (
    4096  # bits up to which numbers are worked out in the gateway: a whole expression takes some milliseconds
)
APART = Limits(seconds=4, processor=3, memory=256 * 1024 * 1024)


@tool(repeatable=True, thinking="never", timeout=10)
async def calculate(expression: str) -> str:
    """Exact arithmetic with sqrt, factorial, gcd, ln, sin and the like.

    Args:
        expression: Such as 2^10/3 or 15% of 80.
    """
    try:
        return told(work_out(expression, QUICK))
    except Refused as refused:
        raise ToolError(str(refused)) from refused
    except Bigger:
        return await _large(expression)


async def _large(expression: str) -> str:
    try:
        found = await run_apart(large, expression.encode(), APART)
    except Stopped as stopped:
        raise ToolError("That takes too long to work out; ask for less.") from stopped
    if "refused" in found:
        raise ToolError(found["refused"])
    return str(found["told"])
