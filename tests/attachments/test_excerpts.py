"""The part of a document that goes into a prompt: whole pages, or as much as fits, and what is left out."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.attachments.excerpts import _SHOWN, ExtractedDocument, shorten_text
from bot.domain import Attachment


def make_paged_document(*texts: str, pages: int | None = None) -> ExtractedDocument:
    return ExtractedDocument("a.pdf", "application/pdf", texts, page_count=pages or len(texts))


def make_scan(*, shown: int, pages: int) -> ExtractedDocument:
    """A scanned document of which some pages are shown."""
    return replace(
        make_paged_document(*[""] * pages),
        drawn_pages=tuple(range(1, pages + 1)),
        pictures=(Attachment("image", "a.pdf", "image/jpeg", data=b"x"),) * shown,
    )


def make_text_document(
    text: str, length: int | None = None, *, is_encoding_known: bool = True
) -> ExtractedDocument:
    return ExtractedDocument(
        "a.txt", "text/plain", (text,), char_count=length or len(text), is_encoding_known=is_encoding_known
    )


@pytest.mark.parametrize(
    ("document", "max_bytes", "part", "text"),
    [
        (make_paged_document("one"), 100, "", "(page 1)\none"),
        (make_paged_document("one", "two"), 100, "2 pages", "(page 1)\none\n\n(page 2)\ntwo"),
        (
            make_paged_document("one", "two", "three"),
            24,
            "pages 1-2 of 3",
            "(page 1)\none\n\n(page 2)\ntwo\n(page 3 is left out)",
        ),
        (
            make_paged_document("one", "two", "three"),
            12,
            "page 1 of 3",
            "(page 1)\none\n(pages 2-3 are left out)",
        ),
        (
            make_paged_document("one", pages=200),
            100,
            "page 1 of 200",
            "(page 1)\none\n(pages 2-200 are left out)",
        ),
        (
            make_paged_document("one two", "b"),
            14,
            "beginning of page 1 of 2",
            "(page 1)\none\n(the rest is left out)",
        ),
        (make_scan(shown=1, pages=1), 100, "", f"(page 1)\n{_SHOWN}"),
        (
            make_scan(shown=2, pages=3),
            100,
            "pages 1-2 of 3",
            f"(page 1)\n{_SHOWN}\n\n(page 2)\n{_SHOWN}\n(page 3 is left out)",
        ),
        (make_text_document("one\ntwo"), 7, "", "one\ntwo"),
        (make_text_document("one\ntwo"), 6, "first 3 of 7 characters", "one\n(the rest is left out)"),
        (
            make_text_document("one", length=2_000_000),
            9,
            "first 3 of 2,000,000 characters",
            "one\n(the rest is left out)",
        ),
        (make_text_document("hé", is_encoding_known=False), 9, "", "(some letters may be read wrongly)\nhé"),
    ],
)
def test_an_excerpt_says_which_part_it_is(document: ExtractedDocument, max_bytes: int, part: str, text: str):
    excerpt = document.build_excerpt(max_bytes)
    assert (excerpt.part, excerpt.text) == (part, text)
    assert excerpt.is_whole == ("left out" not in text)


def test_all_that_was_read_is_stored():
    attachment = make_paged_document("one", "two", pages=9).stored_attachment
    assert (attachment.kind, attachment.name, attachment.media_type, attachment.data) == (
        "document",
        "a.pdf",
        "application/pdf",
        None,
    )
    assert attachment.text == "(page 1)\none\n\n(page 2)\ntwo"
    assert make_text_document("x" * 9000).stored_attachment.text == "x" * 9000


def test_of_a_mixed_document_the_pages_without_text_and_picture_are_counted():
    mixed = replace(make_scan(shown=1, pages=4), texts=("", "two", "", ""), drawn_pages=(1, 3))
    excerpt = mixed.build_excerpt(1000)
    assert excerpt.text == f"(page 1)\n{_SHOWN}\n\n(page 2)\ntwo\n\n(page 3)\n\n\n(page 4)\n"
    assert (excerpt.textless_pages, excerpt.is_whole, excerpt.part) == (2, True, "4 pages")


@given(st.text(max_size=400), st.integers(0, 900))
def test_a_shortened_text_is_its_beginning_and_fits(text: str, max_bytes: int):
    short = shorten_text(text, max_bytes)
    assert text.startswith(short)
    assert len(short.encode()) <= max_bytes or short == text


@given(st.lists(st.text(max_size=60), min_size=1, max_size=9), st.integers(0, 200), st.integers(0, 300))
def test_no_excerpt_is_much_longer_than_allowed(texts: list[str], pages_not_read: int, max_bytes: int):
    excerpt = make_paged_document(*texts, pages=len(texts) + pages_not_read).build_excerpt(max_bytes)
    assert len(excerpt.text.encode()) <= max_bytes + 60
    assert len(excerpt.part) < 40
