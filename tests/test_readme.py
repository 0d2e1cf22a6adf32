"""The Markdown pages agree with the code: settings, commands, links, module paths, decisions and sizes."""

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
DECISION_PAGES = [page for page in PAGES if page.name == "DECISIONS.md"]
README_BYTES = 9 * 1024
ARCHITECTURE_BYTES = 12 * 1024
DECISIONS_BYTES = 14 * 1024
MIN_DECISIONS = 250
EXAMPLE_PATHS = {"tools/builtin/greet.py"}  # a file that a page has its reader write
LINKS = re.compile(r"\[[^\]]+\]\([^)\s]+\)( · \[[^\]]+\]\([^)\s]+\))*")
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


def read_decisions(page: Path) -> Iterator[tuple[str, str, str]]:
    """The decisions of a page: heading, text, and the last paragraph, which links to the modules."""
    for section in read(page).split("\n## ")[1:]:
        heading, _, rest = section.partition("\n")
        text, _, links = rest.strip().rpartition("\n\n")
        yield heading, text, links


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


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_module_path_exists(page: Path) -> None:
    packages = "|".join(path.name for path in (ROOT / "bot").iterdir() if path.is_dir())
    paths = re.findall(rf"`((?:bot/)?(?:{packages}|tools)/[\w/.]*)`", read(page))
    missing = []
    for path in sorted(set(paths) - EXAMPLE_PATHS):
        candidates = [base / f"{path}{suffix}" for base in (ROOT / "bot", ROOT) for suffix in ("", ".py")]
        if not any(candidate.exists() for candidate in candidates):
            missing.append(path)
    assert missing == []


def test_the_architecture_page_lists_every_page_of_decisions() -> None:
    line = next(line for line in read(ROOT / "bot/README.md").splitlines() if line.startswith("Decisions"))
    listed = [(ROOT / "bot" / target).resolve() for target in re.findall(r"\]\(([^)]+)\)", line)]
    assert sorted(listed) == DECISION_PAGES
    assert sum(len(list(read_decisions(page))) for page in DECISION_PAGES) >= MIN_DECISIONS


@pytest.mark.parametrize("page", DECISION_PAGES, ids=page_name)
def test_every_decision_has_a_heading_of_its_own_a_text_and_links_to_its_modules(page: Path) -> None:
    headings = [heading for heading, _, _ in read_decisions(page)]
    assert len(set(headings)) == len(headings)
    assert [heading for heading, text, _ in read_decisions(page) if not text] == []
    assert [heading for heading, _, links in read_decisions(page) if not LINKS.fullmatch(links)] == []


@pytest.mark.parametrize("page", DECISION_PAGES, ids=page_name)
def test_the_link_of_a_decision_says_its_file(page: Path) -> None:
    """`[db/retry](../db/retry.py)`: the target without the way up and the suffix."""
    for _, _, links in read_decisions(page):
        for text, target in re.findall(r"\[([^\]]+)\]\(([^)]+)\)", links):
            path = re.sub(r"(/__init__)?\.py$|/$", "", target)
            assert text == path.replace("../", "")
            assert (page.parent / target).exists()


def test_the_pages_stay_short_enough_to_read() -> None:
    assert (ROOT / "README.md").stat().st_size <= README_BYTES
    assert (ROOT / "bot" / "README.md").stat().st_size <= ARCHITECTURE_BYTES
    assert [page for page in DECISION_PAGES if page.stat().st_size > DECISIONS_BYTES] == []
