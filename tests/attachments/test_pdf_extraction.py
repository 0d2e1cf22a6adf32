"""A PDF is read page by page until a bound is reached; pages without text are found, and rendered."""

import base64
from typing import Any

import pytest

from bot.attachments.images import DEFAULT_AREA
from bot.attachments.pdf_extraction import extract_pdf_text, render_pdf_pages
from tests.support.attachment_files import (
    SCAN,
    make_huge_pdf_picture,
    make_locked_pdf,
    make_pdf,
    make_pdf_of_streams,
    make_scanned_pdf,
    open_image,
)

THREE_PAGES = make_pdf(["one", "two", "three"])
BOUNDS: dict[str, Any] = {"pages": 9, "characters": 900, "within": 60.0}


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
    result = extract_pdf_text(THREE_PAGES, **BOUNDS | bounds)
    assert result == {"texts": texts, "of": 3, "drawn": []}


def test_a_broken_page_is_empty_and_the_others_are_read():
    stream_start = THREE_PAGES.index(b"stream\n") + len(b"stream\n")
    broken = THREE_PAGES[:stream_start] + b"#" * 8 + THREE_PAGES[stream_start + 8 :]
    assert extract_pdf_text(broken, **BOUNDS)["texts"] == ["", "two", "three"]


def test_a_locked_or_empty_pdf_is_refused():
    assert extract_pdf_text(make_locked_pdf(["a"], "word"), **BOUNDS) == {"refused": "locked"}
    assert extract_pdf_text(make_pdf(["", ""]), **BOUNDS) == {"refused": "empty"}


def test_pages_that_show_something_without_a_text_are_named():
    drawn = b"10 10 m 90 90 l S"
    stamped = SCAN + b"BT /F1 12 Tf 72 720 Td (Scanned with a phone) Tj ET"
    written = b"BT /F1 12 Tf 72 720 Td (A heading) Tj ET"
    body = make_pdf_of_streams([SCAN, b"", drawn, stamped, written], make_huge_pdf_picture(100, 100))
    texts = ["", "", "", "Scanned with a phone", "A heading"]
    assert extract_pdf_text(body, **BOUNDS) == {"texts": texts, "of": 5, "drawn": [1, 3, 4]}


def test_a_page_of_two_hundred_megapixels_is_rendered_small_and_a_script_is_not_run():
    huge = make_pdf_of_streams(
        [SCAN],
        make_huge_pdf_picture(20_000, 10_000),
        catalog="/OpenAction << /S /JavaScript /JS (while(1);) >>",
    )
    [picture] = render_pdf_pages(huge, [1], DEFAULT_AREA, 60.0)["pictures"]
    image = open_image(base64.b64decode(picture["data"]))
    assert DEFAULT_AREA * 0.95 < image.width * image.height < DEFAULT_AREA * 1.05
    assert image.getpixel((9, 9)) == (0, 0, 0)


def test_pages_are_rendered_in_their_order_until_the_time_is_up():
    body = make_scanned_pdf(["", "a text", "", ""])
    pictures = render_pdf_pages(body, [1, 3], DEFAULT_AREA, 60.0)["pictures"]
    assert [picture["media_type"] for picture in pictures] == ["image/jpeg", "image/jpeg"]
    assert len(render_pdf_pages(body, [1, 3, 4], DEFAULT_AREA, -1.0)["pictures"]) == 1
