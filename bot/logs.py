"""Structured logs: an action and fields per record, turn and chat bound by context, secrets hidden.

Owns the one handler of the process. Log with `log.info("update stored", extra={"action":
"intake.stored", "update_id": 7})`; what users write is never logged.
"""

import contextlib
import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal, TextIO
from urllib.parse import quote

HIDDEN = "[hidden]"

# Their lines below WARNING hold addresses with the token in them, or what users wrote.
_TALKATIVE = (
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
    "openai",
    "apscheduler",
    "sqlalchemy",
    "aiosqlite",
    "alembic",
    "telegramify_markdown",
    "trafilatura",
    "asyncio",
)

# They log what servers send, at any level; an answer of the Bot API holds what people wrote. tools/mcp and
# bot/telegram log failures in their own words.
_SILENCED = ("mcp", "client", "telegram")

# It warns of each request that is no HTTP: a stranger could fill the log.
_ERRORS_ONLY = "uvicorn"

_JOURNAL_PRIORITIES = MappingProxyType(
    {"DEBUG": "<7>", "INFO": "<6>", "WARNING": "<4>", "ERROR": "<3>", "CRITICAL": "<2>"}
)

_bound_fields: ContextVar[dict[str, Any] | None] = ContextVar("bound", default=None)
_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
    "action",
}


@contextlib.contextmanager
def bind(**fields: Any) -> Iterator[None]:
    """Add these fields (turn=…, chat=…) to every record made in the block, also in tasks it starts."""
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
    journal: str = "",
) -> None:
    """Send all records of the process to `stream` (None: stderr) without `secrets`.

    `journal`: what systemd has put into JOURNAL_STREAM. A second call replaces the first.
    """
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter((_JsonFormatter if format == "json" else _TextFormatter)(secrets))
    if _is_journal(handler.stream, journal):
        handler.priorities = _JOURNAL_PRIORITIES
    root = logging.getLogger()
    root.handlers = [existing for existing in root.handlers if not isinstance(existing, _Handler)]
    root.addHandler(handler)
    root.setLevel(level)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger(_ERRORS_ONLY).setLevel(logging.ERROR)
    for name in _SILENCED:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.captureWarnings(capture=True)


def _is_journal(stream: TextIO, journal: str) -> bool:
    """Whether systemd has connected this stream to journald."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return False
    return journal == f"{status.st_dev}:{status.st_ino}"


def announce(text: str) -> None:
    """Log what the owner has to see, whatever the level of the process is."""
    logger = logging.getLogger(f"{__name__}.announcements")
    logger.setLevel(logging.WARNING)
    logger.warning("%s", text, extra={"action": "app.announced"})


def hide_secrets(secrets: Iterable[str]) -> None:
    """Hide these values as well, from now on."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, _Handler) and isinstance(handler.formatter, _Formatter):
            handler.formatter.add_secrets(secrets)


class _Handler(logging.StreamHandler[TextIO]):
    """The process's one handler: puts the bound fields on each record, in the task that made it.

    `priorities`: what journald reads before each line, by level; empty: somebody else reads them.
    """

    priorities: Mapping[str, str] = MappingProxyType({})

    def format(self, record: logging.LogRecord) -> str:
        prefix = self.priorities.get(record.levelname, "")
        return "\n".join(prefix + line for line in super().format(record).split("\n"))

    def handle(self, record: logging.LogRecord) -> bool:
        record.bound = _bound_fields.get() or {}
        return bool(super().handle(record))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # logging's own name
        """Report where a record could not be written; logging's own report would print secrets."""
        with contextlib.suppress(OSError, ValueError, AttributeError):  # where stderr is closed, it is None
            self.stream.write(f"a log record of {record.pathname}:{record.lineno} could not be written\n")


class _Formatter(logging.Formatter):
    """Base of both formats: collects a record's fields and hides secrets."""

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
        attributes = {**getattr(record, "bound", {}), **vars(record)}
        return {
            name: self._redact_field(value)
            for name, value in attributes.items()
            if name not in _STANDARD_ATTRIBUTES and name != "bound"
        }

    def _redact_field(self, value: object) -> str | int | float | bool | None:
        if value is None or isinstance(value, (int, float, bool)):
            return value
        return self.redact(str(value))

    def format_failure(self, record: logging.LogRecord) -> str:
        parts = []
        if record.exc_info:
            parts.append(self.formatException(record.exc_info))
        if record.stack_info:
            parts.append(self.formatStack(record.stack_info))
        return self.redact("\n".join(parts))


class _TextFormatter(_Formatter):
    """`2026-11-20 10:24:59.123 INFO intake.stored turn=5 update_id=7 | update stored`, then a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        local_time = datetime.fromtimestamp(record.created).astimezone().isoformat(" ", "milliseconds")
        fields = "".join(
            f" {name}={_escape_control_chars(str(value))}"
            for name, value in self.collect_fields(record).items()
        )
        message = _escape_control_chars(self.redact(record.getMessage()))
        line = f"{local_time} {record.levelname} {_get_action(record)}{fields} | {message}"
        failure = self.format_failure(record)
        if failure:
            return f"{line}\n{failure}"
        return line


class _JsonFormatter(_Formatter):
    """One JSON object a line: time (UTC), level, action, message, fields, and `error` with a traceback."""

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
    """Escape line breaks and other control characters, so that no text can forge a log line."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _list_secret_forms(secret: str) -> set[str]:
    """Forms in which a secret may appear: plain, in an address, quoted by Python or JSON.

    Empty for a value under four characters, which is no secret.
    """
    if len(secret) < 4:
        return set()
    return {secret, quote(secret, safe=""), json.dumps(secret)[1:-1], repr(secret)[1:-1]}
