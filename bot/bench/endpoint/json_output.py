"""A result as one JSON object, for machines: every figure with its conditions; null is unknown. Pure."""

import json
from dataclasses import asdict
from typing import Any

from bot.bench.endpoint.published import FIGURES
from bot.bench.endpoint.result import Difference, Measured, Result


def as_json(result: Result) -> str:
    """Rows with their calls and what they amount to, tools, differences, the published figures, and the
    conditions.
    """
    found = {
        "whole": result.ended is None,
        "ended": result.ended,
        "conditions": dict(result.conditions),
        "canvas_seconds": result.canvas_seconds,
        "rows": [_row(row) for row in result.rows],
        "tools": [asdict(case) for case in result.tools],
        "differences": [_difference(one) for one in result.differences],
        "published": [asdict(one) for one in FIGURES],
    }
    return json.dumps(found, indent=1)


def _row(row: Measured) -> dict[str, Any]:
    amounts = {
        "output_tokens": row.output,
        "canvases_estimated": row.canvases,
        "seconds_an_answer": row.seconds,
        "first_block_seconds": row.first,
        "seconds_a_canvas": row.per_canvas,
        "seconds_a_further_canvas": row.further,
        "tokens_a_second_each": row.rate,
        "tokens_a_second_in_all": row.rate_in_all,
    }
    return asdict(row) | amounts


def _difference(one: Difference) -> dict[str, Any]:
    return asdict(one) | {"beside_model": one.beside_model, "longer_model": one.longer_model}
