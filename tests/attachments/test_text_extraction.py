"""The text of a paper is taken page by page, until enough is read; of a text file, sign by sign."""

from typing import Any

import pytest

from bot.attachments.text_extraction import extract_pdf_text, extract_plain_text
from tests.support import attachment_files as made

THREE = made.make_pdf(["one", "two", "three"])


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
def test_pages_are_read_until_one_of_the_bounds_is_reached(bounds: dict[str, Any], texts: list[str]):
    found = extract_pdf_text(THREE, **{"pages": 9, "characters": 900, "within": 60.0} | bounds)
    assert found == {"texts": texts, "of": 3}


def test_a_page_that_is_broken_is_empty_and_the_others_are_not():
    at = THREE.index(b"stream\n") + len(b"stream\n")
    broken = THREE[:at] + b"#" * 8 + THREE[at + 8 :]
    assert extract_pdf_text(broken, 9, 900, 60.0)["texts"] == ["", "two", "three"]


class FakePage:
    def __init__(self, content: str | Exception) -> None:
        self.content = content

    def extract_text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        raise self.content


def test_memory_that_is_used_up_is_not_taken_for_a_broken_page(monkeypatch: pytest.MonkeyPatch):
    class Reader:
        is_encrypted = False
        pages = (FakePage("a\ud800b\x00\r\nc"), FakePage(KeyError("/Font")), FakePage(MemoryError()))

        def __init__(self, _: object) -> None: ...

    monkeypatch.setattr("pypdf.PdfReader", Reader)
    assert extract_pdf_text(b"", 2, 900, 60.0) == {"texts": ["a?b\nc", ""], "of": 3}
    with pytest.raises(MemoryError):
        extract_pdf_text(b"", 3, 900, 60.0)


def test_a_paper_is_refused_for_what_it_is():
    assert extract_pdf_text(made.make_locked_pdf(["a"], "word"), 9, 900, 60.0) == {"refused": "locked"}
    assert extract_pdf_text(made.make_pdf(["", ""]), 9, 900, 60.0) == {"refused": "empty"}


def test_a_text_may_hold_a_stray_sign_but_not_many():
    assert extract_plain_text(b"x" * 499 + b"\x00", 900) == {"text": "x" * 499, "length": 499, "sure": True}
    assert extract_plain_text(b"x" * 498 + b"\x00", 900) == {"refused": "unknown"}
    assert extract_plain_text("é".encode("cp1252") + b"\x81", 1) == {"text": "é", "length": 2, "sure": False}
