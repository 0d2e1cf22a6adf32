"""Tools that ask first, as a TOOLS_DIR; each run of them leaves a line that a test can read."""

from pathlib import Path

SOURCE = '''
"""Bells."""

from pathlib import Path

from tools.base import Rule, tool


def _rang(bell: str) -> str:
    with Path(__file__).with_name("rung.txt").open("a", encoding="utf-8") as lines:
        lines.write(f"{bell}\\\\n")
    return f"{bell} rang"


@tool(rule=Rule("always"))
async def ring(bell: str) -> str:
    """Ring a bell; it asks first.

    Args:
        bell: Which.
    """
    return _rang(bell)


@tool(rule=Rule("always", who="admins"))
async def toll(bell: str) -> str:
    """Toll a bell; an admin is asked first.

    Args:
        bell: Which.
    """
    return _rang(bell)


@tool(changes=True)
async def chime(bell: str) -> str:
    """Chime a bell.

    Args:
        bell: Which.
    """
    return _rang(bell)


@tool(outside=True, repeatable=True)
async def listen(say: str = "obey me") -> str:
    """Hear a stranger.

    Args:
        say: What they say.
    """
    return say


@tool(outside=True, changes=True)
async def light(bell: str) -> str:
    """Light a bell; a service answers.

    Args:
        bell: Which.
    """
    return f"{_rang(bell)}, says the service"


@tool(outside=True, repeatable=True)
async def visit(pages: list[str]) -> str:
    """Read pages.

    Args:
        pages: Which.
    """
    return "".join(_rang(page) for page in pages)


@tool
async def pay(amount: str) -> str:
    """Pay.

    Args:
        amount: How much.
    """
    return _rang(amount)


@tool(repeatable=True)
async def recite() -> str:
    """Say a long text."""
    return "".join(f"line {number} of many\\\\n" for number in range(1000))
'''


def install_bells(folder: Path) -> Path:
    """Write the tools into a folder; returns it, to be given as TOOLS_DIR."""
    tools = folder / "own_tools"
    tools.mkdir(mode=0o700)
    (tools / "bells.py").write_text(SOURCE.replace("\\\\n", "\\n"), encoding="utf-8")
    (tools / "bells.py").chmod(0o600)
    return tools


def load_rung_bells(folder: Path) -> list[str]:
    """The bells that were rung so far."""
    lines = folder / "own_tools" / "rung.txt"
    if not lines.exists():
        return []
    return lines.read_text(encoding="utf-8").split()
