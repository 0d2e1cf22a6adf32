"""What rendering guarantees for Markdown as models write it."""

import pytest
from telegramify_markdown import RenderConfig

from bot.telegram.formatting import render
from bot.telegram.formatting.render import Piece, render_markdown, split_plain
from tests.support.tdlib_parser import find_refusal, list_texts_under


def render_one(markdown: str, limit: int = render.MAX_PIECE_UNITS) -> Piece:
    (piece,) = render_markdown(markdown, limit=limit)
    assert find_refusal(piece) is None
    return piece


def test_formatting_becomes_entities_in_utf16_units() -> None:
    assert render_one("😀 **bold** and `code`") == Piece(
        "😀 bold and code",
        ({"type": "bold", "offset": 3, "length": 4}, {"type": "code", "offset": 12, "length": 4}),
    )


def test_what_stands_in_angle_brackets_does_not_vanish() -> None:
    text = "vector<int>, if x<y and y>z, <T>, <think>no</think>, std::map<std::string, T>, <!-- so --> <3"
    assert render_one(f"**In** {text}") == Piece(f"In {text}", ({"type": "bold", "offset": 0, "length": 2},))


@pytest.mark.parametrize(
    "html", ["<div>\nin\n</div>", "<script>\n\nin\n\n</script>", "<!--\n\nin\n-->", "<T>"]
)
def test_blocks_of_html_are_shown_as_written(html: str) -> None:
    assert "".join(render_one(html).text.split()) == "".join(html.split())


def test_code_within_html_keeps_its_angle_brackets() -> None:
    piece = render_one("<details>\nsee `a<b`\n```cpp\nvector<int> v;\n```\n</details>")
    assert list_texts_under(piece, "code") == ["a<b"]
    assert list_texts_under(piece, "pre") == ["vector<int> v;"]


def test_comparisons_in_code_are_left_alone() -> None:
    assert render_one("`a<b`\n\n```\nx &lt; <y>\n```").text == "a<b\n\nx &lt; <y>"


@pytest.mark.parametrize(
    ("link", "text"),
    [
        ("[a](#sec)", "a"),
        ("[f](src/main.py)", "f (src/main.py)"),
        ("[call](tel:+49301)", "call (tel:+49301)"),
        ("[disk](file:///etc/hosts)", "disk (file:///etc/hosts)"),
        ("[dev](http://localhost:3000)", "dev (http://localhost:3000)"),
        ("[mail](mailto:a@b.org)", "mail (a@b.org)"),
        ("[port](http://a.org:99999/)", "port (http://a.org:99999/)"),
        ("[data](data:text/plain;base64,SGk=)", "data"),
        ("[src/main.py](src/main.py)", "src/main.py"),
        ("[](src/main.py)", "src/main.py"),
        ("![](cat.png)", "cat.png"),
        ("<mail@example.org>", "mail@example.org"),
        ("table[key](value)", "table[key](value)"),
    ],
)
def test_links_telegram_would_refuse_are_shown_as_text(link: str, text: str) -> None:
    assert render_one(f"see {link} now") == Piece(f"see {text} now")


def test_good_links_stay_links_and_show_their_titles() -> None:
    piece = render_one('[a](https://example.org/x?y=1 "the title") ![](https://example.org/cat.png)')
    assert piece.text == "a (the title) https://example.org/cat.png"
    assert [entity["url"] for entity in piece.entities] == [
        "https://example.org/x?y=1",
        "https://example.org/cat.png",
    ]


def test_definitions_of_links_are_not_swallowed() -> None:
    text = 'see [1]\n\n[1]: https://example.org "title"\n[^2]: a note'
    assert render_one(text).text == text


def test_arithmetic_and_globs_keep_their_stars() -> None:
    text = (
        "2*3*4, a**2 + b**2, (a+b)*(c)*d, src/*.py,tests/*.py, __init__, *args, **kwargs, "
        "a || b || c, $5,$6 $A/$B"
    )
    assert render_one(text) == Piece(text)


def test_two_dashes_below_a_line_are_no_heading() -> None:
    assert render_one("Regards\nJane\n--\n+49 30 1") == Piece("Regards\nJane\n--\n+49 30 1")


def test_dashes_below_a_paragraph_are_a_rule() -> None:
    assert render_one("one line\nand another\n---\nnext") == Piece("one line\nand another\n\n———\nnext")


