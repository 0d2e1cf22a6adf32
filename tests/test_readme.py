"""README is held to the code: every setting, every command, each with the words the code has for it, and no
other.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import typer

from bot.__main__ import cli
from bot.settings import Settings

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
LONG = {"system_prompt": "a short one of the house"}


def settings_rows() -> Iterator[str]:
    """The rows README's table of settings must have."""
    for name, field in Settings.model_fields.items():
        if field.is_required():
            default = "(needed)"
        elif name in LONG:
            default = LONG[name]
        else:
            default = f"`{field.default}`" if field.default else "–"
        yield f"| `{name.upper()}` | {default} | {field.description} |"


def command_rows() -> Iterator[str]:
    """The rows README's table of commands must have."""
    top = typer.main.get_command(cli)
    waiting = [("canvasgram", top)]
    while waiting:
        path, command = waiting.pop(0)
        inner = getattr(command, "commands", {})
        waiting += [(f"{path} {name}", one) for name, one in inner.items()]
        if not inner or (getattr(command, "invoke_without_command", False) and command is not top):
            yield f"| `{path}` | {' '.join((command.help or '').split())} |"


def test_the_settings_table_is_what_the_code_says() -> None:
    assert re.findall(r"^\| `[A-Z_]+` \|.*$", README, re.MULTILINE) == list(settings_rows())


def test_the_commands_table_is_what_the_code_says() -> None:
    assert sorted(re.findall(r"^\| `canvasgram [a-z ]+` \|.*$", README, re.MULTILINE)) == sorted(
        command_rows()
    )


def test_every_command_in_a_code_block_exists() -> None:
    known = {re.findall("`(.+?)`", row)[0] for row in command_rows()}
    blocks = re.findall(r"^```.*?$(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    used = re.findall(r"\bcanvasgram(?: [a-z]+)+", "\n".join(blocks))
    assert used
    assert [one for one in used if not any(one.startswith(command) for command in known)] == []
