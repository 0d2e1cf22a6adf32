"""Links of an answer: real ones stay and are listed as sources, all others become text that is not tapped."""

from collections.abc import Collection

import pytest
from hypothesis import given as for_each
from hypothesis import strategies as st

from bot.domain import AnswerLinks
from bot.telegram.delivery.renderer import Snapshot, render_answer, render_snapshot
from bot.telegram.formatting.answer_links import MAX_SOURCES, may_have_links
from bot.telegram.formatting.autolinks import find_addresses
from bot.telegram.formatting.markdown_events import parse_markdown
from bot.telegram.formatting.render import render_markdown
from bot.telegram.formatting.splitter import Piece
from tests.support.tdlib_parser import find_refusal, query_tdlib

RETURNED = tuple(f"https://real{n}.example/page" for n in range(1, 9))
WRITTEN = "https://person.example/wrote"
INVENTED = (
    "https://fake.example/page",
    "http://real1.example.evil.example/",
    "www.evil.com/x",
    "t.me/evil",
    "evil.com",
    "shop.evil.org?x=1",
    "😀evil.com:80/a",
    "tg://resolve?domain=evil",
    "http://1.2.3.4/a",
    "http://real1.example/page",  # of another scheme
    "日本.com?x",
    "person.com@evil.com/login",
    "ann:pw@evil.io:80",
    "10.1.2.3/a",
    "10.1.2.3:8080",
    "evil.com:80evil.org/x",
    "\u200d.evil.com",
    "4711.evil.xyz",
    "door-4711.evil.io",
    "4711-evil.pages.dev",
    "evil.co.uk",
    "4711.EVIL.COM",
    "4711.пример.рф",
    "evil.xyz?q=4711",
    "evil.xyz#4711",
    "evil.app:8080",
    "evil.онлайн",
    "evil.onion",
    "ann:pw@evil.xyz",
    "1.2.3.4",
    "evil.md",
)
CITED = dict(enumerate(RETURNED, 7))
OPAQUE = ("text_link", "code", "pre")


def build_links(opened: tuple[str, ...] = ()) -> AnswerLinks:
    def find_known(addresses: Collection[str]) -> set[str]:
        return {*addresses} & {*RETURNED, WRITTEN, "person.com"}

    def find_returned(addresses: Collection[str]) -> set[str]:
        return {*addresses} & {*RETURNED}

    return AnswerLinks(find_known, find_returned, CITED, opened)


def show(markdown: str, opened: tuple[str, ...] = ()) -> tuple[Piece, ...]:
    return render_answer(markdown, {}, build_links(opened), "Sources:")


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


def fill(template: str) -> str:
    return template.format(fake=INVENTED[0], real=RETURNED[0], written=WRITTEN)


