"""The text of a PDF is read page by page until a bound is reached; a text file in any encoding."""

from typing import Any

import pytest

from bot.attachments.text_extraction import extract_pdf_text, extract_plain_text
from tests.support.attachment_files import make_locked_pdf, make_pdf

THREE_PAGES = make_pdf(["one", "two", "three"])


@pytest.mark.parametrize(
    ("bounds", "texts"),
    [
        ({}, ["one", "two", "three"]),
        ({"pages": 2}, ["one", "two"]),
        ({"characters": 5}, ["one", "tw"]),
        ({"characters": 3}, ["one"]),
        ({"within": -1.0}, ["one"]),
    ],
)
def test_pages_are_read_until_a_bound_is_reached(bounds: dict[str, Any], texts: list[str]):
    result = extract_pdf_text(THREE_PAGES, **{"pages": 9, "characters": 900, "within": 60.0} | bounds)
    assert result == {"texts": texts, "of": 3}


def test_a_broken_page_is_empty_and_the_others_are_read():
    stream_start = THREE_PAGES.index(b"stream\n") + len(b"stream\n")
    broken = THREE_PAGES[:stream_start] + b"#" * 8 + THREE_PAGES[stream_start + 8 :]
    assert extract_pdf_text(broken, 9, 900, 60.0)["texts"] == ["", "two", "three"]


class FakePage:
    def __init__(self, content: str | Exception) -> None:
        self.content = content

    def extract_text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        raise self.content


def test_a_memory_error_does_not_count_as_a_broken_page(monkeypatch: pytest.MonkeyPatch):
    class Reader:
        is_encrypted = False
        pages = (FakePage("a\ud800b\x00\r\nc"), FakePage(KeyError("/Font")), FakePage(MemoryError()))

        def __init__(self, _: object) -> None: ...

    monkeypatch.setattr("pypdf.PdfReader", Reader)
    assert extract_pdf_text(b"", 2, 900, 60.0) == {"texts": ["a?b\nc", ""], "of": 3}
    with pytest.raises(MemoryError):
        extract_pdf_text(b"", 3, 900, 60.0)


def test_a_locked_or_empty_pdf_is_refused():
    assert extract_pdf_text(make_locked_pdf(["a"], "word"), 9, 900, 60.0) == {"refused": "locked"}
    assert extract_pdf_text(make_pdf(["", ""]), 9, 900, 60.0) == {"refused": "empty"}


def test_a_text_may_contain_few_control_characters():
    assert extract_plain_text(b"x" * 499 + b"\x00", 900) == {"text": "x" * 499, "length": 499, "sure": True}
    assert extract_plain_text(b"x" * 498 + b"\x00", 900) == {"refused": "unknown"}
    assert extract_plain_text("é".encode("cp1252") + b"\x81", 1) == {"text": "é", "length": 2, "sure": False}
