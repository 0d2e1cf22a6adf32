"""A text file is read in any encoding."""

import pytest

from bot.attachments.text_extraction import extract_plain_text


def test_a_text_may_contain_few_control_characters():
    assert extract_plain_text(b"x" * 499 + b"\x00", 900) == {"text": "x" * 499, "length": 499, "sure": True}
    assert extract_plain_text(b"x" * 498 + b"\x00", 900) == {"refused": "unknown"}
    assert extract_plain_text("é".encode("cp1252") + b"\x81", 1) == {"text": "é", "length": 2, "sure": False}


@pytest.mark.parametrize(
    ("body", "text", "is_encoding_known"),
    [
        (b"plain", "plain", True),
        ("ж ✓ 😀".encode(), "ж ✓ 😀", True),
        ("ж".encode("utf-16"), "ж", True),
        ("ж".encode("utf-32"), "ж", True),
        ("ж".encode("utf-8-sig"), "ж", True),
        ("naïve".encode("cp1252"), "naïve", False),
        (b"a,b\r\n1,2\r3", "a,b\n1,2\n3", True),
        (b'{"a": 1}\x1b[0m', '{"a": 1}\x1b[0m', True),
        (b"x" * 600 + b"\x01", "x" * 600, True),
    ],
)
def test_a_text_is_read_in_any_encoding(body: bytes, text: str, *, is_encoding_known: bool):
    read = extract_plain_text(body, 900)
    assert read == {"text": text, "length": len(text), "sure": is_encoding_known}