@pytest.mark.parametrize(
    ("answer", "text", "marks"),
    [
        pytest.param(
            "It is out [8], and [9] agrees [8].",
            "It is out [8], and [9] agrees [8].\n\nSources: 8 real2.example · 9 real3.example",
            [
                ("[8]", RETURNED[1]),
                ("[9]", RETURNED[2]),
                ("[8]", RETURNED[1]),
                ("8 real2.example", RETURNED[1]),
                ("9 real3.example", RETURNED[2]),
            ],
            id="numbers",
        ),
        pytest.param(
            "Both say so [8, 9] or [8][9][1], since May.[8]",
            "Both say so [8][9] or [8][9], since May.[8]\n\nSources: 8 real2.example · 9 real3.example",
            [
                *[("[8]", RETURNED[1]), ("[9]", RETURNED[2])] * 2,
                ("[8]", RETURNED[1]),
                ("8 real2.example", RETURNED[1]),
                ("9 real3.example", RETURNED[2]),
            ],
            id="several numbers",
        ),
        pytest.param(
            "So it is [10], [8] and {real}.",
            "So it is [10], [8] and {real}.\n\nSources: 10 real4.example · 8 real2.example · 7 real1.example",
            [
                ("[10]", RETURNED[3]),
                ("[8]", RETURNED[1]),
                ("{real}", RETURNED[0]),
                ("10 real4.example", RETURNED[3]),
                ("8 real2.example", RETURNED[1]),
                ("7 real1.example", RETURNED[0]),
            ],
            id="in order of mention",
        ),
        pytest.param(
            "据报道[8]已发布。",
            "据报道[8]已发布。\n\nSources: 8 real2.example",
            [("[8]", RETURNED[1]), ("8 real2.example", RETURNED[1])],
            id="Chinese",
        ),
        pytest.param(
            "See [8](https://real2.example/page), [[9]](https://real3.example/page) and [7]({fake}).",
            "See [8], [9] and 7 ({fake}).\n\nSources: 8 real2.example · 9 real3.example",
            [
                ("[8]", RETURNED[1]),
                ("[9]", RETURNED[2]),
                ("{fake}", "code"),
                ("8 real2.example", RETURNED[1]),
                ("9 real3.example", RETURNED[2]),
            ],
            id="numbers as labels",
        ),
        pytest.param(
            "It is so [8].\n\n[8]: https://real2.example/page",
            "It is so [8].\n\n[8]: https://real2.example/page\n\nSources: 8 real2.example",
            [
                ("[8]", RETURNED[1]),
                ("[8]", RETURNED[1]),
                ("https://real2.example/page", RETURNED[1]),
                ("8 real2.example", RETURNED[1]),
            ],
            id="definitions",
        ),
        pytest.param(
            "| a | b |\n|---|---|\n| one [8] | two [1] |",
            "a       | b\n--------+----\none [8] | two\n\nSources: 8 real2.example",
            [("a       | b\n--------+----\none [8] | two", "pre"), ("8 real2.example", RETURNED[1])],
            id="table",
        ),
        pytest.param("It is certain [1]. [2] Yes.", "It is certain. Yes.", [], id="numbers without a source"),
        pytest.param(
            "x[8], array[7], f(x)[8], слово[8], [7, 100], [0], \\[8], [a] and `[8]`[8]",
            "x[8], array[7], f(x)[8], слово[8], [7, 100], [0], [8], [a] and [8][8]",
            [("[8]", "code")],
            id="no citations",
        ),
        pytest.param("See [the page]({fake}).", "See the page ({fake}).", [("{fake}", "code")], id="label"),
        pytest.param("😀 See {fake}.", "😀 See {fake}.", [("{fake}", "code")], id="bare"),
        pytest.param("See <{fake}>", "See {fake}", [("{fake}", "code")], id="autolink"),
        pytest.param(
            "See **all of {fake} now**",
            "See all of {fake} now",
            [("all of ", "bold"), ("{fake}", "code"), (" now", "bold")],
            id="bold",
        ),
        pytest.param("`{fake}` stays", "{fake} stays", [("{fake}", "code")], id="code"),
        pytest.param("You wrote {written}.", "You wrote {written}.", [("{written}", WRITTEN)], id="person"),
        pytest.param("You wrote person.com", "You wrote person.com", [], id="name of a person"),
        pytest.param("{written}$word$", "{written}$word$", [("{written}$word$", "code")], id="glued"),
        pytest.param(
            "Try evil.com or t.me/evil",
            "Try evil.com or t.me/evil",
            [("evil.com", "code"), ("t.me/evil", "code")],
            id="names",
        ),
        pytest.param(
            "[one]({real})\n```\ncode",
            "one\ncode\n\nSources: 7 real1.example",
            [("one", RETURNED[0]), ("code", "pre"), ("7 real1.example", RETURNED[0])],
            id="fence",
        ),
        pytest.param(
            "<!-- {real}",
            "<!-- {real}",
            [("{real}", "code")],
            id="HTML",
        ),
        pytest.param("Nothing to link.", "Nothing to link.", [], id="none"),
    ],
)
def test_links_that_are_not_real_become_text_and_numbers_lead_to_sources(answer, text, marks):
    (piece,) = show(fill(answer))
    assert piece.text == fill(text)
    assert list_marks(piece) == [(fill(shown), fill(kind)) for shown, kind in marks]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("See https://a.example/Foo_(bar), or not.", "https://a.example/Foo_(bar)"),
        ("(https://a.example/Foo_(bar))", "https://a.example/Foo_(bar)"),
        ("(see https://a.example/foo).", "https://a.example/foo"),
        ("[https://a.example/x[1]]!", "https://a.example/x[1]"),
    ],
)
def test_a_bracket_belongs_to_an_address_that_opens_it(text: str, address: str):
    [(start, end)] = find_addresses(text)
    assert text[start:end] == address


