"""Names and words that a stranger can find: what a program can judge of the style guide in CONTRIBUTING."""

import ast
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import bot

ROOT = Path(bot.__file__).parents[1]
PRODUCT = sorted(path for folder in ("bot", "tools", "migrations") for path in (ROOT / folder).rglob("*.py"))
MODULES = [*PRODUCT, *sorted((ROOT / "tests").rglob("*.py"))]

PARTICIPLE = re.compile(r"(ed|ing|Told|Said|Found|Kept|Made|Seen|Heard|Given|Taken)$")
NOUNS = re.compile(r"(Finding|Listing|Posting|Reading|Spending|Timing|Typing)$")
PUBLIC_NAMES = frozenset({"Found"})  # of tools.base, which everybody's tools import
GERUND_MODULES = frozenset(  # nouns of the field
    {"formatting", "onboarding", "polling", "ranking", "spending", "thinking"}
)
# Rare words that a reader whose first language is not English may not know; each has a common one.
BANNED_WORDS = r"\b(anew|of late|lest|whoever|nought|besides)\b"
BANNED_ANYWHERE = re.compile(BANNED_WORDS, re.IGNORECASE)
BANNED = re.compile(BANNED_WORDS + r"(?![`\"'-])", re.IGNORECASE)  # a value or a file called so is data
MIGRATION_OF_ONE_DATABASE = re.compile(r"sa\.(Text|Integer)\(|sqlite_where|postgresql_where")
MODEL_FACING = (
    ROOT / "tools" / "builtin"
)  # docstrings there are prompts, and part of what grants are bound to


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def public_classes() -> Iterator[tuple[ast.ClassDef, Path]]:
    for path in PRODUCT:
        for node in parse(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node, path


def exception_names() -> frozenset[str]:
    """The classes that inherit from an exception, however far above."""
    parents = {node.name: [ast.unparse(base) for base in node.bases] for node, _ in public_classes()}

    def is_exception(class_name: str) -> bool:
        if class_name.endswith(("Error", "Exception")):
            return True
        return any(is_exception(parent) for parent in parents.get(class_name, ()))

    return frozenset(filter(is_exception, parents))


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings and comments of a module, each with its line."""
    for node in ast.walk(parse(path)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.lineno, node.value.value
    with path.open("rb") as source:
        for token in tokenize.tokenize(source.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def test_no_public_class_name_is_used_twice() -> None:
    places = defaultdict(list)
    for node, path in public_classes():
        places[node.name].append(name(path))
    assert {class_name: paths for class_name, paths in places.items() if len(paths) > 1} == {}


def test_only_exceptions_are_called_by_participles() -> None:
    exempt = exception_names() | PUBLIC_NAMES
    participles = [
        f"{name(path)}: {node.name}"
        for node, path in public_classes()
        if PARTICIPLE.search(node.name) and not NOUNS.search(node.name) and node.name not in exempt
    ]
    assert participles == []


def test_modules_are_nouns() -> None:
    gerunds = {path.stem for path in PRODUCT if path.stem.endswith("ing") and "_" not in path.stem}
    assert gerunds - GERUND_MODULES == set()


def find_banned_words(path: Path) -> Iterator[str]:
    """The banned words of a module, each with its line."""
    if path == Path(__file__) or not BANNED_ANYWHERE.search(path.read_text(encoding="utf-8")):
        return  # most modules need no parsing
    for line, text in texts(path):
        if BANNED.search(text) and MODEL_FACING not in path.parents:
            yield f"{name(path)}:{line}: {', '.join(match[0] for match in BANNED.finditer(text))}"


def test_docstrings_and_comments_use_plain_words() -> None:
    found = [place for path in MODULES for place in find_banned_words(path)]
    assert found == []


def test_migrations_call_types_and_partial_indexes_by_names_for_both_databases() -> None:
    migrations = [path for path in PRODUCT if path.parent.name == "versions"]
    texts_by_name = {name(path): path.read_text(encoding="utf-8") for path in migrations}
    found = [path for path, text in texts_by_name.items() if MIGRATION_OF_ONE_DATABASE.search(text)]
    assert found == []
