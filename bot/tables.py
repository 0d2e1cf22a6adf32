"""Tables as lines of text for a terminal, laid out by rich. Pure.

Texts are printed as they are: a caller that got one from outside escapes it first.
"""

from collections.abc import Iterable, Sequence
from io import StringIO

MAX_WIDTH = 10_000  # characters; wider than any table, so that only `column_widths` wrap texts
_RULE_BELOW_HEADERS = "    \n    \n----\n    \n    \n    \n    \n    \n"  # a box of rich: its third line


def format_table(
    rows: Iterable[Sequence[str]],
    *,
    headers: Sequence[str] = (),
    text_columns: int = 1,
    rule: bool = False,
    title: str = "",
    column_widths: Sequence[int] = (),
) -> list[str]:
    """The lines of a table, without spaces at their ends; columns are two spaces apart.

    The first `text_columns` are aligned left, the others right. `rule` draws a line of dashes below the
    headers. Texts that are wider than their column in `column_widths` (characters) are wrapped; without it
    columns are as wide as their texts.
    """
    from rich.box import Box  # rich takes longer to load than most commands take
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    table = Table(
        title=title or None,
        title_justify="left",
        title_style="",
        header_style="",
        box=None,
        show_header=bool(headers),
        show_edge=False,
        pad_edge=False,
    )
    if rule:
        table.box = Box(_RULE_BELOW_HEADERS)
        table.padding = (0, 1, 0, 0)  # the box has a column of spaces of its own
    for index in range(max(map(len, [headers, *rows]))):
        header = Text("".join(headers[index : index + 1]))
        width = next(iter(column_widths[index : index + 1]), None)
        if index < text_columns:
            table.add_column(header, justify="left", width=width, overflow="fold")
        else:
            table.add_column(header, justify="right", width=width, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    output = StringIO()
    console = Console(
        file=output, width=MAX_WIDTH, color_system=None, highlight=False, markup=False, emoji=False
    )
    console.print(table)
    return [line.rstrip() for line in output.getvalue().splitlines()]