def test_headings_are_bold_without_decoration() -> None:
    assert render_one("# One\n\nTwo\n---\n\ntext") == Piece(
        "One\n\nTwo\n\ntext",
        ({"type": "bold", "offset": 0, "length": 3}, {"type": "bold", "offset": 5, "length": 3}),
    )


def test_code_stands_on_lines_of_its_own() -> None:
    piece = render_one("- sub one\n  ```sh\n  rm -rf build\n  ```\n  after\n- ```\n  first\n  ```")
    assert piece.text == "• sub one\nrm -rf build\nafter\n• \nfirst"
    assert list_texts_under(piece, "pre") == ["rm -rf build", "first"]


def test_a_title_behind_a_fence_is_shown_above_the_code() -> None:
    piece = render_one('```python,linenos title="main.py"\nx = 1\n```')
    assert piece == Piece(
        'linenos title="main.py"\nx = 1', ({"type": "pre", "offset": 24, "length": 5, "language": "python"},)
    )


def test_code_that_slipped_behind_its_fence_is_not_lost() -> None:
    assert render_one("```SELECT * FROM t").text == "```SELECT * FROM t"
    assert render_one("```$ ls -l\ntotal 0\n```").text == "$ ls -l\ntotal 0"


def test_formulas_become_unicode_outside_code_only() -> None:
    piece = render_one(
        r"\(\alpha + \frac{1}{2}\), $\|x\|$ and $||x||$ but `\(\alpha_1\)`, \(a\)"
        + "\n\n\\[\nx^2 \\le\n- 1\n\\]"
    )
    assert list_texts_under(piece, "code") == ["α + ½", "‖x‖", "‖x‖", r"\(\alpha_1\)"]
    assert list_texts_under(piece, "pre") == ["x² ≤ - 1"]
    assert "(a)" in piece.text
    assert list_texts_under(render_one("so $$||x|| \\le 1$$ **holds**"), "pre") == ["‖x‖ ≤ 1"]


def test_a_table_is_aligned_also_for_wide_characters() -> None:
    piece = render_one(
        "| 名称 | b |\n|---|---|\n| x | `c` [d](https://e.org) $\\alpha^2$ |\n| one | two | three |"
    )
    assert piece.text.splitlines() == [
        "名称 | b                      |",
        "-----+------------------------+------",
        "x    | c d (https://e.org) α² |",
        "one  | two                    | three",
    ]
    assert [entity["type"] for entity in piece.entities] == ["pre"]


def test_a_table_within_a_list_keeps_its_formulas_in_place() -> None:
    piece = render_one("- item\n\n  | a | b |\n  |---|---|\n  | one | $x$ and $$y$$ |")
    assert [line.rstrip() for line in piece.text.split("\n")] == [
        "• item",
        "a   | b",
        "----+--------------",
        "one | $x$ and $$y$$",
    ]


def test_a_table_within_a_list_that_would_lose_a_cell_is_shown_as_written() -> None:
    text = "- item\n\n  | a | b |\n  |---|---|\n  | one | two | three |"
    assert render_one(text).text == text


def test_addresses_within_a_table_are_shown() -> None:
    piece = render_one("| a |\n|---|\n| [](x.py) ![cat](#) [e.org](e.org) <std::map> |")
    assert piece.text.splitlines()[-1] == "x.py cat e.org <std::map>"


def test_a_table_too_wide_for_a_phone_becomes_a_list() -> None:
    head, long = "| Server | What for | Notes |\n|---|---|---|\n", "many words " * 6
    piece = render_one(f"{head}| Alpha | {long}| |\n| | | |\n| Beta | | **none**<br>at all |")
    assert (
        piece.text
        == f"• Server: Alpha\n   What for: {long.strip()}\n   Notes: –\n• Server: Beta\n   Notes: none at all"
    )
    assert list_texts_under(piece, "bold") == ["Server: Alpha", "Server: Beta"]


def test_quotes_and_task_lists() -> None:
    piece = render_one("> quoted **well**\n\n- [x] done\n- [ ] to do")
    assert piece.text == "quoted well\n\n☑ done\n☐ to do"
    assert list_texts_under(piece, "blockquote") == ["quoted well"]


@pytest.mark.parametrize("nothing", ["", " \n\t\n", "\u200b", "\u2800", "​\n\n\xad", "\x00"])
def test_text_in_which_nothing_is_visible_gives_no_pieces(nothing: str) -> None:
    assert render_markdown(nothing) == ()
    assert split_plain(nothing) == ()


