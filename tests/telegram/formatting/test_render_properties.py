"""Any text survives rendering whole and is accepted by Telegram."""

import re
from itertools import chain

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from bot.telegram.formatting.links import is_web_url
from bot.telegram.formatting.render import (
    BlockCache,
    Piece,
    cut_unfinished,
    render_markdown,
    split_plain,
    utf16_len,
)
from bot.telegram.formatting.splitter import is_visible
from tests.support.tdlib_parser import find_refusal, list_texts_under
from tests.support.visible_words import find_missing

WORD = re.compile(r"Q\d+Z")
SYNTAX = [
    *(
        "*",
        "**",
        "_",
        "__",
        "`",
        "``",
        "```",
        "~",
        "~~",
        "~~~",
        "||",
        "|",
        "$",
        "$$",
        "#",
        "-",
        "+",
        "=",
        ">",
        "!",
        ":",
        ";",
    ),
    *(
        "(",
        ")",
        "[",
        "]",
        "![",
        "](",
        "]:",
        "](#",
        '"',
        "'",
        "\\",
        "\\(",
        "\\)",
        "\\[",
        "\\]",
        "&",
        "&lt;",
        "&amp;",
        "&#27;",
        "&#x202e;",
        "/",
        ",",
    ),
    *(
        "<",
        "</",
        "<b>",
        "</b>",
        "<br>",
        "<T>",
        "<a href=",
        "/>",
        "<!--",
        "-->",
        "<script>",
        "<div>",
        "<std::",
        "<?",
        "<![CDATA[",
    ),
    *(
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "  \n",
        "\n- ",
        "\n  - ",
        "\n1. ",
        "\n> ",
        "\n# ",
        "\n---\n",
        "\n===\n",
        "\n\t",
        "\n    ",
    ),
    *(
        "\n```py\n",
        "\n```\n",
        "\n~~~\n",
        "\n| a | b |\n|---|---|\n",
        "\n- [ ] ",
        "\n[x]: ",
        "<http://a.org>",
        "<a@b.org>",
    ),
    *(
        "http://a.org/",
        "](http://a.org/",
        "](mailto:",
        "](http://localhost:",
        "tg://emoji?id=5368324170671202286",
        "[^1]",
    ),
    *(
        "😀",
        "👨‍👩‍👧",
        "👍🏽",
        "🇩🇪",
        "e\u0301",
        "日本",
        "שלום",
        "مرحبا",
        "\u202e",
        "\u200b",
        "\ufeff",
        "\x00",
        "\x1b",
        "\ud800",
        "\udc00",
    ),
]
LIMITS = st.sampled_from([40, 100, 500, 3800])


@st.composite
def wild_markdown(draw: st.DrawFn) -> str:
    """Markdown syntax, odd characters and words, each of them unlike any other."""
    tokens = draw(st.lists(st.sampled_from([*SYNTAX, *["word"] * 60, *[" "] * 40]), max_size=80))
    return "".join(f"Q{number}Z" if token == "word" else token for number, token in enumerate(tokens))


def list_hidden_text(pieces: tuple[Piece, ...]) -> str:
    """What the pieces hold beside their text: addresses of links, languages of code."""
    entities = chain.from_iterable(piece.entities for piece in pieces)
    return " ".join(entity.get("url", "") + " " + entity.get("language", "") for entity in entities)


@settings(max_examples=150, deadline=None)
@given(wild_markdown(), LIMITS)
@example("| a |\n|---|\n| Q1Z | Q2Z |\n[x]: Q3Z", 3800)
@example("```Q1Z Q2Z", 3800)
@example("<div>\n```\nQ1Z <b>\n```\nQ2Z", 3800)
@example("$a`$b`Q1Z", 3800)
def test_every_word_of_any_markdown_is_shown_in_order(text: str, limit: int) -> None:
    pieces = render_markdown(text, limit=limit)
    # a link to a place within the document leads nowhere: its address alone may go
    elsewhere = (
        list_hidden_text(pieces)
        + " ".join(re.findall(r"\]\(#[^\n]*", text))
        + " ".join(re.findall(r"tg://emoji[^\n]*", text))
    )
    expected = [word for word in WORD.findall(text) if word not in elsewhere]
    joined = Piece("".join(piece.text for piece in pieces))
    assert find_missing(expected, (joined,)) is None


@settings(max_examples=100, deadline=None)
@given(wild_markdown(), st.lists(st.integers(0, 300), max_size=8), LIMITS)
def test_a_text_that_grows_looks_as_if_rendered_at_once(text: str, ends: list[int], limit: int) -> None:
    cache: BlockCache = {}
    for end in (*sorted(ends), len(text)):
        snapshot = cut_unfinished(text[:end])
        assert render_markdown(snapshot, limit=limit, cache=cache) == render_markdown(snapshot, limit=limit)


@settings(max_examples=150, deadline=None)
@given(wild_markdown() | st.text(st.characters(exclude_categories=())), LIMITS)
def test_telegram_takes_every_piece_of_any_text(text: str, limit: int) -> None:
    for pieces in (
        render_markdown(text, limit=limit),
        split_plain(text, limit=limit),
        render_markdown(cut_unfinished(text), limit=limit),
    ):
        assert [find_refusal(piece) for piece in pieces] == [None] * len(pieces)
        assert all(utf16_len(piece.text) <= limit for piece in pieces)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_categories=())), LIMITS)
def test_plain_shows_every_visible_character_of_any_text(text: str, limit: int) -> None:
    rendered = "".join(piece.text for piece in split_plain(text, limit=limit))
    assert [char for char in text if _is_letter(char)] == [char for char in rendered if _is_letter(char)]


def _is_letter(char: str) -> bool:
    return char.isalnum() and is_visible(char)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=20), max_size=60),
    st.sampled_from([100, 500, 3800]),
)
def test_any_code_is_shown_line_by_line(lines: list[str], limit: int) -> None:
    assume(not any(re.match(r"\s*`{4,}\s*$", line) for line in lines))
    pieces = render_markdown("\n".join(["````py", *lines, "````"]), limit=limit)
    rendered = [
        line.rstrip()
        for piece in pieces
        for code in list_texts_under(piece, "pre")
        for line in code.split("\n")
    ]
    assert [line for line in rendered if is_visible(line)] == [
        line.rstrip() for line in lines if is_visible(line)
    ]


@settings(max_examples=100, deadline=None)
@given(
    st.from_regex(
        r"(https?://|HTTPS?:|tg://|mailto:|//)?[\w.@:%\[\]-]{0,12}[./:?#\\]?[^\s]{0,8}", fullmatch=True
    )
)
def test_telegram_takes_every_address_we_take(url: str) -> None:
    piece = Piece("text", ({"type": "text_link", "offset": 0, "length": 4, "url": url},))
    assert not is_web_url(url) or find_refusal(piece) is None