@pytest.mark.parametrize(
    "text",
    [
        "**Read** config.json and main.cpp in 10.0.0.0/8",
        "Call *asyncio.gather* with Node.js/Deno, e.g. 3.14 at 10.30",
        "これはNode.jsです",
        "Write to ann.smith@person.com, bob@evil.com, git@evil.com:a/b, x.evil.com@home and <ann@evil.com>",
    ],
)
def test_names_and_mail_addresses_look_as_before(text):
    assert show(text) == render_markdown(text)


def test_names_of_files_with_an_ending_of_the_web_are_code_and_no_link_to_strangers():
    (piece,) = show("Read README.md and call asyncio.run in main.py.")
    assert list_marks(piece) == [("README.md", "code"), ("asyncio.run", "code"), ("main.py", "code")]


_LABELS = st.text(st.sampled_from("ab4-_яñ日xZ"), min_size=1, max_size=6)
_ENDINGS = ("com", "COM", "Xyz", "xyz", "io", "co.uk", "рф", "онлайн", "app", "md", "py", "xn--p1ai", "onion")
_BEFORE = (
    "",
    "a ",
    "@",
    "//",
    "(",
    "«",
    "a@",
    "a:b@",
    "http:",
    "https:/",
    "/",
    ".",
    "~",
    "_",
    "-",
    "日",
    "\u200b",
)
_AFTER = ("", "?q=1", "?", "#a", "#", ":80", ":80evil", "/a", "/", ".", "..", ",", "…", "»", "日", "@", "-")


@for_each(
    st.sampled_from(_BEFORE),
    st.lists(_LABELS, min_size=1, max_size=4),
    st.sampled_from(_ENDINGS),
    st.sampled_from(_AFTER),
)
def test_nothing_that_telegram_would_link_is_left_as_text(before, labels, ending, after):
    shown = show(f"See {before}{'.'.join((*labels, ending))}{after} now")
    assert set().union(*map(find_tappable, shown)) == set()


def test_a_number_stays_where_nothing_was_searched_for_and_goes_where_nothing_was_found():
    text = "Smith [7] and [12] say so."
    assert render_answer(text, {}, AnswerLinks(set, set), "Sources:") == (Piece(text),)
    assert render_answer(text, {}, AnswerLinks(set, set, {}), "Sources:") == (Piece("Smith and say so."),)


def test_what_a_file_tool_returned_is_no_source():
    links = AnswerLinks(set, set)
    (piece,) = render_answer("Look into config.json and evil.com.", {}, links, "Sources:")
    assert list_marks(piece) == []


def test_pages_that_were_opened_are_sources_even_if_the_answer_names_none():
    (piece,) = show("Yes.", (RETURNED[3],))
    assert piece.text == "Yes.\n\nSources: 10 real4.example"
    assert list_marks(piece) == [("10 real4.example", RETURNED[3])]


def test_no_source_has_the_number_of_a_hit_that_it_is_not():
    (piece,) = show("It is so [9].", ("https://opened.example/", RETURNED[0], "https://other.example/"))
    named = "9 real3.example · 15 opened.example · 7 real1.example · 16 other.example"
    assert piece.text == f"It is so [9].\n\nSources: {named}"


