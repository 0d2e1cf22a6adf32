"""Writing `.env`: whole or not at all, private, every other line kept, and read back as it was meant."""

import errno
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.cli.env_file import write_settings
from bot.errors import SettingsRefused
from bot.settings import load_settings

TOKEN = "1:token"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TELEGRAM_TOKEN", "MODEL_NAME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / ".env"


def test_a_new_file_is_readable_by_its_owner_alone(file: Path) -> None:
    write_settings(file, {"TELEGRAM_TOKEN": TOKEN})
    assert file.read_text() == f"TELEGRAM_TOKEN={TOKEN}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]


def test_known_names_change_in_place_and_every_other_line_stays(file: Path) -> None:
    file.write_text(
        "# mine\n\nexport MODEL_NAME='old'  # why\nOTHER=\"a\nMODEL_NAME=inside\"\nbroken '\nMODEL_NAME=twice"
    )
    file.chmod(0o644)
    write_settings(file, {"MODEL_NAME": "new", "TELEGRAM_TOKEN": TOKEN})
    assert file.read_text() == (
        f'# mine\n\nMODEL_NAME=new\nOTHER="a\nMODEL_NAME=inside"\nbroken \'\nTELEGRAM_TOKEN={TOKEN}\n'
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_last_line_without_a_newline_gets_one(file: Path) -> None:
    file.write_text("OTHER=1")
    write_settings(file, {"TELEGRAM_TOKEN": TOKEN})
    assert file.read_text() == f"OTHER=1\nTELEGRAM_TOKEN={TOKEN}\n"


def test_a_link_stays_a_link(file: Path) -> None:
    target = file.with_name("kept.env")
    target.write_text("OTHER=1\n")
    file.symlink_to(target)
    write_settings(file, {"TELEGRAM_TOKEN": TOKEN})
    assert file.is_symlink()
    assert TOKEN in target.read_text()


@given(
    value=st.text(
        st.characters(codec="utf-8", exclude_categories=["C", "Z"], include_characters=" "), min_size=1
    )
)
def test_any_value_is_read_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, value: str
) -> None:
    file = tmp_path_factory.mktemp("env") / ".env"
    try:
        write_settings(file, {"TELEGRAM_TOKEN": TOKEN, "MODEL_NAME": value})
    except SettingsRefused:
        assert "${" in value
        assert not file.exists()
    else:
        assert load_settings(file).model_name == value


def test_a_value_that_such_a_file_cannot_hold_is_refused(file: Path) -> None:
    for value in ("a${HOME}", "two\nlines"):
        with pytest.raises(SettingsRefused, match=r"^MODEL_NAME may not hold"):
            write_settings(file, {"MODEL_NAME": value})


def test_a_file_that_cannot_be_written_is_reported_and_left_alone(file: Path) -> None:
    with pytest.raises(SettingsRefused, match="cannot be written"):
        write_settings(file / "below", {"MODEL_NAME": "x"})
    file.mkdir()
    with pytest.raises(SettingsRefused, match="cannot be written"):
        write_settings(file, {"MODEL_NAME": "x"})
    assert list(file.parent.iterdir()) == [file]
    (file.parent / "latin").write_bytes(b"\xe4=1\n")
    with pytest.raises(SettingsRefused, match="cannot be written"):
        write_settings(file.parent / "latin", {"MODEL_NAME": "x"})


def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file.write_text("OTHER=1\n")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SettingsRefused, match="No space left"):
        write_settings(file, {"MODEL_NAME": "x"})
    assert file.read_text() == "OTHER=1\n"
    assert list(file.parent.iterdir()) == [file]
