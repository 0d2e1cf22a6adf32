"""What of a document goes into a prompt: whole pages, or as much as there is room for, and what is left out
is said.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.attachments.excerpts import ExtractedDocument, shorten_text


def make_paged_document(*texts: str, pages: int | None = None) -> ExtractedDocument:
    return ExtractedDocument("a.pdf", "application/pdf", texts, page_count=pages or len(texts))


def make_text_document(
    text: str, length: int | None = None, *, is_encoding_known: bool = True
) -> ExtractedDocument:
    return ExtractedDocument(
        "a.txt", "text/plain", (text,), char_count=length or len(text), is_encoding_known=is_encoding_known
    )


@pytest.mark.parametrize(
    ("document", "room", "label", "text"),
    [
        (make_paged_document("one"), 100, "", "(page 1)\none"),
        (make_paged_document("one", "two"), 100, ", 2 pages", "(page 1)\none\n\n(page 2)\ntwo"),
        (
            make_paged_document("one", "two", "three"),
            24,
            ", pages 1-2 of 3",
            "(page 1)\none\n\n(page 2)\ntwo\n(page 3 is left out)",
        ),
        (
            make_paged_document("one", "two", "three"),
            12,
            ", page 1 of 3",
            "(page 1)\none\n(pages 2-3 are left out)",
        ),
        (
            make_paged_document("one", pages=200),
            100,
            ", page 1 of 200",
            "(page 1)\none\n(pages 2-200 are left out)",
        ),
        (
            make_paged_document("one two", "b"),
            14,
            ", beginning of page 1 of 2",
            "(page 1)\none\n(the rest is left out)",
        ),
        (make_text_document("one\ntwo"), 7, "", "one\ntwo"),
        (make_text_document("one\ntwo"), 6, ", first 3 of 7 characters", "one\n(the rest is left out)"),
        (
            make_text_document("one", length=2_000_000),
            9,
            ", first 3 of 2,000,000 characters",
            "one\n(the rest is left out)",
        ),
        (make_text_document("hé", is_encoding_known=False), 9, "", "(some letters may be read wrongly)\nhé"),
    ],
)
def test_an_excerpt_says_what_it_is(document: ExtractedDocument, room: int, label: str, text: str):
    assert document.build_excerpt(room) == (label, text)


def test_all_that_was_read_is_kept():
    kept = make_paged_document("one", "two", pages=9).stored_attachment
    assert (kept.kind, kept.name, kept.media_type, kept.data) == (
        "document",
        "a.pdf",
        "application/pdf",
        None,
    )
    assert kept.text == "(page 1)\none\n\n(page 2)\ntwo"
    assert make_text_document("x" * 9000).stored_attachment.text == "x" * 9000


@given(st.text(max_size=400), st.integers(0, 900))
def test_a_shortened_text_is_its_beginning_and_fits(text: str, room: int):
    short = shorten_text(text, room)
    assert text.startswith(short)
    assert len(short.encode()) <= room or short == text


@given(st.lists(st.text(max_size=60), min_size=1, max_size=9), st.integers(0, 200), st.integers(0, 300))
def test_no_excerpt_takes_much_more_than_its_room(texts: list[str], more: int, room: int):
    label, text = make_paged_document(*texts, pages=len(texts) + more).build_excerpt(room)
    assert len(text.encode()) <= room + 60
    assert len(label) < 40
