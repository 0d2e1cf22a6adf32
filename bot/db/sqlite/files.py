"""Makes the files of a database private to their owner, and says what to do where that is refused."""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from bot.errors import SettingsRefused, StoreReplaced, StoreUnavailable

# The disk is not mounted yet, or read-only for a moment: waiting may mend it.
_MOUNT_ERRORS = frozenset((errno.EROFS, errno.EIO, errno.ENODEV, errno.ENXIO, errno.ENOTCONN, errno.ESTALE))


def make_private(file: Path) -> None:
    """Create `file` if needed, and let only its owner read it; SQLite gives its side files the same mode.

    Raises SettingsRefused if this user can never write there, StoreUnavailable if the disk is full
    or not mounted for writing.
    """
    with translate_file_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        # One that can be used is not opened: to close it would end the locks that this process has on it.
        if not (file.is_file() and os.access(file, os.R_OK | os.W_OK)):
            os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        file.chmod(0o600)
    if not os.access(file.parent, os.W_OK | os.X_OK):  # for the files that SQLite puts beside it
        raise SettingsRefused(_explain_unwritable(file, "its folder is read-only"))


def build_file_check(file: Path) -> Callable[[], None]:
    """Build a check that raises StoreReplaced once the file of this name is not the one that it is now.

    SQLite itself would go on in a file that has no name any more, and all of it be lost at the end.
    """
    opened = file.stat()

    def check_file() -> None:
        try:
            is_in_place = os.path.samestat(file.stat(), opened)
        except FileNotFoundError:
            is_in_place = False
        except OSError as error:
            raise StoreUnavailable(f"{file} cannot be read ({error.strerror})") from error
        if not is_in_place:
            raise StoreReplaced(f"{file} was removed or replaced while the gateway worked on it")

    return check_file


@contextlib.contextmanager
def translate_file_errors(file: Path) -> Iterator[None]:
    """Say what to do where the system refuses to create or open this file of the database.

    Raises SettingsRefused if this user can never write there, StoreUnavailable if the disk is full
    or not mounted for writing.
    """
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise StoreUnavailable(
                f"{file} cannot be written: its disk is full ({error.strerror}). "
                "Free some space there, or set DATABASE_URL to a file elsewhere"
            ) from error
        if error.errno in _MOUNT_ERRORS:
            raise StoreUnavailable(
                f"{file} cannot be written ({error.strerror}). Mount its disk for writing, "
                "or set DATABASE_URL to a file elsewhere"
            ) from error
        raise SettingsRefused(_explain_unwritable(file, error.strerror)) from None


def _explain_unwritable(file: Path, reason: str | None) -> str:
    return (
        f"DATABASE_URL: {file} cannot be written ({reason}). Let this user write to the file and its folder, "
        "or choose another file. Example: DATABASE_URL=sqlite+aiosqlite:////var/lib/canvasgram/canvasgram.db"
    )
