"""The conditions of a run."""

import re
from pathlib import Path

import pytest

from bot.bench.harness import machine
from tests.bench.harness import disk
from tests.support.machine import describe_machine


def test_the_file_system_is_that_of_the_nearest_mount(tmp_path: Path):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\ntmpfs {tmp_path}/quick tmpfs rw 0 0\n")
    assert disk.find_file_system(tmp_path, mounts) == "ext4"
    assert disk.find_file_system(tmp_path / "quick" / "below", mounts) == "tmpfs: no real disk"
    assert disk.find_file_system(tmp_path, tmp_path / "no such file") == "unknown"


def test_the_conditions_name_machine_versions_and_disk(tmp_path: Path):
    conditions = dict([*describe_machine(), *disk.describe_database(tmp_path)])
    assert list(conditions) == ["machine", "versions", "database"]
    assert re.search(r"\d+ cores", conditions["machine"])
    assert "python-telegram-bot 22" in conditions["versions"]
    assert re.search(rf"in {tmp_path} .* fsync takes \d+\.\d\d ms$", conditions["database"])


def test_the_load_is_unknown_where_the_machine_does_not_tell(monkeypatch: pytest.MonkeyPatch):
    assert re.fullmatch(r"\d+\.\d \d+\.\d \d+\.\d", machine.describe_load())

    def silent() -> None:
        raise OSError

    monkeypatch.setattr("os.getloadavg", silent)
    assert machine.describe_load() == "unknown"
