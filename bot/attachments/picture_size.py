"""Reads the size of a picture of a kind that Telegram takes as a photo, from its first bytes. Pure."""

import struct

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_MAX_JPEG_SEGMENTS = 1000  # a real one has a few dozen before its frame
_JPEG_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})  # markers that give the size
_JPEG_SCAN = 0xDA


def read_picture_size(data: bytes) -> tuple[int, int] | None:
    """Width and height of a JPEG, PNG or WEBP, by its bytes; None for anything else."""
    try:
        if data.startswith(_PNG_SIGNATURE) and data[12:16] == b"IHDR":
            return _to_size(*struct.unpack_from(">II", data, 16))
        if data.startswith(b"\xff\xd8\xff"):
            return _read_jpeg_size(data)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _read_webp_size(data)
    except struct.error:
        return None  # it ends in the middle
    return None


def _read_jpeg_size(data: bytes) -> tuple[int, int] | None:
    position = 2
    for _ in range(_MAX_JPEG_SEGMENTS):
        prefix, marker, length = struct.unpack_from(">BBH", data, position)
        if prefix != 0xFF or marker == _JPEG_SCAN or length < 2:
            return None
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, position + 5)
            return _to_size(width, height)
        position += 2 + length
    return None


def _read_webp_size(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8X":
            width = int.from_bytes(data[24:27], "little") + 1
            height = int.from_bytes(data[27:30], "little") + 1
            return _to_size(width, height)
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", data, 21)
            return _to_size((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return _to_size(width & 0x3FFF, height & 0x3FFF)
    return None


def _to_size(width: int, height: int) -> tuple[int, int] | None:
    if width and height:
        return width, height
    return None
