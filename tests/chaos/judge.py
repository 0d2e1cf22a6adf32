"""Judges a run by what people saw: which answers are lost, doubled, out of order, half shown. Pure.

A breach is what the gateway promises not to do. What looks odd and keeps the promises is told as well, with
its reason: mostly a send of unknown outcome, about which the chat was asked.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

from tests.chaos import row_judge
from tests.chaos.anomaly import Anomaly
from tests.chaos.index import JournalIndex, Place
from tests.chaos.journal import InboxRow, Journal, OutboxPart, SeenMessage, StoredJob, TurnRow, WrittenRequest
from tests.chaos.marks import due_word, read_marks

STOP_BUTTON = "⏹ Stop"
FAILURES = frozenset({"away", "refused", "empty", "cut"})  # how a turn may end when the endpoint fails
VOICE_MISSING = "I couldn't use your voice message: Telegram"
DROPPED = "dropped by the person"


def judge(journal: Journal) -> list[Anomaly]:
    """Everything odd in a run, breaches first."""
    index = JournalIndex(journal)
    anomalies = chain(
        *(judge_request(index, request) for request in journal.requests),
        *(judge_job(index, job) for job in journal.jobs),
        *(judge_message(index, message) for message in journal.messages),
        judge_order(index),
        judge_tools(index),
        row_judge.judge_rows(index),
    )
    return sorted(anomalies, key=lambda anomaly: not anomaly.is_breach)


def judge_request(index: JournalIndex, request: WrittenRequest) -> Iterator[Anomaly]:
    """Whether a message is answered once and whole, or told why not."""
    item = index.items_by_update.get(request.update_id)
    subject = f"message {request.number:05} ({request.kind})"
    near = index.describe_near(request.chat, request.written_at)
    if item is None:
        yield Anomaly("lost", request.chat, f"{subject}: its update was never stored; {near}")
        return
    if request.kind == "voice" and _is_file_missing(index, request, item):
        yield Anomaly("failed, said", request.chat, f"{subject}: Telegram gave no file, and the chat says so")
    elif request.words and not request.may_be_stopped:
        yield from _judge_missing(index, request.chat, request.words, item, subject)
    elif not _is_replied_to(index, item):
        yield from _explain_missing(index, request.chat, (), item, f"{subject}: nothing came")
    yield from _judge_copies(index, request.chat, request.words, subject)
    yield from _judge_word_order(index, request, subject)
    if request.number not in index.jobs and _has_promised_job(index, request):
        yield Anomaly(
            "lost", request.chat, f"{subject}: it was promised for later, and is not stored; {near}"
        )


def _is_file_missing(index: JournalIndex, request: WrittenRequest, item: InboxRow) -> bool:
    """Whether nobody could hear what was said, for Telegram did not give the file, and the chat says so."""
    parts = [part for part in index.list_parts(item) if VOICE_MISSING in (part.text or "")]
    is_said = any(index.is_shown(part) or index.is_said(part) for part in parts)
    is_heard = index.places.get((request.chat, request.words[0]))
    last_moment = max([request.written_at, *(part.made_at for part in parts)])
    has_cause = any(
        index.has_between(request.written_at, last_moment, fault) for fault in ("getFile", "Telegram away")
    )
    return is_said and has_cause and not is_heard


def _has_promised_job(index: JournalIndex, request: WrittenRequest) -> bool:
    """Whether the chat, or the model, was told that something is going to be done later."""
    if request.kind == "remind":
        return bool(index.places.get((request.chat, request.words[0])))
    runs = index.journal.tool_runs
    return any(
        run.number == request.number and run.name == "schedule" and run.outcome == "ok" for run in runs
    )


def judge_job(index: JournalIndex, job: StoredJob) -> Iterator[Anomaly]:
    """Whether a reminder or a task that is due came once."""
    item = next((row for row in index.journal.inbox if row.job == job.id), None)
    request = index.requests.get(job.number)
    chat = request.chat if request else 0
    subject = f"{job.kind} {job.number:05}"
    if item is None:
        yield Anomaly("lost", chat, f"{subject}: it never came due")
        return
    words = (due_word(job.number),)
    yield from _judge_missing(index, chat, words, item, subject)
    yield from _judge_copies(index, chat, words, subject)


def _judge_missing(
    index: JournalIndex, chat: int, words: tuple[str, ...], item: InboxRow, subject: str
) -> Iterator[Anomaly]:
    """Whether all marks are seen."""
    missing = tuple(word for word in words if not index.places.get((chat, word)))
    if missing:
        what = f"{subject}: {len(missing)} of its {len(words)} marks are not shown, from {missing[0]}"
        yield from _explain_missing(index, chat, missing, item, what)


def _judge_copies(index: JournalIndex, chat: int, words: tuple[str, ...], subject: str) -> Iterator[Anomaly]:
    """Whether no mark is seen more often than was asked for.

    It may stand in one message that a row knows, in the copies that were asked for, and in a message of each
    first send that was in doubt.
    """
    for word in words:
        message_ids = [message_id for message_id, _ in index.places.get((chat, word), ())]
        if len(message_ids) < 2:
            continue
        text = f"{subject}: {word} stands in messages {', '.join(map(str, message_ids))}"
        near = index.describe_near(chat, index.messages[message_ids[-1]].sent_at)
        known = [index.parts_by_message[id_] for id_ in message_ids if id_ in index.parts_by_message]
        is_unasked = [part for part in known if part.copy_of and not _is_requested(index, part)]
        originals = [part for part in known if not part.copy_of]
        doubts = _count_doubts(index, [index.messages[message_id] for message_id in message_ids])
        if is_unasked or len(originals) > 1 or len(message_ids) - len(known) > doubts:
            yield Anomaly("doubled", chat, f"{text}; nobody asked for that; {near}")
        else:
            yield Anomaly("twice after a doubt", chat, f"{text}; a first send was in doubt; {near}")
        return  # its other marks stand there as well


def _is_requested(index: JournalIndex, part: OutboxPart) -> bool:
    """Whether somebody tapped on the button that makes this copy."""
    return f"again:{part.copy_of}" in index.tapped_data


def _count_doubts(index: JournalIndex, messages: Sequence[SeenMessage]) -> int:
    """How many rows of unknown outcome these messages may be of."""
    parts = (part for message in messages for part in _list_related_parts(index, message))
    return len({part.id for part in parts if part.state == "unknown"})


def _is_replied_to(index: JournalIndex, item: InboxRow) -> bool:
    """Whether anything came for an item: a message, or a question about it."""
    parts = index.list_parts(item)
    return any(index.is_shown(part) or index.is_said(part) for part in parts)


def _explain_missing(
    index: JournalIndex, chat: int, missing: Sequence[str], item: InboxRow, what: str
) -> Iterator[Anomaly]:
    """Why marks are missing, or any reply: a doubt or a failure that was said, a /stop; else it is lost.

    What became of a row that is in doubt, or was refused, and of an item that was set aside, is told with it.
    """
    turn = index.find_turn(item)
    parts = index.list_parts(item)
    if missing and all(_is_in_doubt(index, chat, word) for word in missing):
        return
    if item.state == "dead" or any(part.state == "failed" for part in parts):
        return
    if _is_stopped(index, chat, item, turn):
        return
    if turn is not None and turn.ending != "answered" and _is_replied_to(index, item):
        yield _judge_failure(index, chat, turn, what)
        return
    states = ", ".join(f"row {part.id} {part.state}" for part in parts) or "no row"
    near = index.describe_near(chat, turn.began_at) if turn else "it had no turn"
    yield Anomaly("lost", chat, f"{what}; inbox row {item.id} {item.state}, {states}; {near}")


def _is_in_doubt(index: JournalIndex, chat: int, word: str) -> bool:
    """Whether the chat was asked about a row with this mark."""
    parts = index.parts_by_word.get((chat, word), ())
    return any(part.state == "unknown" and index.is_said(part) for part in parts)


def _judge_failure(index: JournalIndex, chat: int, turn: TurnRow, what: str) -> Anomaly:
    """Whether a turn without an answer had a reason to fail."""
    faults = [
        disturbance.name
        for disturbance in index.journal.disturbances
        if disturbance.is_endpoint_fault
        and disturbance.started_at <= (turn.ended_at or turn.began_at)
        and disturbance.ended_at >= turn.began_at
    ]
    text = f"{what}; its turn ended as {turn.ending}, and the chat says so"
    if faults and turn.ending in FAILURES:
        return Anomaly("failed, said", chat, f"{text}; {', '.join(faults[-3:])}")
    return Anomaly("failed without a cause", chat, f"{text}; {len(faults)} faults of the endpoint then")


def _is_stopped(index: JournalIndex, chat: int, item: InboxRow, turn: TurnRow | None) -> bool:
    """Whether a /stop of this chat ended the turn, or dropped the message."""
    is_ended = item.error == DROPPED or (turn is not None and turn.ending == "stopped")
    return is_ended and any(stopped_chat == chat for stopped_chat, _ in index.journal.stops)


def judge_order(index: JournalIndex) -> Iterator[Anomaly]:
    """Whether the answers of a chat stand in the order of its messages."""
    answers = defaultdict[int, list[tuple[WrittenRequest, Place]]](list)
    for request in sorted(index.journal.requests, key=lambda request: request.number):
        places = index.places.get((request.chat, request.words[0])) if request.words else None
        if places and request.is_ordered and not _has_waited(index, request):
            answers[request.chat].append((request, places[0]))
    for chat_answers in answers.values():
        yield from _judge_chat_order(index, chat_answers)


def _judge_chat_order(
    index: JournalIndex, answers: Sequence[tuple[WrittenRequest, Place]]
) -> Iterator[Anomaly]:
    lowest_certain = (0, 0)
    for position, (request, place) in enumerate(answers):
        later = next((other for other in answers[position + 1 :] if other[1] < place), None)
        is_certain = not _has_unknown_part(index, request)
        if is_certain and place < lowest_certain:
            near = index.describe_near(request.chat, index.messages[place[0]].sent_at)
            text = f"the answer to message {request.number:05} ({request.kind}) is message {place[0]}"
            above = f"that to an earlier one is message {lowest_certain[0]}"
            yield Anomaly("out of order", request.chat, f"{text}, {above}; {near}")
        elif not is_certain and later is not None:
            text = f"the answer to message {request.number:05} is message {place[0]}"
            below = f"below that to {later[0].number:05}, message {later[1][0]}"
            yield Anomaly("lower after Send again", request.chat, f"{text}, {below}; its send was in doubt")
        if is_certain:
            lowest_certain = max(lowest_certain, place)


def _has_waited(index: JournalIndex, request: WrittenRequest) -> bool:
    """Whether its turn waited for a person, and let later messages go first."""
    turn = index.find_turn(index.items_by_update.get(request.update_id))
    return turn is not None and turn.id in index.asked_turns


def _has_unknown_part(index: JournalIndex, request: WrittenRequest) -> bool:
    item = index.items_by_update.get(request.update_id)
    parts = [*index.list_parts(item)] if item else []
    for word in (request.words[0], request.words[-1]):
        parts += index.parts_by_word.get((request.chat, word), ())
    return any(part.state == "unknown" or part.copy_of is not None for part in parts)


def _judge_word_order(index: JournalIndex, request: WrittenRequest, subject: str) -> Iterator[Anomaly]:
    """Whether the marks of one answer stand in their order, where none of it was in doubt."""
    if not request.words or _has_unknown_part(index, request):
        return
    places = [
        index.places[request.chat, word][0]
        for word in request.words
        if index.places.get((request.chat, word))
    ]
    if places != sorted(places):
        yield Anomaly("out of order", request.chat, f"{subject}: the pieces of its answer are not in order")


def judge_message(index: JournalIndex, message: SeenMessage) -> Iterator[Anomaly]:
    """Whether a message that is visible at the end is whole."""
    words = [mark.word for mark in read_marks(message.text)]
    for word in index.journal.forbidden.intersection(words):
        yield Anomaly(
            "answered without request", message.chat, f"message {message.message_id} answers {word}, an edit"
        )
    part = index.parts_by_message.get(message.message_id)
    near = index.describe_near(message.chat, message.sent_at)
    what = f"message {message.message_id} ({' … '.join(dict.fromkeys([*words[:1], *words[-1:]]))})"
    if part is not None:
        stored = [mark.word for mark in read_marks(part.text or "")]
        has_stop = STOP_BUTTON in message.buttons and STOP_BUTTON not in part.buttons
        if (words != stored or has_stop) and part.state != "failed":
            yield Anomaly(
                "half shown",
                message.chat,
                f"{what}: row {part.id} ({part.state}) has {len(stored)} marks, the chat shows {len(words)}"
                f"{', and a Stop button' if has_stop else ''}; {near}",
            )
        return
    if words:
        yield from _judge_stray(index, message, words, f"{what}; {near}")
    elif STOP_BUTTON in message.buttons:
        yield Anomaly("status line left", message.chat, f"{what} {message.text[:40]!r}; {near}")


def _judge_stray(index: JournalIndex, message: SeenMessage, words: list[str], what: str) -> Iterator[Anomaly]:
    """Whether a message that no row knows is one of unknown outcome that the chat was asked about."""
    candidates = [part for part in _list_related_parts(index, message) if part.state == "unknown"]
    if not candidates:
        yield Anomaly("half shown", message.chat, f"{what}; no row knows it, and nobody was asked about it")
        return
    wholes = [[mark.word for mark in read_marks(part.text or "")] for part in candidates]
    if words not in wholes:
        yield Anomaly(
            "half shown, said",
            message.chat,
            f"{what}; it shows {len(words)} marks; its first send (row {candidates[0].id}) was in doubt, "
            "so nobody knows its id; the chat was asked",
        )


def _list_related_parts(index: JournalIndex, message: SeenMessage) -> Iterator[OutboxPart]:
    """The rows that answer what a message shows marks of, and those that have such marks."""
    marks = read_marks(message.text)
    for number in {mark.number for mark in marks}:
        request = index.requests.get(number)
        item = index.items_by_update.get(request.update_id) if request else None
        if item is not None:
            yield from index.list_parts(item)
    for mark in marks:
        yield from index.parts_by_word.get((message.chat, mark.word), ())


def judge_tools(index: JournalIndex) -> Iterator[Anomaly]:
    """Whether tools that may not run twice ran at most once, and one that asks only when it was allowed."""
    runs = {(run.name, run.number): run for run in index.journal.tool_runs}
    for request in index.journal.requests:
        count = index.journal.bells.get(request.number, 0)
        subject = f"message {request.number:05}: {request.kind} took effect {count} times"
        run = runs.get((request.kind, request.number))
        outcome = run.outcome if run else None
        if request.kind in {"ring", "toll"} and count > 1:
            yield Anomaly("tool repeated", request.chat, f"{subject}; its outcome is {outcome}")
        if request.kind == "ring" and count == 0 and outcome == "ok":
            yield Anomaly("lost", request.chat, f"{subject}, though its outcome is ok")
        if request.kind == "toll" and count and not _is_allowed(index, request):
            yield Anomaly("tool without approval", request.chat, f"{subject}; nobody allowed it")
    for note, count in Counter(index.journal.notes).items():
        if count > 1:
            yield Anomaly("tool repeated", 0, f"{note!r} was remembered {count} times")


def _is_allowed(index: JournalIndex, request: WrittenRequest) -> bool:
    return any(
        tap.chat == request.chat and tap.button == "Allow once" and f"/{request.number:05}" in tap.text
        for tap in index.journal.taps
    )
