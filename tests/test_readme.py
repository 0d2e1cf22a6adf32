"""The Markdown pages agree with the code: settings, commands, links, module paths and the README's size."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from bot.chat.commands.registry import COMMANDS
from bot.cli.main import cli
from bot.settings import Settings

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "bot" / "docs"
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / ".github").glob("*.md"),
        *(ROOT / "bot").rglob("*.md"),
        *(ROOT / "tools").rglob("*.md"),
    ]
)
README_BYTES = 9 * 1024
ARCHITECTURE_BYTES = 12 * 1024
LONG_DEFAULTS = {"system_prompt": "a short built-in one"}


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def settings_rows() -> Iterator[str]:
    """The rows that the tables of settings must have, in order."""
    for name, field in Settings.model_fields.items():
        if field.is_required():
            default = "(needed)"
        elif name in LONG_DEFAULTS:
            default = LONG_DEFAULTS[name]
        else:
            default = f"`{field.default}`" if field.default else "–"
        yield f"| `{name.upper()}` | {default} | {field.description} |"


def command_rows() -> Iterator[str]:
    """The rows that the table of commands must have."""
    top = typer.main.get_command(cli)
    pending = [("canvasgram", top)]
    while pending:
        path, command = pending.pop(0)
        subcommands = getattr(command, "commands", {})
        pending += [(f"{path} {name}", subcommand) for name, subcommand in subcommands.items()]
        runs_alone = getattr(command, "invoke_without_command", False) and command is not top
        if not subcommands or runs_alone:
            yield f"| `{path}` | {' '.join((command.help or '').split())} |"


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", read(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_settings_tables_are_what_the_code_says() -> None:
    rows = re.findall(r"^\| `[A-Z_]+` \|.*$", read(DOCS / "settings.md"), re.MULTILINE)
    assert rows == list(settings_rows())


def test_the_commands_table_is_what_the_code_says() -> None:
    rows = re.findall(r"^\| `canvasgram [a-z ]+` \|.*$", read(DOCS / "commands.md"), re.MULTILINE)
    assert sorted(rows) == sorted(command_rows())


def test_every_chat_command_is_in_the_table_of_chat_commands() -> None:
    names = re.findall(r"^\| `/([a-z]+)` \|", read(DOCS / "commands.md"), re.MULTILINE)
    assert sorted(names) == sorted(command.name for command in COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_command_in_a_code_block_exists(page: Path) -> None:
    known = {re.findall("`(.+?)`", row)[0] for row in command_rows()}
    blocks = re.findall(r"^ *```.*?$(.*?)^ *```$", read(page), re.MULTILINE | re.DOTALL)
    used = re.findall(r"(?<![/\w])canvasgram(?: [a-z]+)+", "\n".join(blocks))
    unknown = [words for words in used if not any(words.startswith(command) for command in known)]
    assert unknown == []


def test_the_readme_shows_commands() -> None:
    assert re.search(r"^ *uv run canvasgram setup$", read(ROOT / "README.md"), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_relative_link_points_to_a_file_and_a_heading_that_exist(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)\s]+)\)", read(page))
    targets += re.findall(r'src="(?!https?:)([^"]+)"', read(page))
    broken = []
    for target in targets:
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


def test_every_module_path_in_the_architecture_page_exists() -> None:
    text = read(ROOT / "bot" / "README.md")
    packages = "|".join(path.name for path in (ROOT / "bot").iterdir() if path.is_dir())
    paths = re.findall(rf"`((?:{packages}|tools)/[\w/.]*)`", text)
    assert paths
    missing = []
    for path in paths:
        candidates = [base / f"{path}{suffix}" for base in (ROOT / "bot", ROOT) for suffix in ("", ".py")]
        if not any(candidate.exists() for candidate in candidates):
            missing.append(path)
    assert missing == []


def test_every_decision_links_to_its_module() -> None:
    decisions = read(DOCS / "decisions.md").partition("## Learned")[0]
    rows = [
        row
        for row in re.findall(r"^\|.*\|$", decisions, re.MULTILINE)
        if not row.startswith(("| decision", "|---"))
    ]
    assert len(rows) >= 70
    assert [row for row in rows if not re.search(r"\| \[[^\]]+\]\([^)]+\) \|$", row)] == []


def test_the_pages_stay_short_enough_to_read() -> None:
    assert (ROOT / "README.md").stat().st_size <= README_BYTES
    assert (ROOT / "bot" / "README.md").stat().st_size <= ARCHITECTURE_BYTES
