"""What was measured of typed reads: when it counts as a gain, and the file that it stands in."""

from pathlib import Path

import pytest

from bot.llm.read_gains import CLEAR, GAINS_FILE, ReadGain, load_gains, store_gain


@pytest.mark.parametrize(
    ("gained", "lost", "is_clear"),
    [(0, 0, False), (3, 0, False), (5, 0, True), (30, 20, False), (40, 20, True)],
)
def test_a_gain_is_clear_when_chance_does_not_explain_it(gained: int, lost: int, is_clear: bool) -> None:
    assert (ReadGain("m", 100, gained, lost).clearness > CLEAR) is is_clear
    assert (ReadGain("m", 100, lost, gained).clearness < -CLEAR) is is_clear


def test_each_use_is_stored_beside_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "bench"
    assert load_gains(folder) == {}
    gains = {"tools": ReadGain("m", 40, 9, 1), "recall": ReadGain("m", 300, 20, 30)}
    store_gain(folder, "tools", ReadGain("old", 4, 1, 1))
    store_gain(folder, "recall", gains["recall"])
    store_gain(folder, "tools", gains["tools"])
    assert load_gains(folder) == gains


@pytest.mark.parametrize("content", ["", "[]", "7", '{"tools": 1}', '{"tools": {"model": "m"}}', "{", "\0"])
def test_a_file_that_holds_no_gains_switches_nothing_on(tmp_path: Path, content: str) -> None:
    (tmp_path / GAINS_FILE).write_text(content)
    assert load_gains(tmp_path) == {}
