"""Many tools, such as the services of a company have: more than a prompt can name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.base import Tool, ToolContext

ACTIONS = {
    "list": "List the {}s there are, the newest first.",
    "get": "Get one {} by its number.",
    "create": "Create a {}.",
    "update": "Change a {}.",
    "delete": "Delete a {} for good.",
    "archive": "Put a {} away.",
    "share": "Share a {} with somebody of the company.",
    "count": "Count the {}s of a month.",
    "export": "Export the {}s as a file.",
    "approve": "Approve a {} that waits.",
}
THINGS = (
    *(
        "invoice",
        "customer",
        "shipment",
        "warehouse",
        "contract",
        "supplier",
        "payslip",
        "vacancy",
        "campaign",
    ),
    *(
        "budget",
        "machine",
        "forklift",
        "pallet",
        "complaint",
        "refund",
        "voucher",
        "badge",
        "locker",
        "rota",
        "holiday",
    ),
)
SCHEMA = {
    "type": "object",
    "properties": {
        "number": {"type": "integer", "description": "Its number."},
        "remark": {"type": "string", "description": "What to note about it."},
    },
    "required": ["number"],
    "additionalProperties": False,
}


async def _run_tool(arguments: Mapping[str, Any], context: ToolContext) -> str:
    return f"done with {arguments['number']}"


def make_many_tools(count: int = 200, source: str = "company") -> list[Tool]:
    """`count` tools, each named `action_thing`."""
    pairs = [(action, thing) for thing in THINGS for action in ACTIONS]
    return [
        Tool(f"{action}_{thing}", ACTIONS[action].format(thing), SCHEMA, _run_tool, source=source)
        for action, thing in pairs[:count]
    ]


TOOLS_FILE = f'''"""Two hundred tools in one file."""

from dataclasses import replace

from tools.base import tool


@tool
async def one(number: int, remark: str = "") -> str:
    """One of many.

    Args:
        number: Its number.
        remark: What to note about it.
    """
    return f"done with {{number}}"


for thing in {THINGS!r}:
    for action, about in {ACTIONS!r}.items():
        name = f"{{action}}_{{thing}}"
        globals()[name] = replace(one, name=name, description=about.format(thing))
del one
'''
"""The same as a file of TOOLS_DIR."""


def write_tools_file(folder: Path) -> None:
    """Write these tools into a folder, to be given as TOOLS_DIR."""
    file = folder / "company.py"
    file.write_text(TOOLS_FILE)
    file.chmod(0o644)
