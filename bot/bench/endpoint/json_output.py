"""A result as one JSON object, for machines: every figure with its conditions; null is unknown. Pure."""

import json
from dataclasses import asdict
from typing import Any

from bot.bench.endpoint.published import PUBLISHED_FIGURES
from bot.bench.endpoint.result import BenchResult, GatewayDifference, MeasuredRow


def format_json(result: BenchResult) -> str:
    """Rows with their calls and what they amount to, tools, differences, the published figures, and the
    conditions.
    """
    found = {
        "whole": result.ended is None,
        "ended": result.ended,
        "conditions": dict(result.conditions),
        "canvas_seconds": result.canvas_seconds,
        "rows": [_row_json(row) for row in result.rows],
        "tools": [asdict(case) for case in result.tools],
        "differences": [_difference_json(one) for one in result.differences],
        "published": [asdict(one) for one in PUBLISHED_FIGURES],
    }
    return json.dumps(found, indent=1)


def _row_json(row: MeasuredRow) -> dict[str, Any]:
    amounts = {
        "output_tokens": row.output_tokens,
        "canvases_estimated": row.canvases,
        "seconds_an_answer": row.median_seconds,
        "first_block_seconds": row.first_block_seconds,
        "seconds_a_canvas": row.seconds_per_canvas,
        "seconds_a_further_canvas": row.seconds_per_further_canvas,
        "tokens_a_second_each": row.tokens_per_second,
        "tokens_a_second_in_all": row.total_tokens_per_second,
    }
    return asdict(row) | amounts


def _difference_json(difference: GatewayDifference) -> dict[str, Any]:
    return asdict(difference) | {
        "beside_model": difference.beside_model,
        "longer_model": difference.longer_model,
    }
