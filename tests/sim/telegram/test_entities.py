"""The simulator's judgement of texts, entities and links, held against TDLib's own parser."""

import json
from typing import Any

import pytest
import tdjson
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bot.sim.telegram.entities import MAX_ENTITIES, count_utf16_units, format_text
from bot.sim.telegram.links import LinkInvalid, check_link
from bot.sim.telegram.params import TelegramRefusal

TD_TYPES = {
    "bold": {"@type": "textEntityTypeBold"},
    "italic": {"@type": "textEntityTypeItalic"},
    "code": {"@type": "textEntityTypeCode"},
    "pre": {"@type": "textEntityTypePre"},
    "blockquote": {"@type": "textEntityTypeBlockQuote"},
}


@pytest.fixture(scope="module", autouse=True)
def quiet_tdlib() -> None:
    execute_tdlib({"@type": "setLogVerbosityLevel", "new_verbosity_level": 0})


def execute_tdlib(request: dict[str, Any]) -> dict[str, Any]:
    answer = tdjson.td_execute(json.dumps(request).encode())
    assert answer is not None
    decoded = json.loads(answer)
    assert isinstance(decoded, dict)
    return decoded


def check_with_tdlib(text: str, entities: list[dict[str, Any]]) -> dict[str, Any]:
    """What TDLib makes of a formatted text: formattedText or error. Asked through a call that needs no
    network.
    """
    given = [
        {
            "@type": "textEntity",
            "offset": entity["offset"],
            "length": entity["length"],
            "type": _td_type(entity),
        }
        for entity in entities
    ]
    text_object = {"@type": "formattedText", "text": text, "entities": given}
    return execute_tdlib({"@type": "getMarkdownText", "text": text_object})


def _td_type(entity: dict[str, Any]) -> dict[str, Any]:
    if entity["type"] == "text_link":
        return {"@type": "textEntityTypeTextUrl", "url": entity["url"]}
    return TD_TYPES[entity["type"]]


def our_refusal(text: str, entities: list[dict[str, Any]]) -> str:
    """Our refusal, empty if it is accepted."""
    try:
        format_text(text, entities)
    except TelegramRefusal as refusal:
        return refusal.description
    return ""


def tdlib_refusal(text: str, entities: list[dict[str, Any]]) -> str:
    """TDLib's refusal as the Bot API words it, empty if it is accepted."""
    answer = check_with_tdlib(text, entities)
    if answer["@type"] != "error":
        return ""
    message = str(answer["message"])
    return "Bad Request: " + message[0].lower() + message[1:]


# --- links

LINKS = """
https://example.com|HTTPS://EXAMPLE.COM/A b|http://1.2.3.4/|http://[::1]/|http://[::zz]|https://user:pw@example.com:8443/x?y#z
example.com|t.me/x|a@b.com|mailto:a@b.c|mailto:abc|mailto:|tel:123|file:///x|ftp://a.b|javascript:alert(1)||#sec|src/main.py
http://localhost:3000|http://localhost|http://a|//example.com|https://ex ample.com|https://пример.рф/а b|https://a.b:99999
https://example.com:0/|https://example.com:x|https://example.com:-5|https://example.com:007/|https://example..com|https://.|.
tg:|tg://user|tg:resolve?domain=x|TG://resolve|tg://a.b|tg://a:1|tg:http://x|tg:https://x|tg://a@b|tg://[::1]|tg://?x=1
ton://x|ton:x|tonsite://a.ton|tonsite:a.ton|tonsite://a|https://ex%61mple.com|https://ex%6.com|https://ex%zz.com|https://u%zz@a.b
https://a.b/%zz|https://u^r@a.b|https://a^b.c|https://a.b?c|https://a.b#c|https://a.b/  |https://a.b?  |https://[::1]:80/
https://a.b:80@c.d|https://@a.b|https://:80|http://:a.b|https://a.b:|x://a.b|://a.b|a:b.c|https:///a.b|https:a.b|https:/a.b
""".replace("\n", "|").split("|")  # fmt: skip


def assert_links_agree(url: str) -> None:
    answer = check_with_tdlib("hello", [{"type": "text_link", "offset": 0, "length": 5, "url": url}])
    try:
        judgement = f"[hello]({check_link(url)})"
    except LinkInvalid as reason:
        judgement = f"Entity URL '{url}' is invalid: {reason}"
    assert judgement == answer.get("text", answer.get("message"))


@pytest.mark.parametrize("url", sorted(set(LINKS)))
def test_links_are_judged_as_by_tdlib(url: str):
    assert_links_agree(url)


@settings(max_examples=120, deadline=None)
@given(
    st.builds(
        "".join,
        st.lists(
            st.one_of(
                st.sampled_from(
                    ["http://", "https://", "ton://", "mailto:", "a", "b.c", "localhost", "[::1]", "%4"]
                ),
                # TDLib's Markdown cannot show a `
                st.sampled_from(list(".:/?#@[]!$&'*+,;=-_~ 0189é😀<>|^{}\\\"\n")),
            ),
            max_size=8,
        ),
    )
)  # fmt: skip
@example("http://a.b:80:80")
@example("[::1]@[::1]")
def test_any_link_is_judged_as_by_tdlib(url: str):
    assert_links_agree(url)