def test_a_page_that_two_searches_found_has_its_first_number():
    links = AnswerLinks(set, set, {1: RETURNED[0], 2: RETURNED[1], 7: RETURNED[0]})
    (piece,) = render_answer("Yes [7][2][1].", {}, links, "Sources:")
    assert piece.text == "Yes [1][2].\n\nSources: 1 real1.example · 2 real2.example"


def test_a_page_is_one_source_whatever_stands_around_its_address():
    (piece,) = show("See [7] and www.real1.example/page", (f"{RETURNED[0]}/",))
    assert piece.text.endswith("Sources: 7 real1.example")


def test_a_page_is_one_source_however_its_address_is_spelled_and_as_a_search_returned_it():
    page = RETURNED[0]
    spellings = {page, f"{page}#top", page.replace("https", "http"), "https://real1.example:443/page"}
    links = AnswerLinks(lambda found: {*found}, lambda found: {*found}, {7: page})
    (piece,) = render_answer(f"See {' and '.join(sorted(spellings))} [7].", {}, links, "Sources:")
    assert piece.text.endswith("Sources: 7 real1.example")
    assert list_marks(piece)[-1] == ("7 real1.example", page)


def test_numbers_of_no_hit_leave_no_gap():
    (piece,) = show("It is so [99], also [98] and [97], they say. [96]")
    assert piece.text == "It is so, also and, they say."


def test_there_are_five_sources_at_most():
    (piece,) = show(" ".join(f"[{number}]" for number in CITED))
    assert len(piece.entities) == 2 * MAX_SOURCES
    assert piece.text.startswith("[7] [8] [9] [10] [11]\n\nSources: 7 ")
    assert "11 real5.example" in piece.text
    assert "12" not in piece.text


def test_more_addresses_than_a_message_can_mark_are_code_as_they_are_written():
    text = " ".join(f"evil{n}.com" for n in range(150))
    (piece,) = show(f"**See** {text}")
    assert find_tappable(piece) == set()
    assert piece.text == f"See {text}"


def test_formatting_gives_way_to_marks():
    words = " ".join(f"**w{n}** x" for n in range(99))
    answer, sources = show(f"{words} {INVENTED[0]} and {RETURNED[0]}")
    assert list_marks(answer)[-2:] == [(INVENTED[0], "code"), (RETURNED[0], RETURNED[0])]
    assert find_tappable(answer) == {RETURNED[0]}
    assert sources.text == "Sources: 7 real1.example"
    assert find_refusal(answer) is None


def test_five_sources_fit_below_the_longest_message():
    (piece,) = show("word " * 759, tuple(f"https://{str(n) * 60}.example/" for n in range(5)))
    assert "word\n\nSources: 15 000" in piece.text
    assert find_refusal(piece) is None


def test_a_running_answer_has_the_links_of_the_answer_and_no_more():
    text = f"See [this]({INVENTED[0]}), {RETURNED[0]}, [8] and evil.com. "
    (running,) = render_snapshot(Snapshot(text, None, build_links()), {})
    (ended,) = show(text)
    assert ended.text.startswith(running.text)
    assert ended.entities[: len(running.entities)] == running.entities
    assert find_tappable(running) == {RETURNED[0], RETURNED[1]}


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
        "[7, 8]",
        "[7]: ",
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


@for_each(st.lists(PIECES, max_size=25), st.sampled_from((" ", "", "\n")), st.booleans())
def test_nobody_can_tap_what_no_tool_returned_and_no_person_wrote(pieces, joint, has_opened):
    shown = show(joint.join(pieces), RETURNED[:2] if has_opened else ())
    tappable = set().union(*map(find_tappable, shown))
    assert tappable <= {*RETURNED, WRITTEN}
    assert [find_refusal(piece) for piece in shown] == [None] * len(shown)


@for_each(st.lists(PIECES | st.characters(), max_size=4).map("".join))
def test_a_text_that_may_have_no_links_has_none(text):
    if not may_have_links(text):
        assert not list(find_addresses(text))
        assert not any(event.is_start_of("Link", "Image") for event in parse_markdown(text))
        assert "[" not in text
