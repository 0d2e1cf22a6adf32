"""What goes wrong on the page, as a status and a sentence for the admin."""

import logging
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from bot.errors import (
    CanvasgramError,
    ChangeRefused,
    NothingFound,
    QuestionRefused,
    ReadTooSlow,
    SchemaUnknown,
    StoreBusy,
    StoreUnavailable,
)

log = logging.getLogger(__name__)

_STATUSES: Mapping[type[CanvasgramError], tuple[int, str]] = {
    QuestionRefused: (400, "This cannot be shown"),
    NothingFound: (404, "Not found"),
    ChangeRefused: (409, "Nothing was changed"),
    ReadTooSlow: (503, "Too much at once"),
    SchemaUnknown: (503, "Another version"),
    StoreUnavailable: (503, "The database cannot be used"),
}
_HTTP_TITLES = {404: "Not found", 405: "Not possible"}


class PageRefused(CanvasgramError):
    """A request is refused for how or when it came: its address, its form, or what has changed since."""

    def __init__(self, text: str, *, status: int) -> None:
        super().__init__(text)
        self.status = status


def describe_error(error: Exception) -> tuple[int, str, str]:
    """The status, the title and the sentence of an error page; what is unexpected is logged."""
    if isinstance(error, PageRefused):
        return error.status, "Refused", str(error)
    if isinstance(error, HTTPException):
        title = _HTTP_TITLES.get(error.status_code, "Refused")
        return (
            error.status_code,
            title,
            "There is no such page." if error.status_code == 404 else error.detail,
        )
    if isinstance(error, ClientDisconnect):
        return 400, "Gone", "The browser ended the connection."  # which nobody reads
    if isinstance(error, StoreBusy):
        return 503, "The database is busy", "The database is busy. Try again in a moment."
    for kind, (status, title) in _STATUSES.items():
        if isinstance(error, kind):
            return status, title, str(error)
    log.error("a page failed", exc_info=error, extra={"action": "page.failed"})
    return 500, "A fault of the page", "The log of the gateway says more. The gateway itself goes on."
