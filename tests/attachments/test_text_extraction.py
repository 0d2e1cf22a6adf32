"""A text file is read in any encoding."""

from bot.attachments.text_extraction import extract_plain_text


def test_a_text_may_contain_few_control_characters():
    assert extract_plain_text(b"x" * 499 + b"\x00", 900) == {"text": "x" * 499, "length": 499, "sure": True}
    assert extract_plain_text(b"x" * 498 + b"\x00", 900) == {"refused": "unknown"}
    assert extract_plain_text("é".encode("cp1252") + b"\x81", 1) == {"text": "é", "length": 2, "sure": False}
