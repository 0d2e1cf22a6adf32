"""What a terminal shows of lines and tables."""

from collections.abc import Iterable

from rich.console import Console

from bot.tables import Line
from bot.tables.layout import format_lines


def lay_out(output: str | bytes | Iterable[Line], width: int = 1000) -> str:
    """The output of a command as text, so wide that nothing is wrapped."""
    assert not isinstance(output, bytes)
    if isinstance(output, str):
        return output
    return "\n".join(format_lines(output, Console(width=width, force_terminal=False)))
