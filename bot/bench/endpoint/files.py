"""Writes a result into a folder: JSON for machines, a Markdown page, and the picture. Owns the names of the
files.
"""

from pathlib import Path

from bot.bench.endpoint import json_output as result_json
from bot.bench.endpoint import output as result_table
from bot.bench.endpoint.result import BenchResult
from bot.bench.harness.bots import BenchFailed

FILE_NAME = "canvasgram-bench"


def write_files(result: BenchResult, folder: Path) -> list[Path]:
    """The files that were written; no picture where there is nothing to draw. Raises BenchFailed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        data, page, picture = (folder / f"{FILE_NAME}.{kind}" for kind in ("json", "md", "png"))
        data.write_text(result_json.format_json(result) + "\n", encoding="utf-8")
        page.write_text("\n".join(result_table.format_markdown(result)) + "\n", encoding="utf-8")
        from bot.bench.endpoint import (
            chart as result_picture,  # matplotlib: a second that only a picture is worth
        )

        drawn = result_picture.draw_chart(result, picture)
    except OSError as error:
        raise BenchFailed(f"{folder} cannot be written: {error.strerror}.") from None
    if drawn:
        return [data, page, picture]
    return [data, page]
