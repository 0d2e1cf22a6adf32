"""What of an answer is read out: its prose, and nothing of code, tables, links and sources."""

import pytest
from hypothesis import given as for_each
from hypothesis import strategies as st

from bot.telegram.formatting.speech_text import MAX_SPEECH_CHARS, build_speech_text

ANSWER = """# Tides 🌊

The **moon** pulls [the sea](https://a.example/moon) [1]. At 21 °C, say `voice on`, not `x = y()`.

- first thing
- see https://b.example/page, [2, 3]

| day | height |
|-----|--------|
| Mon | 2 m    |

Sources:

1. [A page about tides](https://c.example)
2. <https://d.example>

Here is the code:

```python
secret()
```
"""


def test_an_answer_is_read_out_line_by_line_without_what_only_eyes_can_use():
    assert build_speech_text(ANSWER) == (
        "Tides.\nThe moon pulls the sea. At 21 °C, say voice on, not.\nfirst thing.\nsee,"
    )


@pytest.mark.parametrize(
    "markdown",
    [
        "",
        "🌊",
        "```\nonly code\n```",
        "Here:\n\n```\ncode\n```",
        "[A page](https://a.example)",
        "> " * 30 + "deep",
    ],
)
def test_where_nothing_is_left_nothing_is_read_out(markdown: str):
    assert build_speech_text(markdown) == ""


def test_long_texts_are_not_read_out():
    assert len(build_speech_text("word " * (MAX_SPEECH_CHARS // 5 - 1))) < MAX_SPEECH_CHARS
    assert build_speech_text("word " * MAX_SPEECH_CHARS) == ""
    assert build_speech_text("Short.\n\n```\n" + "code\n" * 2000 + "```") == ""


def test_an_order_to_the_speech_server_is_not_passed_on():
    assert build_speech_text("Wait [pause:60.0s] and [voice:am_adam] go") == "Wait and go."


prose = st.lists(st.from_regex(r"[a-y]{2,8}", fullmatch=True), min_size=1, max_size=6).map(" ".join)
unspoken = st.sampled_from(
    [
        "```py\nzzz()\n```",
        "| zzz | b |\n|---|---|\n| zzz | 1 |",
        "https://zzz.example/zzz",
        "[zzz](https://a.example)",
        "- [zzz](b) [1]",
        "<https://zzz.example>",
        "![zzz](a.png)",
        "<!-- zzz -->\n\n    zzz()",  # else it could belong to a list before it, as its prose
    ]
)


@for_each(blocks=st.lists(st.one_of(prose, unspoken), max_size=8))
def test_all_prose_is_read_out_and_nothing_else(blocks: list[str]):
    text = build_speech_text("\n\n".join(blocks))
    assert "zz" not in text
    spoken = [block for block in blocks if "zzz" not in block]
    assert [line.rstrip(".") for line in text.split("\n") if line] == spoken
