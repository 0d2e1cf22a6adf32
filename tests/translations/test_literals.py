"""No text of a chat bypasses the catalogues: words that reach a chat are looked up, or marked to be.

Numbers and lists in them are written by bot.translations.formats.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.translations import catalogues

CHAT_PACKAGES = ("chat", "jobs", "maintenance", "queue", "telegram", "tool_registry", "turns")
SENDING_CALLS = {
    *("ActionResult", "Button", "Part", "build_hint", "build_page", "build_pages", "build_part"),
    *("build_parts", "finish_with", "reply_hint", "reply_text"),
}
LOOK_UPS = {*catalogues.KEYWORDS, catalogues.TABLE_KEYWORD, "DeferredText"}
TEXT_MAKERS = re.compile(
    r"_?(?:format|describe|explain|render|build_\w*(?:text|notice|question|hint))(?:_|$)"
)
WORDS = re.compile(r"[^\W\d_]{2,} [^\W\d_]{2,}")

NUMBER_FORMAT = re.compile(r"(?=.*[,.%])[<>^]?\d*,?(\.\d+)?[defg%]?")  # of an f-string: `,` or `.1f`
FORMATTED_PACKAGES = {*CHAT_PACKAGES, "agent", "attachments", "usage"}

ALLOWED = {
    # The model reads it.
    *("prompt_text.py:describe_kind", "prompt_text.py:format_message", "prompt_text.py:_format_quote"),
    *("prompt_text.py:_describe_quoted_media", "user_message.py:_format_message"),
    *("user_message.py:_format_transcript", "assembly.py:format_unavailable"),
    *("file_allowance.py:_describe", "toolbox.py:render_result"),
    # The command line prints it.
    *("restore.py:format_summary", "user_jobs.py:_format_state"),
    "secret_suggestions.py:format_for_command_line",
    # It is stored as the reason of a turn; where a chat shows it, `stored_reasons` translates it.
    "thought_costs.py:explain_cost",
    # It is stored as the trouble of a source, beside the words of its server or file.
    *("previews.py:_explain_empty_listing", "file_trials.py:_describe", "assembly.py:_describe_trouble"),
    *("sources.py:format_first_sign_in", "sources.py:format_lost_sign_in"),
}
"""Functions whose words a chat does not show, or shows as they are."""


def find_literals(path: Path) -> Iterator[str]:
    """Yield the literals with several words that reach a chat, with their line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and get_name(node.func) in SENDING_CALLS:
            yield from list_words(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_text_maker(path, node.name):
            yield from list_words(*node.body[1:])


def is_text_maker(path: Path, function: str) -> bool:
    """Whether a function makes a text for a chat, by its name."""
    return bool(TEXT_MAKERS.match(function)) and f"{path.name}:{function}" not in ALLOWED


def list_words(*nodes: ast.AST) -> Iterator[str]:
    """Yield literals under these nodes; not those that are looked up, compared, or begin with a command."""
    for node in nodes:
        is_look_up = isinstance(node, ast.Call) and get_name(node.func).lstrip("_") in LOOK_UPS
        if is_look_up or isinstance(node, ast.Compare):
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and has_words(node.value):
            yield f"{node.lineno}: {node.value}"
        yield from list_words(*ast.iter_child_nodes(node))


def has_words(text: str) -> bool:
    """Whether a text is more than one word, and no command to copy."""
    return bool(WORDS.search(text)) and not text.lstrip().startswith("/")


def get_name(function: ast.expr) -> str:
    """Return the name of what is called."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def find_english_formats(path: Path) -> Iterator[str]:
    """Yield the lines that write a number or a list as English does, in what is written for a reader."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.Call):
            has_reader = get_name(node.func).lstrip("_") in LOOK_UPS
        else:
            has_reader = takes_reader(node)
        if has_reader:
            yield from (f"{node.lineno}: {ast.unparse(part)}" for part in ast.walk(node) if is_english(part))


def takes_reader(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is given the language of a reader."""
    arguments = function.args
    return any(argument.arg == "translate" for argument in (*arguments.args, *arguments.kwonlyargs))


def is_english(node: ast.AST) -> bool:
    """Whether this is a number with the separators of English, or words joined by a comma."""
    if isinstance(node, ast.FormattedValue) and isinstance(node.format_spec, ast.JoinedStr):
        return bool(NUMBER_FORMAT.fullmatch("".join(map(str, map(get_text, node.format_spec.values)))))
    if isinstance(node, ast.Call) and get_name(node.func) == "join":
        return get_text(getattr(node.func, "value", None)) == ", "
    return False


def get_text(node: ast.AST | None) -> object:
    """Return the value of a literal."""
    return node.value if isinstance(node, ast.Constant) else None


def test_words_that_reach_a_chat_are_in_the_catalogues():
    found = [
        f"{path.name}:{literal}"
        for path in catalogues.list_modules()
        if path.relative_to(catalogues.ROOT).parts[1] in CHAT_PACKAGES
        for literal in find_literals(path)
    ]
    assert found == []


def test_numbers_and_lists_that_reach_a_chat_are_written_as_its_language_does():
    found = [
        f"{path.name}:{place}"
        for path in catalogues.list_modules()
        if path.relative_to(catalogues.ROOT).parts[1] in FORMATTED_PACKAGES
        for place in find_english_formats(path)
    ]
    assert found == []