def test_halves_of_surrogate_pairs_and_control_characters_are_replaced() -> None:
    assert render_one("a\ud800b \ud83d\ude00 c\x07d\r\ne\u2028f") == Piece("a�b 😀 c d\ne\nf")


def test_pieces_end_between_blocks_and_leads_stay_with_what_they_announce() -> None:
    paragraph = "word " * 30
    code = "x = 1\n" * 15
    pieces = render_markdown(
        f"{paragraph}\n\n## Heading\n\nThe code:\n\n```py\n{code}```\n\n{paragraph}", limit=200
    )
    assert [piece.text.split()[0] for piece in pieces] == ["word", "Heading", "word"]


def test_code_cut_in_two_keeps_its_language_on_both_sides() -> None:
    code = "\n".join(f"line_{number} = {number}" for number in range(40))
    pieces = render_markdown(f"```python\n{code}\n```", limit=200)
    assert len(pieces) > 2
    assert "\n".join(piece.text for piece in pieces) == code
    for piece in pieces:
        assert piece.entities == (
            {"type": "pre", "offset": 0, "length": len(piece.text), "language": "python"},
        )


def test_a_piece_that_begins_with_indented_code_keeps_the_indentation() -> None:
    code = "\n".join("    " * (number % 3) + f"step({number})" for number in range(40))
    assert "\n".join(piece.text for piece in render_markdown(f"```\n{code}\n```", limit=120)) == code


@pytest.mark.parametrize(
    "letter",
    ["👨‍👩‍👧‍👦", "👩🏽‍💻", "🇩🇪", "é\u0323", "각", "🏴\U000e0067\U000e0062\U000e007f", "1\ufe0f\u20e3"],
)
def test_cuts_never_fall_within_a_letter(letter: str) -> None:
    pieces = render_markdown(letter * 200, limit=101)
    assert "".join(piece.text for piece in pieces) == letter * 200
    assert all(len(piece.text) % len(letter) == 0 for piece in pieces)


def test_a_letter_longer_than_a_piece_is_cut_all_the_same() -> None:
    pieces = render_markdown("a" + "\u0301" * 500, limit=100)
    assert sum(len(piece.text) for piece in pieces) == 501
    assert all(find_refusal(piece) is None for piece in pieces)


def test_more_than_100_entities_drop_the_least_important_and_no_text() -> None:
    piece = render_one(" ".join(f"*i{number}* `c{number}`" for number in range(90)) + " [l](https://e.org)")
    assert len(piece.entities) == 100
    assert [entity["type"] for entity in piece.entities].count("code") == 90
    assert piece.entities[-1]["type"] == "text_link"


def test_more_than_100_links_make_more_pieces() -> None:
    pieces = render_markdown(" ".join(f"[l{number}](https://e.org/{number})" for number in range(250)))
    assert [len(piece.entities) <= 100 for piece in pieces] == [True] * 3
    assert sum(len(piece.entities) for piece in pieces) == 250


def test_plain_shows_the_text_as_it_is_written() -> None:
    assert split_plain("**a** <b> `c`\r\n[d](e)") == (Piece("**a** <b> `c`\n[d](e)"),)
    assert "".join(piece.text + " " for piece in split_plain("word " * 500, limit=101)) == "word " * 500


def test_a_library_that_fails_costs_only_the_formatting(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(text: str, **options: RenderConfig) -> None:
        raise RecursionError(text)

    monkeypatch.setattr(render, "convert", stumble)
    assert render_markdown("**a**\n\n| b |\n|---|\n| c |") == (
        Piece("**a**\n\nb\n-\nc", ({"type": "pre", "offset": 7, "length": 5},)),
    )


def test_a_library_that_drops_words_costs_only_the_formatting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "convert", lambda text, **options: (text.replace("kept", ""), []))
    assert render_markdown("**kept**") == (Piece("**kept**"),)


def test_a_table_that_would_lose_a_word_is_shown_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "lay_out_table", lambda source: ("a", Piece("a")))
    assert render_markdown("| a |\n|---|\n| b |") == (Piece("| a |\n|---|\n| b |"),)


def test_markup_nested_beyond_reason_is_shown_plain() -> None:
    text = "<div>\n`\n" * 40
    assert render_markdown(text) == (Piece(text.strip()),)
