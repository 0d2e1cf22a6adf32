"""Notes stay outside code blocks, and what a tool reports of itself is plain text."""

import pytest

from bot.agent.notices import close_code_block, format_tool_progress


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ("plain", ""),
        ("```py\nx\n```", ""),
        ("```py\nx", "\n```"),
        ("~~~\nx", "\n~~~"),
        ("````\n```\nx", "\n````"),
        ("````\n```\n````\nafter", ""),
        ("a ``` in a line", ""),
        ("```\nx\n``` not an end", "\n```"),
    ],
)
def test_an_open_code_block_is_closed_with_its_own_fence(text: str, added: str):
    assert close_code_block(text) == text + added


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("2 of 10: downloading report.pdf", "2 of 10: downloading report.pdf"),
        ("a\n\tb\u202e c\x00", "a b c"),
        ("**bold** [x](y) `code` <b> $x$ &lt;", "bold x (y) code b x lt;"),
        (
            "log in at https://evil.example, www.evil.example or @evil with /start",
            "log in at … … or … with …",
        ),
        ("\u200b \n", "at work"),
        ("word " * 50, "word " * 19 + "word…"),
        ("\ud800 half", "half"),
    ],
)
def test_what_a_tool_reports_is_one_plain_line(words: str, shown: str):
    assert format_tool_progress("docs_get", words) == f"docs_get: {shown}"
