"""Builds Word, Excel and PowerPoint files as users send them, valid ones and hostile ones."""

import io
import zipfile
from collections.abc import Mapping, Sequence

_RELATIONSHIPS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def make_docx(body: str, *, head: str = "", files: Mapping[str, str] | None = None) -> bytes:
    """A Word file with this XML of its body; `head` stands before the XML, `files` are added."""
    relationship = f'<Relationship Id="r1" Type="{_OFFICE}/officeDocument" Target="word/document.xml"/>'
    return make_zip(
        {
            "[Content_Types].xml": "<Types/>",
            "_rels/.rels": f'<Relationships xmlns="{_RELATIONSHIPS}">{relationship}</Relationships>',
            "word/document.xml": f'{head}<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>',
            **(files or {}),
        }
    )


def make_paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def make_word_table(rows: Sequence[Sequence[str]]) -> str:
    cells = ("".join(f"<w:tc>{make_paragraph(cell)}</w:tc>" for cell in row) for row in rows)
    return "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in cells) + "</w:tbl>"


def make_xlsx(sheets: Mapping[str, Sequence[Sequence[object]]]) -> bytes:
    """An Excel file with these rows; nothing has computed its formulas."""
    import openpyxl

    workbook = openpyxl.Workbook()
    workbook.remove(workbook.worksheets[0])
    for title, rows in sheets.items():
        sheet = workbook.create_sheet(title)
        for row in rows:
            sheet.append(list(row))
    body = io.BytesIO()
    workbook.save(body)
    return body.getvalue()


def make_pptx(slides: Sequence[str], *, notes: str = "") -> bytes:
    """A PowerPoint file with one text a slide; the first has a table, and these notes."""
    import pptx
    from pptx.util import Inches

    presentation = pptx.Presentation()
    for number, text in enumerate(slides):
        slide = presentation.slides.add_slide(presentation.slide_layouts[6])
        size = (Inches(1), Inches(1), Inches(4), Inches(1))
        group = slide.shapes.add_group_shape()
        group.shapes.add_textbox(*size).text_frame.text = text
        if number == 0:
            table = slide.shapes.add_table(1, 2, *size).table
            table.cell(0, 0).text = "left"
            table.cell(0, 1).text = "right"
            notes_frame = slide.notes_slide.notes_text_frame
            assert notes_frame is not None
            notes_frame.text = notes
    body = io.BytesIO()
    presentation.save(body)
    return body.getvalue()


def make_zip(files: Mapping[str, str | bytes]) -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return body.getvalue()


def make_locked_office_file() -> bytes:
    """What stands of an encrypted Office file in the directory of its container."""
    return (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1024) + "EncryptedPackage".encode("utf-16-le") + bytes(99)
    )
