"""The judge of chaos runs finds each kind of breach in a made journal, and none in a sound one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from bot.db.queues.outbox import SENT_AGAIN_TEXT, UNSURE_TEXT
from bot.queue.dead_letters import DEAD_LETTER_NOTICE
from tests.chaos.anomaly import BREACHES, EXPLAINED
from tests.chaos.journal import (
    ButtonTap,
    Disturbance,
    InboxRow,
    Journal,
    OutboxPart,
    SeenMessage,
    StoredJob,
    ToolRun,
    TurnRow,
    WrittenRequest,
)
from tests.chaos.judge import STOP_BUTTON, judge
from tests.chaos.marks import answer_words, read_marks

CHAT = 100
ADMIN = 7
FIRST, SECOND, THIRD = "B00001 E00001", "B00002 E00002", "B00003 E00003"
REMINDER = "⏰ tea R00002"


def make_part(row: int, text: str | None, state: str = "done", **values: Any) -> OutboxPart:
    """A row of the outbox; it answers the inbox row of its number, in a message of ten times that number."""
    message_id = 10 * row if state == "done" else None
    defaults = {"item": row, "message_id": message_id, "made_at": 1000.0 + row}
    return OutboxPart(
        row,
        **{"chat": CHAT, "text": text, "is_final": True, "buttons": (), "state": state, **defaults, **values},
    )


def see(message_id: int, text: str, *buttons: str) -> SeenMessage:
    return SeenMessage(CHAT, message_id, text, 1000.0 + message_id / 10, buttons)


def ask(row: int, about: int, text: str = UNSURE_TEXT) -> OutboxPart:
    """The question about a row of unknown outcome."""
    return make_part(row, text, item=None, about=about)


def make_journal(parts: Sequence[OutboxPart], messages: Sequence[SeenMessage], **values: Any) -> Journal:
    """Three messages in one chat, each with a turn of its own."""
    defaults = {
        "requests": tuple(
            WrittenRequest(
                number, CHAT, "plain", 500 + number, 1000.0 + number, answer_words("plain", number)
            )
            for number in (1, 2, 3)
        ),
        "inbox": tuple(InboxRow(number, 500 + number, str(CHAT), "done", number) for number in (1, 2, 3)),
        "turns": tuple(TurnRow(n, n, "done", "answered", 1000.0 + n, 1001.0 + n) for n in (1, 2, 3)),
    }
    return Journal(outbox=tuple(parts), messages=tuple(messages), **{**defaults, **values})


ANSWERED = make_journal(
    [make_part(1, FIRST), make_part(2, SECOND), make_part(3, THIRD)],
    [see(10, FIRST), see(20, SECOND), see(30, THIRD)],
)


def change_row(journal: Journal, row: int, **values: Any) -> Journal:
    """The journal with a row of the outbox changed."""
    parts = (replace(part, **values) if part.id == row else part for part in journal.outbox)
    return replace(journal, outbox=tuple(parts))


def change_message(journal: Journal, message_id: int, **values: Any) -> Journal:
    """The journal with a message changed."""
    messages = (
        replace(message, **values) if message.message_id == message_id else message
        for message in journal.messages
    )
    return replace(journal, messages=tuple(messages))


def add(journal: Journal, **values: tuple[Any, ...]) -> Journal:
    """The journal with more of something."""
    return replace(journal, **{name: getattr(journal, name) + more for name, more in values.items()})


def drop_message(journal: Journal, message_id: int) -> Journal:
    kept = (message for message in journal.messages if message.message_id != message_id)
    return replace(journal, messages=tuple(kept))


def put_in_doubt(journal: Journal, *, row: int = 2) -> Journal:
    """The first send of a row has no known outcome, and nobody was asked yet."""
    return change_row(journal, row, state="unknown", message_id=None, error="it was cut")


def say_doubt(journal: Journal, text: str = UNSURE_TEXT) -> Journal:
    return add(journal, outbox=(ask(4, 2, text),), messages=(see(40, text),))


def send_again(journal: Journal, *, is_tapped: bool) -> Journal:
    """The second answer came again below, with a tap or without."""
    copied = add(
        say_doubt(journal, SENT_AGAIN_TEXT),
        outbox=(make_part(5, SECOND, item=None, copy_of=2),),
        messages=(see(50, SECOND),),
    )
    taps = (ButtonTap(CHAT, UNSURE_TEXT, "Send again", "again:2"),) if is_tapped else ()
    return replace(copied, taps=taps)


def use_tool(name: str, count: int, outcome: str = "ok", taps: tuple[ButtonTap, ...] = ()) -> Journal:
    """The second message used a tool, which took effect so many times."""
    requests = (ANSWERED.requests[0], replace(ANSWERED.requests[1], kind=name), ANSWERED.requests[2])
    return replace(
        ANSWERED,
        requests=requests,
        tool_runs=(ToolRun(2, 2, name, outcome),),
        bells={2: count},
        taps=taps,
    )


def remind(*message_ids: int) -> Journal:
    """The second message was a /remind, which came due, and is shown in these messages."""
    request = replace(ANSWERED.requests[1], kind="remind", words=("R00002",), is_ordered=False)
    confirmed = change_row(
        change_message(ANSWERED, 20, text="⏰ I'll remind you: R00002"), 2, text="⏰ I remind you: R00002"
    )
    return add(
        replace(
            confirmed,
            requests=(ANSWERED.requests[0], request, ANSWERED.requests[2]),
            jobs=(StoredJob(7, 2, "reminder"),),
        ),
        inbox=(InboxRow(6, None, str(CHAT), "done", job=7),),
        outbox=tuple(make_part(6, REMINDER, message_id=message_id) for message_id in message_ids[:1]),
        messages=tuple(see(message_id, REMINDER) for message_id in message_ids),
    )


def fail_turn(*faults: Disturbance) -> Journal:
    """The second turn ended without an answer, and says so."""
    told = change_message(change_row(ANSWERED, 2, text="Send /retry."), 20, text="Send /retry.")
    turns = (ANSWERED.turns[0], replace(ANSWERED.turns[1], ending="away"), ANSWERED.turns[2])
    return replace(told, turns=turns, disturbances=faults)


def set_aside(error: str) -> Journal:
    """The second message was given up."""
    told = change_message(change_row(ANSWERED, 2, text=DEAD_LETTER_NOTICE), 20, text=DEAD_LETTER_NOTICE)
    inbox = (ANSWERED.inbox[0], replace(ANSWERED.inbox[1], state="dead", error=error), ANSWERED.inbox[2])
    return replace(told, inbox=inbox)


SWAPPED = change_message(change_message(ANSWERED, 20, text=THIRD), 30, text=SECOND)
HALF = put_in_doubt(change_message(ANSWERED, 20, text="B00002"))
DENIED = (ButtonTap(CHAT, "toll http://bell/00002", "Deny", "ask:denied:1"),)
ALLOWED = (ButtonTap(CHAT, "toll http://bell/00002", "Allow once", "ask:once:1"),)
DOUBT = put_in_doubt(drop_message(ANSWERED, 20))

BREACH_CASES = [
    ("lost", drop_message(ANSWERED, 20)),
    ("lost", replace(ANSWERED, inbox=ANSWERED.inbox[:1] + ANSWERED.inbox[2:])),
    ("lost", use_tool("ring", 0)),
    ("lost", remind()),
    ("lost", replace(remind(60), jobs=())),
    ("doubled", add(ANSWERED, outbox=(make_part(4, SECOND),), messages=(see(40, SECOND),))),
    ("doubled", remind(60, 70)),
    ("doubled", send_again(put_in_doubt(ANSWERED), is_tapped=False)),
    ("out of order", change_row(change_row(SWAPPED, 2, text=THIRD), 3, text=SECOND)),
    ("out of order", change_message(change_row(ANSWERED, 2, text="E00002 B00002"), 20, text="E00002 B00002")),
    ("half shown", change_message(ANSWERED, 20, text="B00002")),
    ("half shown", change_message(ANSWERED, 20, buttons=(STOP_BUTTON,))),
    ("half shown", add(ANSWERED, messages=(see(40, "B00002"),))),
    ("tool repeated", use_tool("ring", 2)),
    ("tool repeated", use_tool("toll", 2, taps=ALLOWED)),
    ("tool repeated", replace(ANSWERED, notes=("note 00002", "note 00002"))),
    ("tool without approval", use_tool("toll", 1)),
    ("tool without approval", use_tool("toll", 1, taps=DENIED)),
    ("unknown not said", DOUBT),
    ("unknown not said", add(ANSWERED, outbox=(make_part(4, "I'll do this then.", "unknown", item=None),))),
    ("unknown not said", add(DOUBT, outbox=(ask(4, 2),))),
    ("not finished", change_row(ANSWERED, 2, state="open")),
    ("not finished", replace(ANSWERED, inbox=(*ANSWERED.inbox, InboxRow(9, None, None, "parked")))),
    ("not finished", replace(ANSWERED, turns=(*ANSWERED.turns, TurnRow(9, 9, "running", None, 0.0, None)))),
    ("failed without a cause", fail_turn()),
    ("failed without a cause", fail_turn(Disturbance(990.0, 999.0, "model reset"))),
    ("failed without a cause", set_aside("KeyError")),
    ("failed without a cause", change_row(drop_message(ANSWERED, 20), 2, state="failed", message_id=None)),
    ("answered without request", replace(ANSWERED, forbidden=frozenset({"B00002"}))),
    ("ended by itself", replace(ANSWERED, exit_codes=(1,))),
    ("left behind", replace(ANSWERED, leftovers=("share 3 is held by nobody",))),
]  # fmt: skip

EXPLAINED_CASES = [
    ("unknown, said", say_doubt(DOUBT)),
    ("unknown, said, had arrived", say_doubt(put_in_doubt(ANSWERED))),
    ("twice after a doubt", send_again(put_in_doubt(ANSWERED), is_tapped=True)),
    (
        "twice after a doubt",
        add(
            say_doubt(put_in_doubt(ANSWERED)),
            outbox=(make_part(6, SECOND, item=2),),
            messages=(see(60, SECOND),),
        ),
    ),
    ("lower after Send again", send_again(DOUBT, is_tapped=True)),
    ("half shown, said", say_doubt(HALF)),
    (
        "notice of unknown outcome",
        add(ANSWERED, outbox=(make_part(4, "The model is back.", "unknown", item=None, chat=ADMIN),)),
    ),
    ("status line left", add(ANSWERED, messages=(see(40, "Thinking …", STOP_BUTTON),))),
    ("failed, said", fail_turn(Disturbance(1002.0, 1003.0, "model reset"))),
    ("set aside, said", set_aside("The process ended 10 times while this was handled.")),
    (
        "refused by Telegram",
        replace(
            change_row(drop_message(ANSWERED, 20), 2, state="failed", message_id=None),
            disturbances=(Disturbance(1002.0, 1002.0, "sendMessage refused", CHAT),),
        ),
    ),
]  # fmt: skip


def test_a_sound_run_has_no_anomalies() -> None:
    assert judge(ANSWERED) == []
    assert judge(remind(60)) == []
    assert judge(use_tool("ring", 1)) == []
    assert judge(use_tool("ring", 0, "unknown")) == []
    assert judge(use_tool("toll", 1, taps=ALLOWED)) == []


@pytest.mark.parametrize(("kind", "journal"), BREACH_CASES)
def test_a_breach_is_found(kind: str, journal: Journal) -> None:
    assert kind in [anomaly.kind for anomaly in judge(journal) if anomaly.is_breach]


@pytest.mark.parametrize(("kind", "journal"), EXPLAINED_CASES)
def test_what_keeps_the_promises_is_told_and_no_breach(kind: str, journal: Journal) -> None:
    anomalies = judge(journal)
    assert kind in [anomaly.kind for anomaly in anomalies]
    assert not [str(anomaly) for anomaly in anomalies if anomaly.is_breach]


def test_every_kind_has_a_case() -> None:
    assert {kind for kind, _ in BREACH_CASES} == set(BREACHES)
    assert {kind for kind, _ in EXPLAINED_CASES} == set(EXPLAINED)


def test_an_anomaly_says_what_was_done_to_the_gateway_then() -> None:
    kill = Disturbance(1002.2, 1002.2, "kill -9 edited, before its effect")
    other_chat = Disturbance(1002.0, 1002.0, "sendMessage dropped", CHAT + 1)
    long_ago = Disturbance(900.0, 900.0, "disk full")
    journal = replace(drop_message(ANSWERED, 20), disturbances=(kill, other_chat, long_ago))
    [anomaly] = judge(journal)
    assert str(anomaly) == (
        "BREACH: lost: chat 100: message 00002 (plain): 2 of its 2 marks are not shown, from B00002; "
        "inbox row 2 done, row 2 done; kill -9 edited, before its effect 0.2 s away"
    )


def test_a_stopped_message_may_end_anywhere_but_is_replied_to() -> None:
    requests = (
        ANSWERED.requests[0],
        replace(ANSWERED.requests[1], may_be_stopped=True),
        ANSWERED.requests[2],
    )
    turns = (ANSWERED.turns[0], replace(ANSWERED.turns[1], ending="stopped"), ANSWERED.turns[2])
    text = "B00002 Stopped."
    journal = replace(
        change_message(change_row(ANSWERED, 2, text=text), 20, text=text),
        requests=requests,
        turns=turns,
        stops=((CHAT, 1002.0),),
    )
    assert judge(journal) == []
    silent = replace(drop_message(journal, 20), turns=ANSWERED.turns)
    assert [anomaly.kind for anomaly in judge(silent)] == ["lost"]


def test_later_answers_may_stand_above_that_of_a_turn_that_waited_for_a_person() -> None:
    swapped = change_row(change_row(SWAPPED, 2, text=THIRD), 3, text=SECOND)
    assert judge(replace(swapped, tool_runs=(ToolRun(2, 2, "ring", "ok", was_asked=True),))) == []


def test_one_notice_stands_for_all_messages_that_were_set_aside_together() -> None:
    error = "The process ended 10 times while this was handled."
    dead = (
        InboxRow(number, 500 + number, str(CHAT), "dead", None, error, done_at=9.0) for number in (1, 2, 3)
    )
    notice = make_part(1, DEAD_LETTER_NOTICE)
    journal = make_journal([notice], [see(10, DEAD_LETTER_NOTICE)], inbox=tuple(dead), turns=())
    assert [anomaly.kind for anomaly in judge(journal)] == ["set aside, said"] * 3


def test_a_voice_that_telegram_does_not_give_is_no_loss() -> None:
    requests = (ANSWERED.requests[0], replace(ANSWERED.requests[1], kind="voice"), ANSWERED.requests[2])
    fault = Disturbance(1002.0, 1002.0, "getFile: dropped")
    said = "I couldn't use your voice message: Telegram didn't deliver it."
    for text, disturbances, kind in (
        ("Sorry.", (), "lost"),
        ("Sorry.", (fault,), "lost"),
        (said, (), "lost"),
        (said, (fault,), "failed, said"),
    ):
        deaf = change_message(change_row(ANSWERED, 2, text=text), 20, text=text)
        journal = replace(deaf, requests=requests, disturbances=disturbances)
        assert [anomaly.kind for anomaly in judge(journal)] == [kind]


def test_marks_are_read_from_texts_in_order() -> None:
    assert [mark.word for mark in read_marks("B00012 M00012-003, then E00012.")] == [
        "B00012",
        "M00012-003",
        "E00012",
    ]
    assert [mark.word for mark in read_marks("I don't know /c00007. /help")] == ["/c00007"]
    assert [mark.word for mark in read_marks("⏰ I'll remind you: tea R00003")] == ["R00003"]
    assert [mark.word for mark in read_marks("⏰ tea R00003")] == ["D00003"]
    assert read_marks("B1 XB00012 B000123") == ()
