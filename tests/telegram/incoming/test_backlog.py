"""A burst of forwards counts as one message, and is bounded by text; all else is bounded by number."""

import pytest

from bot.telegram.incoming.backlog import Backlog, BacklogLimits, WaitingMessage, build_waiting_message

LIMITS = BacklogLimits(max_waiting=3, prompt_budget=1000)  # 2,000 bytes of one burst
TEXT = WaitingMessage("1")
SHORT = WaitingMessage("1", is_forward=True, text_bytes=5)
LONG = WaitingMessage("1", is_forward=True, text_bytes=1000)
FILE = WaitingMessage("1", is_forward=True, has_media=True)


def take(*messages: WaitingMessage, backlog: Backlog | None = None) -> str:
    backlog = backlog or Backlog(LIMITS)
    return "".join("+" if backlog.try_add(message) else "-" for message in messages)


@pytest.mark.parametrize(
    ("messages", "taken"),
    [
        ([TEXT] * 5, "+++--"),
        ([SHORT] * 10 + [TEXT, TEXT, TEXT], "+" * 12 + "-"),
        ([LONG, LONG, SHORT, TEXT], "+--+"),  # what comes behind what was refused is refused, too
        ([LONG, TEXT, LONG, TEXT], "+++-"),  # two bursts, with a message between them
        ([FILE] * 12, "+" * 10 + "--"),
        ([TEXT, TEXT, TEXT, SHORT, SHORT], "+++--"),
        ([WaitingMessage("1", True, 10**6), WaitingMessage("1:2", True, 10**6)], "++"),  # never none at all
        ([SHORT, WaitingMessage("1:2", is_forward=True), SHORT], "+++"),  # each topic has its own
    ],
)
def test_what_is_taken_of_messages_that_come_together(messages: list[WaitingMessage], taken: str):
    assert take(*messages) == taken


def test_what_waits_already_counts():
    backlog = Backlog(LIMITS)
    backlog.add_waiting([TEXT, LONG])
    assert take(LONG, TEXT, TEXT, backlog=backlog) == "-+-"


def test_a_burst_that_was_refused_is_not_taken_up_again_by_the_next_batch():
    backlog = Backlog(LIMITS)
    backlog.add_waiting([LONG, WaitingMessage("1", is_refused=True)])
    assert take(SHORT, TEXT, backlog=backlog) == "-+"


def test_what_is_counted_is_read_from_the_message():
    forwarded = {"forward_origin": {"type": "user"}, "caption": "é"}
    photo = {"photo": [{"file_id": "p"}]}
    assert build_waiting_message(forwarded | photo, "1") == WaitingMessage("1", True, 2, has_media=True)
    assert build_waiting_message(photo, "1") == WaitingMessage("1")
    refused = build_waiting_message(forwarded | photo, "1", is_refused=True)
    assert refused == WaitingMessage("1", is_refused=True)
