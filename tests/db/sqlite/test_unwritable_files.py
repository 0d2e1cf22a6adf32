"""Where the database or its lock cannot be created or written, the error says what to do."""

import errno
import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from bot.db.sqlite import lock
from bot.db.sqlite.files import make_private
from bot.errors import SettingsRefused, StoreUnavailable
from tests.support.held_database import refuse_opening

pytestmark = pytest.mark.sqlite


def claim(file: Path) -> None:
    make_private(file)
    with lock.hold_lock(file):
        pass


@pytest.mark.parametrize("name", ["canvasgram.db", "canvasgram.db.lock"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_with_what_to_do(
    name: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    refuse_opening(monkeypatch, tmp_path / name, number)
    with pytest.raises(StoreUnavailable, match=r"its disk is full.* Free some space there") as caught:
        claim(tmp_path / "canvasgram.db")
    assert str(tmp_path / name) in str(caught.value)


@pytest.mark.parametrize("name", ["canvasgram.db", "canvasgram.db.lock"])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
def test_a_file_of_somebody_else_is_told_with_what_to_do(
    name: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / name).touch()
    refuse_opening(monkeypatch, tmp_path / name, number)
    with pytest.raises(SettingsRefused, match=f"{name} cannot be written .* Let this user write"):
        claim(tmp_path / "canvasgram.db")


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOTCONN])
def test_a_disk_that_is_not_mounted_for_writing_is_waited_for(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    refuse_opening(monkeypatch, tmp_path / "canvasgram.db", number)
    with pytest.raises(StoreUnavailable, match="Mount its disk for writing"):
        claim(tmp_path / "canvasgram.db")


@pytest.mark.parametrize("name", ["canvasgram.db", "canvasgram.db.lock"])
def test_a_folder_in_the_place_of_a_file_is_told(name: str, tmp_path: Path):
    (tmp_path / name).mkdir()
    with pytest.raises(SettingsRefused, match=f"{name} cannot be written"):
        claim(tmp_path / "canvasgram.db")


TRY_TO_LOCK = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'rb+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"


def test_what_is_made_private_again_keeps_the_locks_of_this_process(tmp_path: Path):
    """Else another process that closes the database would remove its log while this one works on it."""
    file = tmp_path / "canvasgram.db"
    make_private(file)
    with file.open("rb+") as holder:
        fcntl.lockf(holder, fcntl.LOCK_EX)
        make_private(file)
        locking = subprocess.run([sys.executable, "-I", "-S", "-c", TRY_TO_LOCK, file], capture_output=True)
    assert b"BlockingIOError" in locking.stderr
