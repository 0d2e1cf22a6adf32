"""Links of an answer: real ones stay and are listed as sources, all others become text that is not tapped."""

from functools import partial

import pytest
from hypothesis import given as for_each
from hypothesis import strategies as st

from bot.domain import AnswerLinks
from bot.telegram.delivery.renderer import Snapshot, render_marked, render_snapshot
from bot.telegram.formatting.answer_links import MAX_SOURCES, mark_sources
from bot.telegram.formatting.splitter import Piece
from tests.support.tdlib_parser import find_refusal, query_tdlib

RETURNED = tuple(f"https://real{n}.example/page" for n in range(1, 9))
WRITTEN = "https://person.example/wrote"
INVENTED = (
    "https://fake.example/page",
    "http://real1.example.evil.example/",
    "www.fake.example/x",
    "fake.example/y",
    "evil.com",
    "ann@evil.com/x",
    "😀evil.com:80/a",
    "tg://resolve?domain=evil",
    "http://1.2.3.4/a",
    "日本.com?x",
)
CITED = dict(enumerate(RETURNED, 7))
OPAQUE = ("text_link", "code", "pre")


def build_links(opened: tuple[str, ...] = ()) -> AnswerLinks:
    known = {*RETURNED, WRITTEN}
    return AnswerLinks(known.__contains__, set(RETURNED).__contains__, CITED, opened)


def show(markdown: str, opened: tuple[str, ...] = ()) -> tuple[Piece, ...]:
    mark = partial(mark_sources, links=build_links(opened), heading="Sources:")
    return render_marked(markdown, mark, {})


def find_tappable(piece: Piece) -> set[str]:
    """The addresses that people can tap: text links, and what TDLib makes links of outside code and links."""
    taken = [
        (entity["offset"], entity["offset"] + entity["length"])
        for entity in piece.entities
        if entity["type"] in OPAQUE
    ]
    found = query_tdlib({"@type": "getTextEntities", "text": piece.text})["entities"]
    units = piece.text.encode("utf-16-le")
    tappable = {entity["url"] for entity in piece.entities if entity["type"] == "text_link"}
    for entity in found:
        start, end = entity["offset"], entity["offset"] + entity["length"]
        is_taken = any(first < end and last > start for first, last in taken)
        if entity["type"]["@type"] == "textEntityTypeUrl" and not is_taken:
            tappable.add(units[start * 2 : end * 2].decode("utf-16-le"))
    return tappable


def list_marks(piece: Piece) -> list[tuple[str, str]]:
    """The texts of code and links, each with where it leads."""
    units = piece.text.encode("utf-16-le")
    marks = []
    for entity in piece.entities:
        start, end = entity["offset"] * 2, (entity["offset"] + entity["length"]) * 2
        marks.append((units[start:end].decode("utf-16-le"), entity.get("url", entity["type"])))
    return marks


@pytest.mark.parametrize(
    ("answer", "text", "marks"),
    [
        (
            "It is out [8], and [9] agrees [8].",
            "It is out [1], and [2] agrees [1].\n\nSources: 1 · 2",
            [
                ("[1]", RETURNED[1]),
                ("[2]", RETURNED[2]),
                ("[1]", RETURNED[1]),
                ("1", RETURNED[1]),
                ("2", RETURNED[2]),
            ],
        ),
        ("See [the page]({fake}).", "See the page ({fake}).", [("{fake}", "code")]),
        ("😀 See {fake}.", "😀 See {fake}.", [("{fake}", "code")]),
        ("See <{fake}>", "See {fake}", [("{fake}", "code")]),
        (
            "See **all of {fake} now**",
            "See all of {fake} now",
            [("all of ", "bold"), ("{fake}", "code"), (" now", "bold")],
        ),
        ("`{fake}` and [3] stay", "{fake} and [3] stay", [("{fake}", "code")]),
        ("You wrote {written}.", "You wrote {written}.", [("{written}", WRITTEN)]),
        ("{written}$word$", "{written}$word$", [("{written}$word$", "code")]),
        (
            "Read README.md or evil.com",
            "Read README.md or evil.com",
            [("README.md", "code"), ("evil.com", "code")],
        ),
        ("Write to ann@person.com at 10.30 e.g. 3.14", "Write to ann@person.com at 10.30 e.g. 3.14", []),
        (
            "[one]({real})\n```\ncode",
            "one\ncode\n\nSources: 1",
            [("one", RETURNED[0]), ("code", "pre"), ("1", RETURNED[0])],
        ),
        ("Nothing to link.", "Nothing to link.", []),
    ],
    ids=[
        "numbers",
        "label",
        "bare",
        "autolink",
        "bold",
        "code",
        "person",
        "glued",
        "names",
        "no",
        "fence",
        "none",
    ],
)
def test_links_that_are_not_real_become_text_and_numbers_lead_to_sources(answer, text, marks):
    def fill(template: str) -> str:
        return template.format(fake=INVENTED[0], real=RETURNED[0], written=WRITTEN)

    (piece,) = show(fill(answer))
    assert piece.text == fill(text)
    assert list_marks(piece) == [(fill(shown), fill(kind)) for shown, kind in marks]


def test_pages_that_were_opened_are_sources_even_if_the_answer_names_none():
    (piece,) = show("Yes.", (RETURNED[3],))
    assert (piece.text, list_marks(piece)) == ("Yes.\n\nSources: 1", [("1", RETURNED[3])])


def test_there_are_five_sources_at_most():
    (piece,) = show(" ".join(f"[{number}]" for number in CITED))
    assert len(piece.entities) == 2 * MAX_SOURCES
    assert piece.text == "[1] [2] [3] [4] [5] [12] [13] [14]\n\nSources: 1 · 2 · 3 · 4 · 5"


def test_more_addresses_than_a_message_can_mark_look_the_same_and_are_none():
    (piece,) = show(" ".join(f"evil{n}.com" for n in range(150)))
    assert find_tappable(piece) == set()
    assert "evil149\u2024com" in piece.text


def test_a_running_answer_has_no_links():
    (piece,) = render_snapshot(Snapshot(f"See [this]({INVENTED[0]}), {RETURNED[0]} and evil.com. "), {})
    assert find_tappable(piece) == set()


ADDRESSES = st.sampled_from((*RETURNED, WRITTEN, *INVENTED))
WORDS = st.sampled_from(
    (
        "word",
        "**",
        "_",
        "`",
        "```\n",
        "\n\n",
        "- ",
        "> ",
        "[7]",
        "[1]",
        "(",
        ")",
        "<b>",
        "$",
        "|",
        "!",
        "/",
        ".",
        "@",
        "~",
        "😀",
        "www.",
    )
)
FORMS = st.sampled_from(
    (
        "{}",
        "[label]({})",
        "<{}>",
        "![x]({})",
        "**{}**",
        "[r]: {}\n",
        "<a href='{}'>x</a>",
        "({})",
        "[{0}]({0})",
    )
)
PIECES = WORDS | st.builds(str.format, FORMS, ADDRESSES)


@for_each(st.lists(PIECES, max_size=25), st.sampled_from((" ", "", "\n")))
def test_nobody_can_tap_what_no_tool_returned_and_no_person_wrote(pieces, joint):
    shown = show(joint.join(pieces))
    assert set().union(*map(find_tappable, shown)) <= {*RETURNED, WRITTEN}
    assert [find_refusal(piece) for piece in shown] == [None] * len(shown)
