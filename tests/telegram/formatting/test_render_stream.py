"""What a person sees of an answer that is still being written."""

import pytest

from bot.telegram.formatting.render import Piece, cut_unfinished, render_markdown
from tests.telegram.formatting.documents import load_documents

DOCUMENTS = load_documents()


@pytest.mark.parametrize(
    ("so_far", "snapshot"),
    [
        ("", ""),
        ("One line.\n", "One line.\n"),
        ("One line.\nand the beg", "One line.\n"),
        ("One line that has just be", "One line that has just "),
        ("Word", "Word"),
        ("**", ""),
        ("A long line " * 10 + "with **bold that is", "A long line " * 10 + "with "),
        ("A long line " * 10 + "with `code that is", "A long line " * 10 + "with "),
        ("A long line " * 10 + "with [a link](http://exa mple", "A long line " * 10 + "with "),
        ("A ** B, " + "a long line " * 30, "A ** B, " + "a long line " * 30),
        ("Text.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n", "Text.\n\n"),
        ("Text.\n\n| a | b |\n", "Text.\n\n"),
        ("Text.\n\n| a |\n|---|\n| 1 |\n\nMore", "Text.\n\n| a |\n|---|\n| 1 |\n\n"),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n| 3", "| a | b |\n|---|---|\n| 1 | 2 |\n"),
        ("Text.\n```py\nx = 1\ny =", "Text.\n```py\nx = 1\n```\n"),
        ("Text.\n```py\n", "Text.\n"),
        ("```p", ""),
        ("```py\nx = 1", "```py\nx = 1\n```\n"),
        ("~~~~\n```\nx\n", "~~~~\n```\nx\n~~~~\n"),
        ("```\nx\n```\n", "```\nx\n```\n"),
    ],
)
def test_a_snapshot_holds_back_what_will_still_change(so_far: str, snapshot: str) -> None:
    assert cut_unfinished(so_far) == snapshot


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name != "everything"])
def test_anything_may_follow_a_snapshot(name: str) -> None:
    text = DOCUMENTS[name]
    for end in range(0, len(text), 5):
        assert (
            render_markdown(f"{cut_unfinished(text[:end])}\n\n**stopped**")[-1].entities[-1]["type"] == "bold"
        )


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name != "everything"])
def test_what_is_shown_keeps_up_with_the_text(name: str) -> None:
    text = DOCUMENTS[name]
    for end in range(200, len(text), 7):
        assert len(cut_unfinished(text[:end])) > 0


def count_changes(text: str, step: int, limit: int) -> tuple[int, int]:
    """Return how often an earlier piece changed while the text grew, and how often it was rendered."""
    changed = renderings = 0
    before: tuple[Piece, ...] = ()
    for end in range(step, len(text), step):
        now = render_markdown(cut_unfinished(text[:end]), limit=limit)
        changed += now[: len(before) - 1] != before[:-1]
        renderings += 1
        before = now
    return changed, renderings


@pytest.mark.parametrize("step", [397, 1000])
def test_closed_pieces_never_change_in_a_long_answer(step: int) -> None:
    assert count_changes(DOCUMENTS["everything"], step, 3800)[0] == 0


def test_closed_pieces_hardly_change_when_pieces_are_tiny() -> None:
    counts = [count_changes(DOCUMENTS[name], 7, 150) for name in DOCUMENTS if name != "everything"]
    assert sum(changed for changed, _ in counts) / sum(renderings for _, renderings in counts) < 0.005


def test_the_final_text_leaves_shown_pieces_as_they_are() -> None:
    text = DOCUMENTS["everything"]
    pieces = render_markdown(cut_unfinished(text[:9000]))
    assert render_markdown(text)[: len(pieces) - 1] == pieces[:-1]
