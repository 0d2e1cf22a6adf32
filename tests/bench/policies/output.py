"""Reports of the benches of policies as JSON. Pure."""

import json
from dataclasses import asdict
from typing import Any


def format_json(report: Any) -> str:
    """A report with conditions, for machines."""
    return json.dumps({**asdict(report), "conditions": dict(report.conditions)}, indent=1, ensure_ascii=False)
