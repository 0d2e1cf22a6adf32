"""The bodies of our own inbox items: what is stored stays as it was, and what was stored is read."""

from typing import Any

import pytest

from bot.db.queues.item_bodies import (
    ExportOrder,
    ForgetOrder,
    HookPost,
    JobQuestion,
    QueuedTexts,
    ReminderWish,
    SpeechOrder,
    SummaryOrder,
    ToolOrder,
)
from bot.domain import Lane

CHAT = Lane(-1009, 4)
QUEUED = {"person": 7, "name": "Anna", "texts": ["hello"]}
TOOLS = {"job": "tools", "person": 7, "name": "Anna", "lane": "7"}


@pytest.mark.parametrize(
    ("value", "body"),
    [
        (
            ReminderWish(7, "Anna", "in 5 minutes tea", 3.5),
            {"person": 7, "name": "Anna", "words": "in 5 minutes tea", "said_at": 3.5},
        ),
        (QueuedTexts(7, "Anna", ("hello",)), QUEUED),
        (
            QueuedTexts(7, "Anna", ("hello",), turn=3, deep=True, thinks=True, continues=True),
            QUEUED | {"turn": 3, "deep": True, "think": True, "goes_on": True},
        ),
        (
            QueuedTexts(7, "Anna", ("hello",), late=60.0, left_out=True),
            QUEUED | {"late": 60.0, "left_out": True},
        ),
        (
            ForgetOrder(2.0, True, "de"),
            {"job": "forget", "asked_at": 2.0, "tell": True, "language": "de"},
        ),
        (
            ExportOrder(CHAT, 7, True, 40, parts=2, after_lane="-1009:4", after_turn=39, after_file=1),
            {"job": "export", "lane": CHAT.key, "person": 7, "with_files": True, "last_turn": 40}
            | {"parts": 2, "after_lane": "-1009:4", "after_turn": 39, "after_file": 1},
        ),
        (
            SummaryOrder(CHAT, 2, 40),
            {"job": "summary", "lane": CHAT.key, "conversation": 2, "upto": 40},
        ),
        (
            SpeechOrder(3, CHAT, 7, None),
            {"job": "speech", "turn": 3, "lane": CHAT.key, "person": 7, "reply_to": None},
        ),
        (HookPost(2, "bell", "Hello"), {"hook": 2, "name": "bell", "text": "Hello"}),
        (JobQuestion("time", CHAT, 2.5), {"field": "time", "lane": CHAT.key, "asked_at": 2.5}),
        (ToolOrder("add", 7, "Anna", Lane(7), "http://x"), TOOLS | {"do": "add", "words": "http://x"}),
        (ToolOrder("unsay", 7, "Anna", Lane(7), message=12), TOOLS | {"do": "unsay", "message": 12}),
        (
            ToolOrder("signed", 7, "Anna", Lane(7), "mail", error="", is_personal=True),
            TOOLS | {"do": "signed", "words": "mail", "error": "", "personal": True},
        ),
    ],
)
def test_a_body_is_stored_in_these_keys_and_read_back(value: Any, body: dict[str, Any]) -> None:
    assert value.serialize() == body
    assert type(value).parse(body) == value


def test_bodies_of_earlier_versions_are_read() -> None:
    assert ReminderWish.parse({"person": 7, "name": "Anna", "words": "tea"}).said_at is None
    assert ForgetOrder.parse({"job": "forget", "asked_at": 2, "tell": False}).language is None
