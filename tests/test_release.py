"""What a release consists of: the wheel, the workflows that build it, and the pages beside it."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from bot.cli import version
from tests.support.newcomer import ROOT, find_command, open_clone, run

WORKFLOWS = sorted((ROOT / ".github/workflows").iterdir())
MAX_INSTALLED_BYTES = 200_000_000
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wheel_holds_the_packages_alone_and_works_in_an_empty_environment() -> None:
    with open_clone() as clone:
        check_wheel(clone)


def check_wheel(clone: Path) -> None:
    (clone / "bot/commit.txt").write_text("0123456789ab\n")
    install = find_command("canvasgram demo").partition(" && ")[0]
    run(f"{install} && .uv/bin/uv build --quiet --wheel", clone)
    [wheel] = (clone / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {
        "bot",
        "tools",
        "migrations",
        f"canvasgram-{VERSION}.dist-info",
    }
    assert not [name for name in names if name.endswith("DECISIONS.md") or "test" in Path(name).name]
    run(f".uv/bin/uv venv --quiet empty && .uv/bin/uv pip install --quiet --python empty {wheel}", clone)
    elsewhere = clone / "elsewhere"
    elsewhere.mkdir()
    assert run("../empty/bin/canvasgram --version", elsewhere) == f"canvasgram {VERSION} (0123456789ab)\n"
    assert "Hello" in run('../empty/bin/canvasgram demo --say "Hello"', elsewhere).partition("s: ")[0]
    files = (path for path in (clone / "empty/lib").rglob("*") if path.is_file())
    size = sum(file.stat().st_size for file in files if file.suffix != ".pyc")
    assert size < MAX_INSTALLED_BYTES


def test_a_clone_names_its_commit() -> None:
    head = ("git", "rev-parse", "HEAD")
    commit = subprocess.run(head, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    named = re.fullmatch(rf"{re.escape(VERSION)} \(([0-9a-f]{{12,}})\)", version.describe_version())
    assert named
    assert commit.startswith(named[1])


def test_the_workflows_are_valid_and_run_what_ci_runs() -> None:
    checker = Path(sys.executable).with_name("check-jsonschema")
    args = [str(checker), "--builtin-schema", "vendor.github-workflows", *map(str, WORKFLOWS)]
    result = subprocess.run(args, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
    texts = {path.name: path.read_text(encoding="utf-8") for path in WORKFLOWS}
    assert ".ci/run" in texts["ci.yml"]
    assert "uses: ./.github/workflows/ci.yml" in texts["release.yml"]
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    pinned = re.search(r"uv==[0-9.]+", dockerfile)
    assert pinned
    assert pinned[0] in texts["release.yml"]


def test_the_changelog_begins_with_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.search(r"^## (.*)$", changelog, re.MULTILINE)
    assert heading
    assert heading[1] == VERSION
