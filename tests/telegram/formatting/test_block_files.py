"""Files of long code blocks and tables: which, by what name, and what is in them."""

import csv
import io

import pytest

from bot.telegram.formatting.block_files import MAX_BLOCK_FILES, build_block_files
from bot.telegram.formatting.render import MAX_PIECE_UNITS

LONG_CODE = "print('é <|turn>')\n" * 250


def read_files(markdown: str) -> list[tuple[str, str]]:
    return [(file.name, (file.data or b"").decode()) for file in build_block_files(markdown)]


@pytest.mark.parametrize(
    ("info", "name"),
    [
        ("python", "code.py"),
        ("C++", "code.cpp"),
        ('js title="a"', "code.js"),
        ("python:src/main.py", "code.py"),
        ("", "code.txt"),
        ("exe", "code.txt"),
        ("../../etc", "code.txt"),
    ],
)
def test_code_keeps_its_letters_and_is_named_by_its_language(info: str, name: str):
    assert read_files(f"Here:\n\n~~~{info}\n{LONG_CODE}~~~\n\nThat is all.") == [(name, LONG_CODE)]


def test_what_fits_one_message_is_no_file():
    line = "x" * 99 + "\n"
    assert read_files(f"```\n{line * 37}```\n\n" * 3) == []
    assert len(read_files(f"```\n{line * 38}```\n\n" * 3)) == 3
    assert read_files("word " * MAX_PIECE_UNITS) == []
    assert len(build_block_files("```\n" + "😀\n" * 1300 + "```")) == 1  # in UTF-16 units


def test_the_first_files_are_bounded_in_number():
    names = [name for name, _ in read_files(f"```go\n{LONG_CODE}```\n" * 5)]
    assert names == ["code.go", "code-2.go", "code-3.go"]
    assert len(names) == MAX_BLOCK_FILES


def test_a_table_is_one_that_spreadsheets_open_and_calculate_nothing_of():
    rows = [
        ["=1+1", "'=1+1"],
        ["+cmd", "'+cmd"],
        ["-2+3", "'-2+3"],
        ["@SUM(a)", "'@SUM(a)"],
        ["＝1", "'＝1"],
        ["-3.5", "-3.5"],
        ["+49 170", "+49 170"],
        ['a "b", **c**', 'a "b", c'],
        ["[site](https://a.example)", "site (https://a.example)"],
        ["été \\| 夏", "été | 夏"],
    ]
    lines = [f"| {cell} | {number} |" for number, (cell, _) in enumerate(rows)]
    filler = ["| word | and more words |"] * 200
    [file] = build_block_files("\n".join(["| What | No |", "|---|---|", *lines, *filler]))
    assert (file.name, file.kind) == ("table.csv", "document")
    assert file.data is not None
    assert file.data.startswith(b"\xef\xbb\xbfWhat,No\r\n")
    read = list(csv.reader(io.StringIO(file.data.decode("utf-8-sig"), newline="")))
    assert read[1 : len(rows) + 1] == [[cell, str(number)] for number, (_, cell) in enumerate(rows)]
    assert len(read) == 1 + len(rows) + 200


@pytest.mark.parametrize(
    "markdown",
    [
        "- " * 30 + LONG_CODE,
        "> " * 40 + f"```\n{LONG_CODE}```",
        "```\n" + "\n" * 65_000,
        "|" * 65_000,
        "\ud800",
    ],
)
def test_what_is_too_dense_or_no_block_is_no_file(markdown: str):
    assert all(file.kind == "document" for file in build_block_files(markdown))
