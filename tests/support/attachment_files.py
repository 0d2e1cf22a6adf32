"""Builds files as users send them: pictures and PDFs, valid ones and hostile ones."""

import io
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from PIL import Image

from bot.attachments.reader import AttachmentReader, ReadTimeouts

PATIENCE = ReadTimeouts(300.0, 300.0)  # the machine may be busy


def build_reader() -> AttachmentReader:
    """A reader that gives nothing up because the machine is busy."""
    return AttachmentReader(PATIENCE)


def make_image(
    width: int = 64, height: int = 48, image_format: str = "JPEG", mode: str = "RGB", **options: Any
) -> bytes:
    """A picture whose upper left quarter is blue, and the rest red."""
    picture = Image.new("RGB", (width, height), "red")
    picture.paste("blue", (0, 0, width // 2, height // 2))
    return encode_image(picture.convert(mode), image_format, **options)


def encode_image(picture: Image.Image, image_format: str, **options: Any) -> bytes:
    body = io.BytesIO()
    picture.save(body, image_format, **options)
    return body.getvalue()


def open_image(body: bytes) -> Image.Image:
    return Image.open(io.BytesIO(body))


def make_huge_png(width: int, height: int) -> bytes:
    """A picture of one colour that is hundreds of times larger when it is unpacked."""
    rows = _compress_repeated(bytes(1 + 3 * width), height)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b""))
    encoded_chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(encoded_chunks)


def _compress_repeated(data: bytes, times: int) -> bytes:
    """What zlib makes of `data` repeated; it compresses only the first two, as all others are equal."""
    compressor = zlib.compressobj(9)
    first, second = (compressor.compress(data) + compressor.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    end = compressor.flush()
    checksum = 1
    for _ in range(times):
        checksum = zlib.adler32(data, checksum)
    return first + second * (times - 1) + end[:-4] + struct.pack(">I", checksum)


def make_pdf(pages: Sequence[str]) -> bytes:
    """A PDF with these texts, one a page; lines end at newlines."""
    return make_pdf_of_streams([_page_content(text) for text in pages])


def make_slow_pdf() -> bytes:
    """A small PDF with one page that takes any reader minutes: forms show forms, a hundred thousand times."""
    return make_pdf_of_streams(
        [b"/X Do"],
        _form(b"/X Do " * 1000, b"/X 6 0 R"),
        _form(b"/X Do " * 100, b"/X 7 0 R"),
        _form(b"q Q " * 10_000),
    )


SCAN = b"q 612 0 0 792 0 0 cm /X Do Q "  # shows the shared picture all over a page


def make_scanned_pdf(pages: Sequence[str], picture: bytes = b"") -> bytes:
    """A PDF with these texts, one a page; a page without text is a picture: `picture`, or any photo."""
    photo = make_image(850, 1100)
    header = _picture_header(850, 1100, "DeviceRGB", "DCTDecode", len(photo))
    contents = [_page_content(text) or SCAN for text in pages]
    return make_pdf_of_streams(contents, picture or header + photo + b"\nendstream")


def make_huge_pdf_picture(width: int, height: int) -> bytes:
    """A grey picture for a PDF that is hundreds of times larger when it is unpacked."""
    rows = _compress_repeated(bytes(width), height)
    return _picture_header(width, height, "DeviceGray", "FlateDecode", len(rows)) + rows + b"\nendstream"


def _picture_header(width: int, height: int, colours: str, encoding: str, length: int) -> bytes:
    return (
        f"<< /Type /XObject /Subtype /Image /Width {width} /Height {height} /ColorSpace /{colours}"
        f" /BitsPerComponent 8 /Filter /{encoding} /Length {length} >>\nstream\n"
    ).encode()


def make_pdf_of_streams(contents: Sequence[bytes], *shared: bytes, catalog: str = "") -> bytes:
    """A PDF with these content streams, one a page; the first of the `shared` objects is its `/X`."""
    count = len(contents)
    kids = " ".join(f"{3 + 2 * number} 0 R" for number in range(count))
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R {catalog} >>".encode(),
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
    ]
    for number, content in enumerate(contents):
        font = f"/Font << /F1 {3 + 2 * count} 0 R >>"
        picture = f"/XObject << /X {4 + 2 * count} 0 R >>" if shared else ""
        box = f"/MediaBox [0 0 612 792] /Resources << {font} {picture} >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R {box} /Contents {4 + 2 * number} 0 R >>".encode())
        objects.append(_stream(content))
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    return _assemble_pdf([*objects, *shared])


def make_locked_pdf(pages: Sequence[str], password: str) -> bytes:
    """An encrypted PDF; with an empty password anybody can read it."""
    from pypdf import PdfWriter

    writer = PdfWriter(clone_from=io.BytesIO(make_pdf(pages)))
    writer.encrypt(password, owner_password="owner", algorithm="AES-256")
    body = io.BytesIO()
    writer.write(body)
    return body.getvalue()


def _page_content(text: str) -> bytes:
    if not text:
        return b""
    lines = " ".join(f"({line}) Tj T*" for line in text.split("\n"))
    return f"BT /F1 12 Tf 14 TL 72 720 Td {lines} ET".encode("latin-1")


def _form(content: bytes, objects: bytes = b"") -> bytes:
    """A form that shows `content`, in which it may show these objects."""
    entries = b"/Type /XObject /Subtype /Form /BBox [0 0 612 792] /Resources << /XObject << %s >> >>"
    return _stream(content, entries % objects)


def _stream(content: bytes, entries: bytes = b"") -> bytes:
    compressed = zlib.compress(content)
    start = b"<< /Length %d /Filter /FlateDecode %s >>\nstream\n" % (len(compressed), entries)
    return start + compressed + b"\nendstream"


def _assemble_pdf(objects: Sequence[bytes]) -> bytes:
    body = bytearray(b"%PDF-1.4\n")
    offsets: list[int] = []
    for number, pdf_object in enumerate(objects, start=1):
        offsets.append(len(body))
        body += b"%d 0 obj\n" % number + pdf_object + b"\nendobj\n"
    table_start = len(body)
    body += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    body += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    body += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, table_start)
    return bytes(body)
