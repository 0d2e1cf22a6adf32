"""Reads the answers of getUpdates, also when one update in them is broken: only that one is lost.

The broken update has no readable number, so it is acknowledged together with the next one behind it.
"""

import json
import logging
from collections.abc import Iterator
from typing import Any

from telegram.error import TelegramError
from telegram.request import HTTPXRequest

from bot.telegram.bounded_request import BoundedRequest

_UPDATE_PREFIX = '{"update_id":'

log = logging.getLogger(__name__)


class TolerantPollRequest(BoundedRequest):
    """The connections of getUpdates."""

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Parse an answer; if it is not valid JSON, return the updates in it that are.

        Raises TelegramError if there are none.
        """
        try:
            return HTTPXRequest.parse_json_payload(payload)
        except (TelegramError, RecursionError) as error:
            updates = list(parse_whole_updates(payload.decode("utf-8", "replace")))
            if not updates:
                raise TelegramError("what answered is no Bot API") from error
            log.warning("an update was broken and is left out", extra={"action": "polls.broken"})
            return {"ok": True, "result": updates}


def parse_whole_updates(text: str) -> Iterator[dict[str, Any]]:
    """Yield the updates in an answer that can be parsed on their own."""
    decoder = json.JSONDecoder()
    start = text.find(_UPDATE_PREFIX)
    while start >= 0:
        try:
            update, end = decoder.raw_decode(text, start)
            yield update
        except (ValueError, RecursionError):
            end = start + 1
        start = text.find(_UPDATE_PREFIX, end)
