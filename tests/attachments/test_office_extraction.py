"""Word, Excel and PowerPoint files become text; hostile ones end with a reason and reach nothing."""

import io
import re
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bot.attachments.excerpts import ExtractedDocument
from bot.attachments.office_extraction import extract_office_text
from bot.attachments.reader import (
    DAMAGED,
    LOCKED,
    NO_TEXT,
    OLD_OFFICE,
    OTHER_KIND,
    TOO_HEAVY,
)
from bot.errors import AttachmentUnusable
from tests.support.attachment_files import build_reader
from tests.support.office_files import (
    make_docx,
    make_locked_office_file,
    make_paragraph,
    make_pptx,
    make_word_table,
    make_xlsx,
    make_zip,
)

DELETED = "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del>"
INSERTED = f"<w:p><w:ins><w:r><w:t>was inserted</w:t></w:r></w:ins>{DELETED}</w:p>"
CONTROL = f"<w:sdt><w:sdtContent>{make_paragraph('of a form')}</w:sdtContent></w:sdt>"


def extract(body: bytes, **bounds: Any) -> dict[str, Any]:
    return extract_office_text(body, **{"pages": 9, "characters": 9000, "within": 60.0} | bounds)


async def read_document(body: bytes) -> ExtractedDocument:
    document = await build_reader().read_file(body, "a.docx")
    assert isinstance(document, ExtractedDocument)
    return document


def test_a_word_file_is_read_with_tables_insertions_and_forms():
    table = make_word_table([["Item", "Price"], ["Tea", "3 €"], ["", "5 €"]])
    result = extract(make_docx(make_paragraph("Offer") + table + INSERTED + CONTROL))
    assert result["texts"] == ["Offer\nItem | Price\nTea | 3 €\n| 5 €\nwas inserted\nof a form"]
    assert (result["of"], result["length"]) == (None, len(result["texts"][0]))


def test_an_excel_file_is_read_a_sheet_a_page_with_formulas_that_nothing_computed():
    rows: list[list[object]] = [["Tea", 3, 0.1 + 0.2], [], [None, True, "=A1&B1"], ["two\nlines"]]
    result = extract(make_xlsx({"Prices": rows, "Empty": []}))
    assert result["texts"] == ["Sheet: Prices\nTea | 3 | 0.3\n | TRUE | =A1&B1\ntwo lines", "Sheet: Empty"]
    assert (result["of"], result["noun"]) == (2, "sheet")


def test_a_powerpoint_file_is_read_a_slide_a_page_with_groups_tables_and_notes():
    result = extract(make_pptx(["Welcome", "", "Bye"], notes="say hello"))
    assert result == {
        "texts": ["Welcome\nleft | right\nNotes: say hello", "", "Bye"],
        "of": 3,
        "noun": "slide",
    }


@pytest.mark.parametrize(
    ("bounds", "texts"),
    [
        ({"pages": 1}, ["Welcome\nleft | right"]),
        ({"characters": 7}, ["Welcome"]),
        ({"within": -1.0}, ["Welcome\nleft | right"]),
    ],
)
def test_reading_ends_at_each_bound(bounds: dict[str, Any], texts: list[str]):
    assert extract(make_pptx(["Welcome", "Bye"]), **bounds)["texts"] == texts


def test_a_long_sheet_ends_at_the_bound_and_says_so():
    [text] = extract(make_xlsx({"Long": [[number] for number in range(5000)]}), characters=100)["texts"]
    assert len(text) == 100
    [text] = extract(make_xlsx({"Long": [[number] for number in range(5000)]}), within=-1.0)["texts"]
    assert text == "Sheet: Long\n0\n(the rest of this sheet is left out)"


def make_far_row(number: int) -> bytes:
    """An Excel file whose second row has this number, and a size that is wrong."""
    body = make_xlsx({"Far": [["near"], ["far"]]})
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    name = "xl/worksheets/sheet1.xml"
    sheet = re.sub('ref="[^"]*"', 'ref="A1:A1"', files[name])
    files[name] = sheet.replace('r="2"', f'r="{number}"').replace('r="A2"', f'r="A{number}"')
    return make_zip(files)


def test_a_row_far_below_is_read_and_one_that_no_sheet_has_ends_it():
    result = extract(make_far_row(1_048_576))
    assert (result["texts"], result["cut"]) == (["Sheet: Far\nnear\nfar"], False)
    result = extract(make_far_row(99_999_999_999))
    assert result["texts"] == ["Sheet: Far\nnear\n(the rest of this sheet is left out)"]
    assert result["cut"]


def test_a_value_in_a_far_column_is_named_by_its_column():
    result = extract(make_xlsx({"Wide": [["near", None, "next", *[None] * 18_274, "far"]]}))
    assert result["texts"] == ["Sheet: Wide\nnear |  | next | (column ZZZ) | far"]
    assert not result["cut"]


async def test_a_sheet_that_is_cut_is_not_called_whole():
    excerpt = (await read_document(make_far_row(99_999_999_999))).build_excerpt(9000)
    assert (excerpt.part, excerpt.is_whole) == ("1 sheet, not to the end", False)


async def test_documents_are_read_whatever_their_name():
    document = await read_document(make_pptx(["Welcome", "Bye"]))
    assert document.build_excerpt(10).part == "beginning of slide 1 of 2"
    assert document.build_excerpt(999).text == "(slide 1)\nWelcome\nleft | right\n\n(slide 2)\nBye"
    assert (await read_document(make_docx(make_paragraph("Offer")))).build_excerpt(99).text == "Offer"


BOMB = (
    '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">'
    + "".join(
        f'<!ENTITY {name} "{f"&{inner};" * 10}">' for inner, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "]>"
)


@pytest.mark.parametrize(
    ("body", "reasons"),
    [
        (make_zip({"readme.txt": "x"}), {OTHER_KIND}),
        (make_docx(""), {NO_TEXT}),
        (make_docx(make_paragraph("x"))[:-40], {DAMAGED}),
        (make_docx("<w:p><w:r>"), {DAMAGED}),
        (make_locked_office_file(), {LOCKED}),
        (make_locked_office_file().replace(b"E", b"F"), {OLD_OFFICE}),
        (make_docx(make_paragraph("&i;"), head=BOMB), {DAMAGED, TOO_HEAVY}),
    ],
    ids=["no document", "empty", "cut off", "broken", "locked", "old", "entities"],
)
async def test_what_cannot_be_read_has_a_reason(body: bytes, reasons: set[str]):
    with pytest.raises(AttachmentUnusable) as refused:
        await build_reader().read_file(body, "a.docx")
    assert str(refused.value) in reasons


async def test_a_file_that_is_far_larger_unpacked_has_a_reason():
    with pytest.raises(AttachmentUnusable, match=re.escape(TOO_HEAVY)):
        await build_reader().read_file(make_zip({"word/document.xml": bytes(400 << 20)}), "a.docx")


async def test_a_file_refers_to_nothing_outside_of_itself(tmp_path: Path):
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    head = f'<!DOCTYPE a [<!ENTITY x SYSTEM "{secret.as_uri()}">]>'
    text = ""
    with suppress(AttachmentUnusable):
        text = (await read_document(make_docx(make_paragraph("in &x; out"), head=head))).texts[0]
    assert "secret" not in text
