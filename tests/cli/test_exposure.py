"""What others on the machine can read of a running gateway's settings."""

import subprocess
import sys
from pathlib import Path

import pytest

from bot.cli.exposure import describe_open_file


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has this")
def test_the_memory_of_the_process_is_hidden_from_programs_of_its_user() -> None:
    program = "import ctypes; from bot.cli.exposure import hide_memory; hide_memory(); "
    program += "print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"  # PR_GET_DUMPABLE
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "0\n"


def test_a_settings_file_that_others_can_read_is_named(tmp_path: Path) -> None:
    env_file = tmp_path / ".env"
    assert describe_open_file(env_file) is None
    env_file.touch(0o600)
    assert describe_open_file(env_file) is None
    env_file.chmod(0o666)
    assert str(describe_open_file(env_file)).startswith(f"{env_file} has mode 0666")
