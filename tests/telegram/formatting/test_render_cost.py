"""Hostile Markdown costs at most a few times what ordinary Markdown costs to render, and loses nothing.

A model can write 64 KB, whatever a page has told it to. `tests/test_hostile_text.py` compares more texts with
linear work.
"""

import functools
import gc
import logging
from collections.abc import Callable
from time import thread_time

import pytest

from bot.telegram.delivery.renderer import Snapshot, render_snapshot
from bot.telegram.formatting.render import Piece, cut_unfinished, render_markdown, split_plain
from tests.support.tdlib_parser import find_refusal
from tests.support.visible_words import find_missing
from tests.telegram.formatting.documents import load_documents

LENGTH = 65_536
MIDDLE_LENGTH = 16_384
SHORT_LENGTH = 4_096
FACTOR = 15
"""Times ordinary documents of 64 KB; headings take 7, quadratic work was up to 100 times them, and more."""
MAX_TRIES = 6  # the machine may be busy

REPEATED = {  # {} is the number of the repetition: no block is rendered twice
    "headings": "# {}\n",
    "setext headings": "{}\n===\n",
    "leads": "lead {}:\n\n",
    "rulers": "---\n",
    "rules after text": "a\n{}\n---\n",
    "paragraphs": "{}\n\n",
    "brackets": "[",
    "links": "[a](http://a.org) ",
    "half links": "[a](<",
    "images": "![",
    "definitions": "[a]: b\n",
    "line separators": "a\u2028",
    "special tokens": "<|",
    "comments": "<!--",
    "tags": "<b>",
    "blocks of HTML": "<div>\n`\n",
    "stars": "*a",
    "lines under words": "**_",
    "tildes": "~a~b",
    "bars": "||",
    "ticks": "`a",
    "dollars": "$",
    "formulas without text": "$$\n$$ ",
    "openings of formulas": "\\(",
    "formulas": "\\(a_1\\) ",
    "quotes": "> {}\n\n",
    "fences": "```\n",
    "code in a list": "- ```\n  x\n  ```\n",
    "code without text in a quote": "> ```\n> ```\n",
    "lists on one line": "+ - * ",
    "marks in a quote": ">",
    "tables": "| {} |\n|---|\n\n",
    "flags": "\U0001f1e6",
    "marks": "\u0301",
    "blank patterns": "\u2800\n\n",
    "references": "&#27;",
    "lines": "\n",
}


