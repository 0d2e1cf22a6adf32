"""Files of TOOLS_DIR: which tools are found and what is refused; loading again keeps running calls."""

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import tools
from bot.tool_registry import file_trials
from bot.tool_registry.python_files import load_folder
from tests.tools.conftest import build_context
from tools.base import Tool
from tools.builtin.clock import clock

GREET = '''
from dataclasses import dataclass

from tools.base import tool
from tools.builtin.clock import clock


@dataclass
class Somebody:
    name: "str"


@tool
async def greet(name: str) -> str:
    """Greet somebody.

    Args:
        name: Whom.
    """
    return f"hello, {Somebody(name).name}"


again = greet
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir(mode=0o755)
    write_file(folder, "greet.py", GREET)
    return folder


def write_file(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o644)
    return path


def test_the_tools_of_the_readme_work_here_as_written(tmp_path: Path) -> None:
    readme = Path(tools.__file__).with_name("README.md").read_text()
    folder = tmp_path / "mine"
    folder.mkdir(mode=0o755)
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", readme, re.DOTALL)):
        write_file(folder, f"tool{number}.py", code)
    files = load_folder(folder).files
    assert [tool.name for file in files for tool in file.tools] == ["greet", "export_table"]


def test_a_file_gives_its_tools_and_not_those_it_imports(folder: Path) -> None:
    write_file(folder, "_parts.py", "raise SystemExit")
    (folder / ".#greet.py").symlink_to("somebody@here.1")  # an editor's lock
    write_file(folder, "notes.txt", "no Python")
    [file] = load_folder(folder, [clock]).files
    assert (file.name, file.trouble) == ("greet.py", None)
    [greet] = file.tools
    assert (greet.name, greet.source, greet.address) == ("greet", "greet.py", "greet.py")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\n\ny = (", "broken.py, line 3: SyntaxError: '(' was never closed"),
        (
            "x = 1\nimport no_such_thing\n",
            "broken.py, line 2: ModuleNotFoundError: No module named 'no_such_thing'",
        ),
        ("import json\n\njson.loads('[')\n", "broken.py, line 3: JSONDecodeError"),
        ("raise SystemExit", "broken.py, line 1: SystemExit"),
        (
            "from tools.base import tool\n\n@tool\ndef bare(x: int) -> int:\n    return x\n",
            "broken.py, line 3: ToolDefinitionError: broken.bare has",
        ),
        (b"\xff\xfe", "broken.py"),
        (b"x = '\x00'", "broken.py"),
        ("exec(compile('1 +', 'elsewhere', 'exec'))", "broken.py, line 1: SyntaxError"),
    ],
)
def test_a_broken_file_is_reported_with_its_line_and_the_others_are_loaded(
    folder: Path, text: str | bytes, expected: str
) -> None:
    write_file(folder, "broken.py", text)
    broken, greet = load_folder(folder).files
    assert broken.trouble is not None
    assert broken.trouble.startswith(expected)
    assert broken.tools == ()
    assert greet.tools


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_may_write_refuses_the_whole_folder(folder: Path, mode: int) -> None:
    path = write_file(folder, "other.py", "")
    path.chmod(mode)
    loaded = load_folder(folder)
    assert loaded.files == ()
    assert loaded.refusal_reason == (
        f"TOOLS_DIR is not loaded: others may write to {path}. Say `chmod go-w {path}`."
    )


def test_a_folder_that_others_may_write_is_refused(folder: Path) -> None:
    folder.chmod(0o775)
    assert "others may write" in (load_folder(folder).refusal_reason or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_somebody_else_is_refused(folder: Path) -> None:
    os.chown(folder / "greet.py", 12345, 12345)
    assert "belongs to another user" in (load_folder(folder).refusal_reason or "")


def test_what_is_no_plain_file_and_a_missing_folder_are_refused(folder: Path, tmp_path: Path) -> None:
    odd = folder / "odd.py"
    makers: tuple[Callable[[], object], ...] = (
        lambda: odd.symlink_to(write_file(tmp_path, "target.py", "x = 1")),
        odd.mkdir,
        lambda: os.mkfifo(odd),  # reading it would wait forever
    )
    for make in makers:
        make()
        assert "odd.py is no plain file. Put the file itself there" in (
            load_folder(folder).refusal_reason or ""
        )
        if odd.is_dir() and not odd.is_symlink():
            odd.rmdir()
        else:
            odd.unlink()
    assert "cannot be read (No such file" in (load_folder(tmp_path / "nowhere").refusal_reason or "")


async def call(tool: Tool) -> object:
    return await tool.function({}, build_context())


async def test_loading_again_leaves_running_calls_alone(folder: Path) -> None:
    code = """
import asyncio
from tools.base import tool

gate = asyncio.Event()

@tool
async def wait() -> str:
    \"\"\"Wait.\"\"\"
    await gate.wait()
    return "{word}"

@tool
async def open_gate() -> None:
    \"\"\"Open it.\"\"\"
    gate.set()
"""
    write_file(folder, "wait.py", code.format(word="old"))
    old_wait, old_open = load_folder(folder).files[1].tools
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(call(old_wait))
        await asyncio.sleep(0)
        write_file(folder, "wait.py", code.format(word="new"))
        new_wait, new_open = load_folder(folder).files[1].tools
        assert not running.done()
        await call(old_open)
        await call(new_open)
    assert [running.result(), await call(new_wait)] == ["old", "new"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import time\n\ntime.sleep(3600)\n", r"bad\.py, line 3: it took longer than 0\.3 s to load"),
        ("import re\nre.match('(a+)+$', 'a' * 50 + 'b')\n", r"bad\.py, line 2: it took longer than 0\.3 s"),
    ],
)
def test_a_file_that_never_ends_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: str
) -> None:
    """Alone in its folder: others might not be loaded in so little time either."""
    monkeypatch.setattr(file_trials, "_GRACE_SECONDS", 300.0)  # the process may start slowly
    folder = tmp_path / "mine"
    folder.mkdir(mode=0o755)
    write_file(folder, "bad.py", text)
    [bad] = load_folder(folder, load_seconds=0.3).files
    assert re.match(expected, bad.trouble or ""), bad.trouble


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import os\nos._exit(0)\n", r"bad\.py: it ended the process that loaded it"),
        ("import os\nos.abort()\n", r"bad\.py: it ended the process that loaded it"),
        ("raise KeyboardInterrupt('now')\n", r"bad\.py, line 1: KeyboardInterrupt: now"),
        ("print('.' * 9)\nx = 1\n", r"bad\.py: it has no tool: write @tool above a function"),
    ],
)
def test_a_file_that_ends_everything_is_named_and_the_others_are_loaded(
    folder: Path, text: str, expected: str
) -> None:
    write_file(folder, "bad.py", text)
    bad, greet = load_folder(folder, [clock], load_seconds=300.0).files
    assert re.match(expected, bad.trouble or ""), bad.trouble
    assert (bad.tools, len(greet.tools)) == ((), 1)


def test_a_folder_in_one_that_others_may_write_is_refused_unless_only_owners_may_rename(
    folder: Path, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    assert f"others may write to {tmp_path}, and so" in (load_folder(folder).refusal_reason or "")
    tmp_path.chmod(0o1777)
    assert load_folder(folder).files
