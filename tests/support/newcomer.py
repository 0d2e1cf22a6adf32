"""A copy of the project without an environment, as a newcomer has it, and a shell that has none either."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
SAME_DISK_AS_CACHE = "/var/tmp"  # where an environment is links to uv's cache instead of a gigabyte
OWN_VARIABLES = ("CI", "COV_", "PYTEST_", "PYTHON", "UV", "VIRTUAL_ENV")  # of this run of the tests


@contextmanager
def open_clone() -> Iterator[Path]:
    """A copy of what git has, or would have after `git add`; what Python compiled of it is not made again."""
    listing = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory(dir=SAME_DISK_AS_CACHE, prefix="canvasgram-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as somebody else where the tests run as root
        for name in filter(None, names.split("\0")):
            target = Path(folder, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # what another test wrote may be gone again
                shutil.copy2(ROOT / name, target)  # bytecode knows its source by its time
        for compiled in {(ROOT / name).parent / "__pycache__" for name in names.split("\0")}:
            if compiled.is_dir():
                half_written = shutil.ignore_patterns("*.pyc.*")
                shutil.copytree(compiled, Path(folder, compiled.relative_to(ROOT)), ignore=half_written)
        yield Path(folder)


def find_command(end: str) -> str:
    """The line of README that installs uv and then runs this."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^python3 -m pip install .*{end}$", readme, re.MULTILINE)
    assert found
    return found[0]


def run(command: str, folder: Path) -> str:
    """Run a line in a shell that has nothing of this environment; returns what it prints."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(OWN_VARIABLES)}  # noqa: TID251
    own_programs = str(Path(sys.executable).parent)
    paths = variables["PATH"].split(os.pathsep)
    variables["PATH"] = os.pathsep.join(path for path in paths if path != own_programs)
    result = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, result.stdout[-10_000:]
    return result.stdout
