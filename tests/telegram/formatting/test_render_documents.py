"""Every document and many of its beginnings pass TDLib's checks and hold every word."""

import pytest

from bot.telegram.formatting import render
from bot.telegram.formatting.render import cut_unfinished, render_markdown, split_plain, utf16_len
from tests.support.tdlib_parser import find_refusal, list_texts_under
from tests.support.visible_words import extract_words, find_missing
from tests.telegram.formatting.documents import load_documents

DOCUMENTS = load_documents()
WIDE = ("wide_table", "everything")


@pytest.mark.parametrize("limit", [150, 1000, 3800])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_telegram_takes_every_piece(name: str, limit: int) -> None:
    for pieces in (render_markdown(DOCUMENTS[name], limit=limit), split_plain(DOCUMENTS[name], limit=limit)):
        assert [find_refusal(piece) for piece in pieces] == [None] * len(pieces)
        assert all(utf16_len(piece.text) <= limit for piece in pieces)


@pytest.mark.parametrize("limit", [150, 1000, 3800])
@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name not in WIDE])
def test_every_word_is_shown_in_order(name: str, limit: int) -> None:
    assert find_missing(extract_words(DOCUMENTS[name]), render_markdown(DOCUMENTS[name], limit=limit)) is None


def test_every_word_of_a_wide_table_is_shown() -> None:
    text = "\n".join(piece.text for piece in render_markdown(DOCUMENTS["wide_table"]))
    assert [word for word in extract_words(DOCUMENTS["wide_table"]) if word not in text] == []


@pytest.mark.parametrize(
    "name", ["links", "angle_brackets", "nested_lists", "latex", "fence_in_fence", "emoji", "table"]
)
def test_telegram_takes_every_beginning(name: str) -> None:
    text = DOCUMENTS[name]
    for end in range(0, len(text), 5):
        for pieces in (render_markdown(text[:end]), render_markdown(cut_unfinished(text[:end]))):
            assert [find_refusal(piece) for piece in pieces] == [None] * len(pieces)


@pytest.mark.parametrize("name", ["code", "angle_brackets", "nested_lists", "recipe", "emphasis"])
def test_every_word_of_every_beginning_is_shown(name: str) -> None:
    text = DOCUMENTS[name]
    for end in range(0, len(text), 3):
        assert find_missing(extract_words(text[:end])[:-1], render_markdown(text[:end])) is None


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_document_has_to_be_shown_as_written(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger=render.__name__):
        render_markdown(DOCUMENTS[name])
    assert caplog.messages == []


def test_code_is_shown_verbatim() -> None:
    (piece,) = render_markdown(DOCUMENTS["code"])
    fenced = [
        block.split("\n", 1)[1].rstrip("\n")
        for block in DOCUMENTS["code"].split("```")[1::2]
        if "\n" in block
    ]
    assert [code for code in fenced if code not in list_texts_under(piece, "pre")] == []