# --- entities


TEXTS = st.text(st.sampled_from("ab é😀界.*"), min_size=1, max_size=8)
ENTITIES = st.fixed_dictionaries(
    {"type": st.sampled_from(sorted(TD_TYPES)), "offset": st.integers(-1, 10), "length": st.integers(-1, 10)}
)


@settings(max_examples=120, deadline=None)
@given(TEXTS, st.lists(ENTITIES, max_size=3))
def test_entities_tdlib_refuses_are_refused(text: str, entities: list[dict[str, Any]]):
    assert our_refusal(text, entities) or not tdlib_refusal(text, entities)


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.lists(ENTITIES, max_size=1))
@example("😀a", [{"type": "bold", "offset": 1, "length": 1}])
@example("😀a", [{"type": "bold", "offset": 0, "length": 1}])
@example("a", [{"type": "bold", "offset": 0, "length": 2}])
@example("a", [{"type": "bold", "offset": 2, "length": 1}])
@example("a", [{"type": "bold", "offset": 9, "length": 0}])
def test_a_refused_entity_is_named_in_the_words_of_tdlib(text: str, entities: list[dict[str, Any]]):
    assert our_refusal(text, entities) == tdlib_refusal(text, entities)


def test_an_invalid_link_refuses_the_whole_text_even_where_it_covers_nothing():
    entity = {"type": "text_link", "offset": 9, "length": 0, "url": "src/main.py"}
    assert our_refusal("hi", [entity]) == "Bad Request: entity URL 'src/main.py' is invalid: Wrong HTTP URL"
    assert our_refusal("hi", [entity]) == tdlib_refusal("hi", [entity])


@pytest.mark.parametrize(
    ("entity", "reason"),
    [
        ("bold", "expected an Object"),
        ({"offset": 0, "length": 1}, 'Can\'t find field "type"'),
        ({"offset": 0, "length": 1, "type": "large"}, "Unsupported type specified"),
        ({"offset": 0, "length": 1, "type": "text_link"}, 'Can\'t find field "url"'),
        ({"offset": 0, "length": 1, "type": "text_mention"}, 'Can\'t find field "user"'),
        ({"length": 1, "type": "bold"}, 'Can\'t find field "offset"'),
        ({"offset": True, "length": 1, "type": "bold"}, 'Can\'t find field "offset"'),
        ({"offset": 0, "length": "x", "type": "bold"}, 'Field "length" must be of type Number'),
    ],
)
def test_an_entity_must_have_a_known_shape(entity: object, reason: str):
    with pytest.raises(TelegramRefusal) as caught:
        format_text("hi", [entity])
    assert caught.value.description == f"Bad Request: can't parse MessageEntity: {reason}"


def test_what_telegram_finds_itself_is_ignored():
    assert format_text("#tag", [{"type": "hashtag", "offset": 90, "length": 9}]).entities == ()


def test_entities_beyond_a_hundred_are_dropped_without_a_word():
    entities = [{"type": "bold", "offset": 2 * i, "length": 1} for i in reversed(range(150))]
    accepted = format_text("x " * 150, entities).entities
    assert [entity["offset"] for entity in accepted] == [2 * i for i in range(MAX_ENTITIES)]


def test_entities_that_are_no_list_are_none():
    assert format_text("hi", "bold").entities == ()


# --- cleaning


@settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from(" \n\r\t\x00\x7fa😀"), max_size=8), st.data())
def test_cleaning_moves_entities_along_with_their_words(text: str, data: st.DataObject):
    units = count_utf16_units(text)
    borders = sorted({count_utf16_units(text[:i]) for i in range(len(text) + 1)})
    start, end = sorted((data.draw(st.sampled_from(borders)), data.draw(st.sampled_from(borders))))
    entity = {"type": "bold", "offset": start, "length": end - start}
    formatted = format_text(text, [entity])
    assert formatted.units == count_utf16_units(formatted.text) <= units
    assert formatted.text == formatted.text.rstrip(" \n")
    encoded = text.encode("utf-16-le")
    covered = encoded[2 * start : 2 * end].decode("utf-16-le")
    visible_pieces = [
        formatted.text.encode("utf-16-le")[2 * e["offset"] : 2 * (e["offset"] + e["length"])].decode(
            "utf-16-le"
        )
        for e in formatted.entities
    ]
    cleaned = "".join(
        "\n" if c == "\n" else " " if c < " " or c == "\x7f" else c for c in covered if c != "\r"
    )
    assert not visible_pieces or cleaned.startswith(visible_pieces[0])
    assert "".join(visible_pieces).strip() == cleaned.strip()


@pytest.mark.parametrize(
    ("text", "clean"),
    [("  a b \n\n", "a b"), ("a\r\nb", "a\nb"), ("a\tb\x00c", "a b c"), ("\n\n", ""), ("", "")],
)
def test_outer_whitespace_and_control_characters_go(text: str, clean: str):
    assert format_text(text, None).text == clean


def test_blank_is_what_shows_nothing():
    assert format_text("\u200b \u2800", None).is_blank
    assert not format_text("\u200bx", None).is_blank
