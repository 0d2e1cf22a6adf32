"""A note added to an answer never ends up inside a code block."""

import pytest

from bot.agent.notices import close_code_block


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
