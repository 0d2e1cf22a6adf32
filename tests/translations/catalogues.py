"""Extracts the texts of the gateway, and reads and writes the catalogues of their translations."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import get_args

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from bot.db.tools.approvals import ApprovalAnswer
from bot.domain import ResultOutcome
from bot.translations import translator
from bot.translations.translator import CATALOGUES, DOMAIN, LANGUAGES
from bot.usage.refusals import REFUSAL_LABELS

ROOT = Path(translator.__file__).parents[2]
PAGE = ROOT / "bot" / "docs" / "texts.md"
REFUSALS = ("ChangeRefused", "NeedsConfirming")
TABLE_KEYWORD = "translatables"  # each of its arguments is a text
KEYWORDS = {
    **dict.fromkeys(("translate", "_translate", "translatable", "defer", *REFUSALS)),
    "plural": (1, 2),
}
ENGLISH_MODULES = ("bench", "check", "cli", "demo", "sim")  # the command line, and what is no part of a chat
TRANSLATED = tuple(language for language in LANGUAGES if language != "en")
STORED_TEXTS = {  # what is looked up as it is stored, by the module that does so
    "bot/tool_registry/formatting.py": (*get_args(ApprovalAnswer), "everyone", "admins"),
    "bot/usage/refusals.py": (
        *REFUSAL_LABELS.values(),
        *(outcome for outcome in get_args(ResultOutcome) if outcome != "refused"),
        *("wanted", "running", "done"),
    ),
}
HEADER = "# Translations of the gateway's own words.\n"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)  # the same text makes the same file
PAGE_HEAD = """# Texts

What the gateway says in chats in its own words, by the module that says it.
[How such a text is written](texts-style.md).
`python -m tests.translations` writes this page.
"""


def list_modules() -> list[Path]:
    """Return the modules whose texts a chat may show."""
    paths = (ROOT / "bot").rglob("*.py")
    return sorted(path for path in paths if path.relative_to(ROOT).parts[1] not in ENGLISH_MODULES)


def extract_texts() -> Catalog:
    """Return a catalogue of all texts in the code, without translations."""
    template = Catalog(creation_date=EPOCH, charset="utf-8", header_comment=HEADER)
    for file, _, text, _, _ in extract_from_dir(
        ROOT / "bot", [("**.py", "python")], keywords=KEYWORDS, strip_comment_tags=True
    ):
        if Path(file).parts[0] not in ENGLISH_MODULES:
            template.add(text, None, [(f"bot/{file}", 1)])
    for path in list_modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == TABLE_KEYWORD:
                for argument in node.args:
                    template.add(ast.literal_eval(argument), None, [(str(path.relative_to(ROOT)), 1)])
    for module, texts in STORED_TEXTS.items():
        for text in texts:
            template.add(text, None, [(module, 1)])
    return template


def find_file(language: str, suffix: str = ".po") -> Path:
    """Return where the catalogue of a language is kept."""
    return CATALOGUES / language / "LC_MESSAGES" / f"{DOMAIN}{suffix}"


def read_catalogue(language: str) -> Catalog:
    """Read the translations into a language; an empty catalogue if there are none yet."""
    file = find_file(language)
    if not file.exists():
        return Catalog(
            language,
            project="Canvasgram",
            version="0",
            msgid_bugs_address="none",
            last_translator="Canvasgram",
            language_team=LANGUAGES[language],
            creation_date=EPOCH,
            revision_date=EPOCH,
            charset="utf-8",
        )
    with file.open("rb") as stream:
        return read_po(stream, language)


def update_catalogue(language: str, template: Catalog) -> Catalog:
    """Return the translations of exactly the template's texts; those of new texts are empty."""
    catalogue = read_catalogue(language)
    catalogue.update(template, no_fuzzy_matching=True, update_header_comment=True)
    catalogue.obsolete.clear()
    if language not in TRANSLATED:
        for message in [*iterate_messages(catalogue)]:
            if not all(get_translations(message)):
                catalogue.delete(message.id)
    catalogue.fuzzy = False
    return catalogue


def format_po(catalogue: Catalog) -> bytes:
    """Return a catalogue as it is edited."""
    stream = BytesIO()
    write_po(stream, catalogue, width=100, sort_by_file=True, include_lineno=False, ignore_obsolete=True)
    return stream.getvalue()


def format_mo(catalogue: Catalog) -> bytes:
    """Return a catalogue as the gateway reads it: without the texts that are not translated yet."""
    compiled = Catalog(catalogue.locale, charset="utf-8", creation_date=EPOCH, revision_date=EPOCH)
    compiled.mime_headers = catalogue.mime_headers
    for message in iterate_messages(catalogue):
        if all(get_translations(message)):
            compiled.add(message.id, message.string)
    stream = BytesIO()
    write_mo(stream, compiled)
    return stream.getvalue()


def format_page(template: Catalog) -> str:
    """Return the page that lists all texts by module."""
    texts_by_module = defaultdict[str, list[str]](list)
    english = read_catalogue("en")
    for message in iterate_messages(template):
        shown = english.get(get_texts(message)[0])
        for module, _ in message.locations[:1]:
            texts_by_module[module].append(
                " / ".join(get_translations(shown) if shown else get_texts(message))
            )
    sections = []
    for module, texts in sorted(texts_by_module.items()):
        lines = "\n".join("- " + text.strip().replace("\n", "<br>") for text in texts)
        sections.append(f"\n## {module}\n\n{lines}\n")
    return PAGE_HEAD + "".join(sections)


def iterate_messages(catalogue: Catalog) -> Iterator[Message]:
    """Yield the messages of a catalogue, without its header."""
    return (message for message in catalogue if message.id)


def get_texts(message: Message) -> tuple[str, ...]:
    """Return the English text of a message, or its singular and plural."""
    return (message.id,) if isinstance(message.id, str) else tuple(message.id)


def get_translations(message: Message) -> tuple[str, ...]:
    """Return the translation of a message, or all its plural forms."""
    if isinstance(message.string, tuple | list):
        return tuple(message.string)
    return (message.string or "",)
