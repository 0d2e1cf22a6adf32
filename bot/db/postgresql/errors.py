"""Says in words what a PostgreSQL server reports, and tells what waiting may mend from what it may not."""

import contextlib
import re
from collections.abc import Iterator

import psycopg
from sqlalchemy.exc import DBAPIError

from bot.errors import CanvasgramError, SettingsRefused, StoreBusy, StoreUnavailable

# Classes of SQLSTATE, and single ones: the connection, resources, the operator, the system, a rollback that
# the server chose, a lock, a transaction in which nothing was done for long, and a server that only reads
# because another one leads now.
_PASSING = ("08", "53", "57P", "58", "40", "55P03", "25P03", "25006")
_BUSY = ("55P03", "40", "53300")

# Before a session exists the server sends words alone.
_CONNECTING = re.compile("connection (failed|is bad|timeout)|failed to resolve|multiple connection")
_REFUSED = (
    (
        re.compile("password authentication failed|no password supplied|role .* does not exist"),
        "does not let this user in ({reason}). Put the right user and password into DATABASE_URL; there odd "
        "characters of a password are written with % (@ is %40).",
    ),
    (
        re.compile("database .* does not exist"),
        "has no such database ({reason}). Create it, for example: createdb --encoding=UTF8 canvasgram",
    ),
    (
        re.compile("no pg_hba.conf entry|permission denied for database"),
        "does not let this user in from here ({reason}). Its owner can: in pg_hba.conf, or by GRANT CONNECT.",
    ),
    (
        re.compile("SSL was required|certificate verify failed|sslmode|root certificate"),
        "speaks no TLS as DATABASE_URL wants it ({reason}). Change sslmode there, or the server.",
    ),
)


@contextlib.contextmanager
def translate_errors(*, was_open: bool = False) -> Iterator[None]:
    """Raise StoreUnavailable for what waiting may mend, SettingsRefused for a session that is refused.

    `was_open`: this process had a session before, so that a refusal may pass as well: it is StoreUnavailable.
    """
    try:
        yield
    except DBAPIError as error:
        translated = _translate(error.orig, was_open=was_open)
        if translated is None:
            raise  # the statement itself is wrong: waiting does not help
        raise translated from error
    except psycopg.Error as error:
        translated = _translate(error, was_open=was_open)
        if translated is None:
            raise
        raise translated from error


def _translate(error: BaseException | None, *, was_open: bool) -> CanvasgramError | None:
    if not isinstance(error, psycopg.Error):
        return None
    reason = _shorten(error)
    if error.sqlstate is not None:
        if not error.sqlstate.startswith(_PASSING):
            return None
        kind = StoreBusy if error.sqlstate.startswith(_BUSY) else StoreUnavailable
        return kind(f"the database cannot be used now: {reason}")
    if isinstance(error, psycopg.ProgrammingError):
        if "connection option" in reason:
            return SettingsRefused(f"DATABASE_URL: {reason}. Leave it out.")
        return None
    for pattern, advice in _REFUSED:
        if pattern.search(reason) and not was_open:
            return SettingsRefused(f"DATABASE_URL: the server {advice.replace('{reason}', reason)}")
    if _CONNECTING.match(str(error)):
        return StoreUnavailable(
            f"the server of DATABASE_URL cannot be reached; start it, or correct the setting: {reason}"
        )
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreUnavailable(f"the database cannot be used now: {reason}")
    return None


def _shorten(error: psycopg.Error) -> str:
    """The first line of what was reported, without the words that lead up to it."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return re.sub(r"^(.*?FATAL: +|connection (failed|is bad): )", "", lines[0]).rstrip(".")