def _repeat(unit: str, length: int) -> str:
    return _fill(unit, length // len(unit) + 1)[:length]


def _fill(unit: str, count: int) -> str:
    return "".join(unit.format(number) for number in range(count))


@functools.cache
def build_texts(length: int) -> dict[str, str]:
    """Build every hostile text of about so many characters."""
    half = length // 2
    fifth = length // 5
    texts = {name: _repeat(unit, length) for name, unit in REPEATED.items()}
    return texts | {
        "nested links": "[" * (length // 6) + "](a)" * (length // 6),
        "nested images": "![" * (length // 12) + "a *b* " * (length // 12) + "](a)" * (length // 12),
        "nested emphasis": "_" * half + "a" + "_" * half,
        "nested bold": "**a " * (length // 8) + "b**" * (length // 8),
        "braces in a formula": "$\\alpha " + "{" * half + "}" * half + "$",
        "fractions": "$$" + "\\frac{a}{" * (length // 12) + "b" + "}" * (length // 12) + "$$",
        "wide and long table": "a|" * fifth + "\n" + "-|" * fifth + "\n" + "x\n" * (fifth // 2),
        "one long row": "|a|\n|-|\n|" + "b|" * (length // 4) + "\n" + "x\n" * (length // 4),
        "blank code in an item": "- x\n\n" + "  ```\n\n\n\n  ```\n" * (length // 16),
        "nested lists": "".join("  " * depth + "- a\n" for depth in range(int(length**0.5))),
    }  # fmt: skip


RENDERERS: dict[str, Callable[[str], object]] = {
    "plain": split_plain,
    "snapshot": lambda text: render_snapshot(Snapshot(text, "Waiting."), {}),
}


def measure(work: Callable[[str], object], text: str) -> float:
    """Return the processor time in seconds, without garbage."""
    gc.disable()
    started = thread_time()
    work(text)
    gc.enable()
    return thread_time() - started


def measure_ordinary() -> float:
    """Return the processor time for ordinary documents of 64 KB; the shorter of two, for noise."""

    def render_documents(document: str) -> None:
        for _ in range(LENGTH // len(document)):
            render_snapshot(Snapshot(document, "Waiting."), {})

    return min(measure(render_documents, load_documents()["everything"]) for _ in range(2))


@pytest.fixture(scope="module")
def ordinary_seconds() -> float:
    return measure_ordinary()


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("length", [SHORT_LENGTH, LENGTH])
@pytest.mark.parametrize("name", build_texts(100))
def test_hostile_markdown_costs_no_more_than_a_few_ordinary_documents(
    name: str, length: int, renderer: str, ordinary_seconds: float
) -> None:
    text = build_texts(length)[name]
    for _ in range(MAX_TRIES):
        if measure(RENDERERS[renderer], text) < FACTOR * ordinary_seconds:
            return
        ordinary_seconds = max(ordinary_seconds, measure_ordinary())
    pytest.fail("too slow")


@pytest.mark.parametrize("name", build_texts(100))
def test_telegram_takes_hostile_markdown(name: str) -> None:
    check_pieces(name, SHORT_LENGTH)


@pytest.mark.parametrize("name", ["headings", "stars", "wide and long table", "nested bold"])
def test_telegram_takes_what_is_too_dense_to_be_formatted(name: str) -> None:
    check_pieces(name, LENGTH)


def check_pieces(name: str, length: int) -> None:
    pieces = render_markdown(build_texts(length)[name])
    assert [find_refusal(piece) for piece in pieces] == [None] * len(pieces)


@pytest.mark.parametrize(
    "unit",
    [
        "# W{}Q\n",
        "W{}Q:\n\n",
        "- W{}Q\n",
        "*W{}Q* ",
        "| W{}Q |\n|---|\n\n",
        "<b>W{}Q ",
        "> W{}Q\n\n",
        "[W{}Q ",
    ],
)
def test_no_word_of_dense_markdown_is_lost(unit: str) -> None:
    words = [f"W{number}Q" for number in range(MIDDLE_LENGTH // len(unit.format(10_000)))]
    assert find_missing(words, render_markdown(_fill(unit, len(words)))) is None


def test_what_follows_too_many_constructs_is_shown_as_written() -> None:
    text = _fill("**{}** a\n\n", 6_000)
    pieces = render_markdown(text)
    assert pieces[0].text.startswith("0 a\n\n1 a\n\n")
    assert pieces[-1].text.endswith("**5998** a\n\n**5999** a")


def test_however_many_blocks_are_shown_as_written_the_log_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    render_markdown(_fill("# {}\n", 10_000))
    assert [record.getMessage() for record in caplog.records] == [
        "blocks are shown as written: MarkdownTooDense"
    ]


def test_lists_nested_as_deep_as_people_nest_them_keep_their_formatting() -> None:
    (piece,) = render_markdown("".join("  " * depth + f"- **level{depth}**\n" for depth in range(8)))
    assert len(piece.entities) == 8


def test_what_is_nested_beyond_reason_is_shown_as_written() -> None:
    text = "+ - * " * 20 + "a"
    assert render_markdown(f"**b**\n\n{text}")[0].text == f"b\n\n{text}"


def test_dollars_around_nothing_are_shown() -> None:
    assert render_markdown("a $$$$ b") == (Piece("a $$$$ b"),)


def test_a_formula_of_a_thousand_characters_is_shown_as_written() -> None:
    body = "\\alpha " * 200
    assert render_markdown(f"$${body}$$")[0].text == f"$${body}$$"


def test_a_half_link_far_behind_an_open_bracket_is_held_back() -> None:
    line = "Not a link [" + "a long line " * 40
    assert cut_unfinished(line + "and [a link](http://exa mple") == line + "and "
