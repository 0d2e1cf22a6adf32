"""Migrates a database in a process of its own, which gives back what the migrations' libraries took.

Alembic and its templates would stay in a gateway until it ends. The gateway holds the lock of the database;
the other process ends when the gateway dies, and its single transaction is undone.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import traceback

from bot.db.database_url import is_postgresql, parse_database_path
from bot.db.migrate import migrate
from bot.db.sqlite.migrate import is_current
from bot.errors import CanvasgramError, SchemaUnknown, SettingsRefused, StoreBusy, StoreUnavailable

_ERRORS = {error.__name__: error for error in (SchemaUnknown, SettingsRefused, StoreBusy, StoreUnavailable)}


def migrate_in_process(url: str) -> str | None:
    """Migrate the database at `url` as `migrate` does, in a process of its own if there is something to do.

    One on a PostgreSQL server is migrated in this process.
    """
    if is_postgresql(url):
        return migrate(url)
    if is_current(parse_database_path(url)):
        return None
    with subprocess.Popen(  # noqa: S603  # our own module
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,  # open until the answer is there: a gateway that dies closes it
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the gateway
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{url}\n".encode())
        process.stdin.flush()
        output = process.stdout.read()
    if process.returncode < 0:
        raise StoreUnavailable(
            f"the process that migrates the database was ended: {signal.strsignal(-process.returncode)}"
        )
    return _read_answer(output)


def _read_answer(output: bytes) -> str | None:
    """The path of the copy that was made, if one was; raises the error that the process met."""
    answer = json.loads(output)
    if answer["error"] in _ERRORS:
        raise _ERRORS[answer["error"]](answer["text"])
    if answer["error"] is not None:
        raise RuntimeError(f"the migration failed: {answer['text']}")
    copy: str | None = answer["copy"]
    return copy


def _answer(url: str) -> dict[str, str | None]:
    try:
        return {"error": None, "copy": migrate(url)}
    except CanvasgramError as error:
        return {"error": type(error).__name__, "text": str(error)}
    except Exception as error:  # noqa: BLE001  # the gateway raises it
        return {"error": type(error).__name__, "text": traceback.format_exc()}


def _end_with_gateway() -> None:
    """End this process when the gateway has died: it held the lock, and another one may have it now."""
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    address = sys.stdin.readline().rstrip("\n")
    threading.Thread(target=_end_with_gateway, daemon=True).start()
    sys.stdout.write(json.dumps(_answer(address)))
