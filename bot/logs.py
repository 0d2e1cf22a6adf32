"""Logs as data: an action and fields a record, turn and chat bound by context, secrets never written.

Owns the one handler of the process. A room logs with `log.info("update stored", extra={"action":
"intake.stored", "update_id": 7})`; what people write is never logged.
"""

import contextlib
import json
import logging
import sys
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, TextIO
from urllib.parse import quote

HIDDEN = "[hidden]"

# Their lines below WARNING hold addresses with the token in them, or what people wrote.
_TALKATIVE = (
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
    "openai",
    "telegram",
    "sqlalchemy",
    "aiosqlite",
    "alembic",
    "uvicorn",
    "filelock",
    "telegramify_markdown",
    "trafilatura",
    "asyncio",
)

# They log what servers of strangers write, at any level; tools/mcp says what went wrong in words of its own.
_SILENCED = ("mcp", "client")

_bound_fields: ContextVar[dict[str, Any] | None] = ContextVar("bound", default=None)
_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
    "action",
}


@contextlib.contextmanager
def bind(**fields: Any) -> Iterator[None]:
    """Every record made inside the block, in this task or those it starts, carries these fields (turn=…,
    chat=…).
    """
    token = _bound_fields.set({**(_bound_fields.get() or {}), **fields})
    try:
        yield
    finally:
        _bound_fields.reset(token)


def configure(
    level: str = "INFO",
    format: Literal["text", "json"] = "text",
    secrets: Iterable[str] = (),
    stream: TextIO | None = None,
) -> None:
    """Send all records of the process to `stream` (stderr), without `secrets`; a second call replaces the
    first.
    """
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter((_JsonFormatter if format == "json" else _TextFormatter)(secrets))
    root = logging.getLogger()
    root.handlers = [other for other in root.handlers if not isinstance(other, _Handler)]
    root.addHandler(handler)
    root.setLevel(level)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in _SILENCED:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.captureWarnings(capture=True)


def hide_secrets(secrets: Iterable[str]) -> None:
    """Have these words hidden as well, from now on."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, _Handler) and isinstance(handler.formatter, _Formatter):
            handler.formatter.add_secrets(secrets)


class _Handler(logging.StreamHandler[TextIO]):
    """The process's own handler: puts the bound fields on each record, in the task that made it."""

    def handle(self, record: logging.LogRecord) -> bool:
        record.bound = _bound_fields.get() or {}
        return bool(super().handle(record))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # logging's own name
        """Say where a record could not be written; the usual report would print its arguments, secrets
        included.
        """
        with contextlib.suppress(OSError, ValueError):
            self.stream.write(f"a log record of {record.pathname}:{record.lineno} could not be written\n")


class _Formatter(logging.Formatter):
    """What both formats share: which fields a record has, and which words must not be seen."""

    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__()
        self._secrets: list[str] = []
        self.add_secrets(secrets)

    def add_secrets(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets for form in _list_secret_forms(secret)}
        self._secrets = sorted(forms.union(self._secrets), key=len, reverse=True)

    def redact(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text

    def collect_fields(self, record: logging.LogRecord) -> dict[str, str | int | float | bool | None]:
        given = {**getattr(record, "bound", {}), **vars(record)}
        return {
            name: value if isinstance(value, (int, float, bool)) or value is None else self.redact(str(value))
            for name, value in given.items()
            if name not in _STANDARD_ATTRIBUTES and name != "bound"
        }

    def format_failure(self, record: logging.LogRecord) -> str:
        if record.exc_info:
            parts = [self.formatException(record.exc_info)]
        else:
            parts = []
        if record.stack_info:
            parts.append(self.formatStack(record.stack_info))
        return self.redact("\n".join(parts))


class _TextFormatter(_Formatter):
    """`2026-11-20 10:24:59.123 INFO intake.stored turn=5 update_id=7 | update stored`, then a traceback if
    any.
    """

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).astimezone().isoformat(" ", "milliseconds")
        fields = "".join(
            f" {name}={_escape_control_chars(str(value))}"
            for name, value in self.collect_fields(record).items()
        )
        message = _escape_control_chars(self.redact(record.getMessage()))
        line = f"{when} {record.levelname} {_get_action(record)}{fields} | {message}"
        failure = self.format_failure(record)
        if failure:
            return f"{line}\n{failure}"
        return line


class _JsonFormatter(_Formatter):
    """One JSON object a line: time (UTC), level, action, message, the fields, and `error` with a traceback if
    any.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            **self.collect_fields(record),
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "action": _get_action(record),
            "message": self.redact(record.getMessage()),
        }
        failure = self.format_failure(record)
        if failure:
            line["error"] = failure
        return json.dumps(line, ensure_ascii=False)


def _get_action(record: logging.LogRecord) -> str:
    return str(getattr(record, "action", record.name))


def _escape_control_chars(text: str) -> str:
    """Line breaks and other control signs written out, so that no text can forge a line of the log."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def _list_secret_forms(secret: str) -> set[str]:
    """A secret as it may appear: plain, in an address, inside quotes of Python or JSON. One too short is no
    secret.
    """
    if len(secret) < 4:
        return set()
    return {secret, quote(secret, safe=""), json.dumps(secret)[1:-1], repr(secret)[1:-1]}
