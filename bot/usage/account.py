"""Where a turn's seconds went: exclusive intervals that cover it whole, and its tokens as the server counted them.

Pure: rows of the ledger in, figures and plain words out. Where work overlaps, canvases count before tools, tools before
Telegram, Telegram before waiting; what nothing claims is the rest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from bot.db.accounts import CallRow, PartRow, TurnRow
from bot.domain import CANVAS

Kind = Literal["first canvas", "further canvases", "tools", "Telegram", "files", "intake", "seat", "back-off", "rest"]
ORDER: tuple[Kind, ...] = get_args(Kind)
"""All kinds, the one that wins where they overlap first."""
EXPLAINED: Mapping[Kind, str] = {
    "first canvas": "the prompt is read and the first 256 tokens are made",
    "further canvases": "the rest of the reply is made, 256 tokens at a time",
    "tools": "tools run",
    "Telegram": "the answer is sent",
    "files": "what came with the message is fetched and read",
    "intake": "the message is stored on disk, then waits until its chat is free",
    "seat": "the call is stored on disk, then waits for a free place at the model",
    "back-off": "a pause before a failed call is made again",
    "rest": "the gateway's own work: prompts, decisions, storing",
}


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasted from `begin` to `end`, in epoch seconds."""

    kind: Kind
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Count:
    """Tokens over several calls: None if no call told, `whole` False if some did not or were cut short."""

    tokens: int | None
    whole: bool


@dataclass(frozen=True, slots=True)
class Account:
    """What one turn took. `seconds` holds every kind that lasted, in ORDER; they add up to `whole`.

    `canvases` is an estimate, ceil(output / 256) a call; `cached` is what the server need not compute of `input`.
    """

    whole: float
    seconds: tuple[tuple[Kind, float], ...]
    calls: int
    input: Count
    cached: Count
    output: Count
    canvases: int | None


def account(turn: TurnRow) -> Account:
    """The account of a delivered turn."""
    end = max([turn.ended_at, *(part.done_at or part.sent_at or turn.ended_at for part in turn.parts)])
    pieces = divided(turn.received_at, end, _spans(turn, end))
    sums = {kind: sum(piece.end - piece.begin for piece in pieces if piece.kind == kind) for kind in ORDER}
    outputs = [call.output_tokens for call in turn.calls if call.output_tokens is not None]
    return Account(
        whole=max(0.0, end - turn.received_at),
        seconds=tuple((kind, seconds) for kind, seconds in sums.items() if seconds > 0),
        calls=len(turn.calls),
        input=_count([call.input_tokens for call in turn.calls]),
        cached=_count([call.cached_tokens for call in turn.calls]),
        # A call that was cut has read its whole prompt; only what it wrote may have gone on.
        output=_count([call.output_tokens for call in turn.calls], cut=any(call.partial for call in turn.calls)),
        canvases=sum(-(-tokens // CANVAS) for tokens in outputs) if outputs else None,
    )


def divided(begin: float, end: float, spans: Iterable[Span]) -> list[Span]:
    """Cut `begin` to `end` into pieces that follow each other without a gap, each of the first kind at work then."""
    inside = [span for span in spans if span.begin < end and span.end > begin and span.begin < span.end]
    cuts = sorted(
        {begin, max(begin, end)} | {cut for span in inside for cut in (span.begin, span.end) if begin < cut < end}
    )
    pieces: list[Span] = []
    for left, right in pairwise(cuts):
        at_work = {span.kind for span in inside if span.begin <= left and span.end >= right}
        kind: Kind = next((kind for kind in ORDER if kind in at_work), "rest")
        if pieces and pieces[-1].kind == kind:
            left = pieces.pop().begin
        pieces.append(Span(kind, left, right))
    return pieces


def in_words(counted: Account) -> str:
    """Calls, tokens and canvases in one line; what the server did not tell is called unknown."""
    if not counted.calls:
        return "no model call"
    calls = "1 model call" if counted.calls == 1 else f"{counted.calls} model calls"
    tokens = f"{_tokens(counted.input)} tokens in ({_share(counted)}) · {_tokens(counted.output)} out"
    if counted.canvases is None:
        return f"{calls} · {tokens} · canvases unknown"
    return f"{calls} · {tokens} · ~{counted.canvases} canvas{'' if counted.canvases == 1 else 'es'} (estimated)"


def _tokens(count: Count) -> str:
    if count.tokens is None:
        return "unknown"
    return f"{'' if count.whole else 'at least '}{count.tokens:,}"


def _share(counted: Account) -> str:
    cached, given = counted.cached, counted.input
    if cached.tokens is None or not given.tokens or not (cached.whole and given.whole):
        return "cached share unknown"
    return f"{100 * cached.tokens / given.tokens:.0f} % cached"


def _count(tokens: Sequence[int | None], *, cut: bool = False) -> Count:
    known = [number for number in tokens if number is not None]
    return Count(sum(known) if known else None, whole=len(known) == len(tokens) and not cut)


def _spans(turn: TurnRow, end: float) -> Iterator[Span]:
    if turn.taken_at is not None:
        yield Span("intake", turn.received_at, turn.taken_at)
        yield Span("files", turn.taken_at, turn.gathered_at or turn.taken_at)
    for call in turn.calls:
        yield from _of_call(call, end)
    for failed, following in pairwise(turn.calls):
        if failed.outcome == "failed" and failed.ended_at is not None:
            yield Span("back-off", failed.ended_at, following.created_at)
    for tool in turn.tools:
        if tool.began_at is not None:
            yield Span("tools", tool.began_at, tool.ended_at or end)
    for part in turn.parts:
        yield from _of_part(part, turn.ended_at)


def _of_call(call: CallRow, end: float) -> Iterator[Span]:
    ended = end if call.ended_at is None else call.ended_at
    # A call that was cut or failed kept the model busy until then; after a whole one only we are at work.
    last = (call.last_block_at or ended) if call.outcome == "ok" else ended
    yield Span("seat", call.created_at, ended if call.seat_at is None else call.seat_at)
    if call.seat_at is not None:
        yield Span("first canvas", call.seat_at, last if call.first_block_at is None else call.first_block_at)
    if call.first_block_at is not None:
        yield Span("further canvases", call.first_block_at, last)


def _of_part(part: PartRow, ended_at: float) -> Iterator[Span]:
    """Sending a message, and making it show its final words once the turn has ended."""
    if part.sent_at is not None:
        yield Span("Telegram", part.made_at, part.sent_at)
        if part.done_at is not None:
            yield Span("Telegram", max(part.sent_at, ended_at), part.done_at)
