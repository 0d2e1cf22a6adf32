"""A button's label fits on a telephone, in every language."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Message

from tests.translations import catalogues
from tests.translations.test_literals import LOOK_UPS, get_name

MAX_LENGTH = 20
MAX_LENGTH_WITH_NAME = 30  # a row holds few of these
NAME_LENGTH = 12
NUMBER_LENGTH = 3
NUMBERS = ("count", "number")
SENTENCES = {"EXAMPLES"}  # a tap sends what it says, and it has a row to itself


class LabelFinder:
    """Finds the texts that become labels: in the first argument of `Button`, and behind the names there."""

    def __init__(self, path: Path) -> None:
        self.module = ast.parse(path.read_text(encoding="utf-8"))
        assignments = [node for node in self.module.body if isinstance(node, ast.Assign | ast.AnnAssign)]
        self.constants = ast.Module(list[ast.stmt](assignments), [])
        self.seen = set[str]()

    def iterate_labels(self) -> Iterator[str]:
        """Yield the texts of all buttons of the module."""
        for scope in ast.walk(self.module):
            if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in ast.walk(scope):
                    if isinstance(node, ast.Call) and get_name(node.func) == "Button" and node.args:
                        self.seen = set(SENTENCES)
                        yield from self._iterate_texts(node.args[0], scope)

    def _iterate_texts(self, node: ast.AST, scope: ast.AST) -> Iterator[str]:
        """Yield the texts that are looked up or marked under a node, and in what its names stand for."""
        if isinstance(node, ast.Call) and get_name(node.func).lstrip("_") in LOOK_UPS:
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value
                else:
                    yield from self._iterate_texts(argument, scope)
            return
        if isinstance(node, ast.Name) and node.id not in self.seen:
            self.seen.add(node.id)
            for value in (*find_values(scope, node.id), *find_values(self.constants, node.id)):
                yield from self._iterate_texts(value, scope)
        for child in ast.iter_child_nodes(node):
            yield from self._iterate_texts(child, scope)


def find_values(scope: ast.AST, name: str) -> Iterator[ast.expr]:
    """Yield what a name gets in a scope, by assignment or as the variable of a loop."""
    for node in ast.walk(scope):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For | ast.comprehension):
            targets = [node.target]
        value = node.iter if isinstance(node, ast.For | ast.comprehension) else getattr(node, "value", None)
        names = {inner.id for target in targets for inner in ast.walk(target) if isinstance(inner, ast.Name)}
        if name in names and value is not None:
            yield value


def find_labels() -> set[str]:
    """Return the English texts of all buttons."""
    return {label for path in catalogues.list_modules() for label in LabelFinder(path).iterate_labels()}


def measure(label: str) -> int:
    """Return the length of a label with its values."""
    for name in re.findall(r"\{(\w+)\}", label):
        label = label.replace(f"{{{name}}}", "x" * (NUMBER_LENGTH if name in NUMBERS else NAME_LENGTH))
    return len(label)


def find_long(texts: Iterator[str]) -> list[str]:
    """Return the labels that are longer than a button shows."""
    too_long = []
    for text in texts:
        has_name = set(re.findall(r"\{(\w+)\}", text)) - set(NUMBERS)
        if measure(text) > (MAX_LENGTH_WITH_NAME if has_name else MAX_LENGTH):
            too_long.append(text)
    return too_long


def list_texts(message: Message) -> tuple[str, ...]:
    return (*catalogues.get_texts(message), *catalogues.get_translations(message))


def test_labels_are_found_where_they_are_made():
    found = find_labels()
    assert len(found) >= 70
    for label in (
        "Yes",
        "Deny",
        "Skip them",
        "Accept all {count}",
        "Send again",
        "Don't send notes",
        "Decline",
    ):
        assert label in found


def test_a_label_fits_on_its_button_in_every_language():
    labels = find_labels()
    texts = (
        text
        for language in catalogues.TRANSLATED
        for message in catalogues.iterate_messages(catalogues.read_catalogue(language))
        if labels & set(catalogues.get_texts(message))
        for text in list_texts(message)
    )
    assert find_long(texts) == []


def test_a_long_label_is_told():
    assert find_long(iter(["Keep", "Answer only when addressed", "Ask again for each call of {tool}"])) == [
        "Answer only when addressed",
        "Ask again for each call of {tool}",
    ]
