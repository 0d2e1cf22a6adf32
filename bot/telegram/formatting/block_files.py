"""Files of an answer's long code blocks and tables, which chats show in pieces. Pure.

The text stays as it is; a file is beside it.
"""

import csv
import io
import re
from collections.abc import Sequence

from bot.attachments.outgoing_files import prepare_file
from bot.domain import OutgoingFile
from bot.telegram.formatting.markdown_events import (
    MarkdownEvent,
    MarkdownTooDense,
    parse_markdown,
    split_blocks,
)
from bot.telegram.formatting.markdown_guards import convert_latex
from bot.telegram.formatting.render import MAX_PIECE_UNITS, clean_text
from bot.telegram.formatting.splitter import utf16_len
from bot.telegram.formatting.tables import is_table, parse_table

MAX_BLOCK_FILES = 3  # of one answer
_SUFFIXES = {
    "bash": "sh",
    "c#": "cs",
    "c++": "cpp",
    "csharp": "cs",
    "golang": "go",
    "javascript": "js",
    "kotlin": "kt",
    "latex": "tex",
    "markdown": "md",
    "powershell": "ps1",
    "python": "py",
    "python3": "py",
    "ruby": "rb",
    "rust": "rs",
    "shell": "sh",
    "typescript": "ts",
    "yaml": "yml",
    "zsh": "sh",
}
_SUFFIX = re.compile(
    "c|cpp|cs|css|csv|diff|go|h|html|ini|java|js|json|jsx|kt|lua|md|php|ps1|py|r|rb|rs|sh|sql|svg|swift|tex|toml"
    "|ts|tsx|vue|xml|yml"
)
_FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_LANGUAGE = re.compile(r"[\w#+]*")
_NUMBER = re.compile(r"[+-]?\d[\d.,  ]*%?")


def build_block_files(markdown: str) -> tuple[OutgoingFile, ...]:
    """The first code blocks and tables that are longer than one message, each as a file."""
    if utf16_len(markdown) <= MAX_PIECE_UNITS:
        return ()
    files: list[OutgoingFile] = []
    for block in split_blocks(convert_latex(clean_text(markdown))):
        if len(files) == MAX_BLOCK_FILES:
            break
        file = _build_file(block, len(files) + 1)
        if file is not None:
            files.append(file)
    return tuple(files)


def _build_file(block: str, number: int) -> OutgoingFile | None:
    if utf16_len(block) <= MAX_PIECE_UNITS:
        return None
    try:
        events = parse_markdown(block)
    except MarkdownTooDense:
        return None
    if is_table(events):
        return prepare_file(_format_name("table", number, "csv"), _write_csv(parse_table(block, events)))
    if events and events[0].is_start_of("CodeBlock"):
        text = "".join(event.value for event in events if event.name == "Text")
        return prepare_file(_format_name("code", number, _find_suffix(events[0])), text.encode())
    return None


def _format_name(kind: str, number: int, suffix: str) -> str:
    stem = kind if number == 1 else f"{kind}-{number}"
    return f"{stem}.{suffix}"


def _find_suffix(start: MarkdownEvent) -> str:
    """The ending of a file of the language that a fence names, such as `py`; `txt` for any other."""
    info = start.value["Fenced"].lower() if isinstance(start.value, dict) else ""
    language = _LANGUAGE.findall(info)[0]
    suffix = _SUFFIXES.get(language, language)
    return suffix if _SUFFIX.fullmatch(suffix) else "txt"


def _write_csv(rows: Sequence[Sequence[str]]) -> bytes:
    """A table as spreadsheets open it: marked as UTF-8, and without a cell that they would calculate."""
    written = io.StringIO()
    csv.writer(written).writerows([_defuse(cell) for cell in row] for row in rows)
    return written.getvalue().encode("utf-8-sig")


def _defuse(cell: str) -> str:
    if cell.startswith(_FORMULA_STARTS) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell
