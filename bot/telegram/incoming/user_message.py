"""Makes the user messages of a turn out of raw messages and what came with them; an album is one. Pure.

What could not be used stands in the prompt as data. If nothing is left to be answered, the person is told
why.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from bot.agent.prompt import data_block
from bot.attachments.excerpts import Document, shortened
from bot.domain import Attachment
from bot.telegram.incoming import prompt_text as entering
from bot.telegram.incoming.attachments import Enclosure

NOT_FETCHED = "it was not fetched, for the turn was stopped"

_NAMES = 10  # files that are called by name in one line

Raw = dict[str, Any]
Found = Attachment | Document


@dataclass(frozen=True, slots=True)
class Letter:
    """A raw message sent at `sent`, what came with it, and what was made of that or `why` it cannot be used."""

    message: Raw
    sent: float
    enclosure: Enclosure | None = None
    found: Found | None = None
    why: str = ""

    @property
    def wanting(self) -> bool:
        """Whether something came that is still to be fetched."""
        return self.enclosure is not None and self.found is None and not self.why


@dataclass(frozen=True, slots=True)
class Composed:
    """The texts of a turn, what came with each, and when each was sent."""

    texts: tuple[str, ...]
    attachments: tuple[tuple[Attachment, ...], ...]
    sent: tuple[float, ...]


def compose(letters: Sequence[Letter], room: int) -> Composed:
    """The user messages made of these letters; documents and transcripts share about `room` bytes of them."""
    wordy = sum(one.found is not None and _kept(one.found).text is not None for one in letters)
    share = room // max(1, wordy)
    albums = [list(several) for _, several in groupby(enumerate(letters), key=_album)]
    texts = []
    came = []
    sent = []
    for album in albums:
        # The pictures of a forwarded album would each say who it is from.
        told = dict.fromkeys(_told(one, share) for _, one in album)
        texts.append("\n".join(text for text in told if text))
        came.append(tuple(_kept(one.found) for _, one in album if one.found is not None))
        sent.append(album[0][1].sent)
    return Composed(tuple(texts), tuple(came), tuple(sent))


def refused(letters: Sequence[Letter]) -> str:
    """What the person reads if there is nothing to answer: no word of theirs, and nothing that could be used."""
    if any(one.found is not None or entering.said(one.message).strip() for one in letters):
        return ""
    return complaint(letters, named=True)


def preface(letters: Sequence[Letter]) -> str:
    """What stands before an answer that could not take in all that came."""
    told = complaint(letters, named=False)  # names may hold signs of Markdown
    if told:
        return f"({told})\n\n"
    return ""


def complaint(letters: Sequence[Letter], *, named: bool) -> str:
    """What could not be used, in a sentence a reason; `named`: with the names of files."""
    by_reason: dict[str, list[Enclosure]] = {}
    for one in letters:
        if one.enclosure is not None and one.why:
            by_reason.setdefault(one.why, []).append(one.enclosure)
    return " ".join(
        f"I could not use {_listed(what, named=named)}: {why}." for why, what in by_reason.items()
    )


def _album(numbered: tuple[int, Letter]) -> object:
    number, letter = numbered
    album = letter.message.get("media_group_id")
    if isinstance(album, str):
        return album
    return number


def _kept(found: Found) -> Attachment:
    if isinstance(found, Document):
        return found.kept
    return found


def _told(letter: Letter, room: int) -> str:
    """The text of one message, with what came with it as far as that is text."""
    enclosure = letter.enclosure
    found = letter.found
    if enclosure is None:
        return entering.entered(letter.message)
    if found is None:
        block = data_block(
            enclosure.label, f"({enclosure.word} not shown to you: {letter.why or NOT_FETCHED})"
        )
        return entering.entered(letter.message, block=block)
    if isinstance(found, Document):
        label, text = found.excerpt(room)
        return entering.entered(letter.message, block=data_block(enclosure.label + label, text))
    if found.text is None:
        return entering.entered(letter.message)
    return _heard(letter.message, enclosure, found.text, room)


def _heard(message: Raw, enclosure: Enclosure, transcript: str, room: int) -> str:
    """The text of a message with sound: what people say themselves are their words, what they send is data."""
    text = shortened(transcript, room)
    length = f", {enclosure.seconds} s" if enclosure.seconds else ""
    if len(text) < len(transcript):
        part = f", first {len(text):,} of {len(transcript):,} characters"
    else:
        part = ""
    if enclosure.own:
        spoken = f"[transcript of a {enclosure.word}{length}{part}] {text}"
        return entering.entered(message, spoken=spoken)
    return entering.entered(message, block=data_block(f"{enclosure.label}, transcript{length}{part}", text))


def _listed(what: Sequence[Enclosure], *, named: bool) -> str:
    counts = Counter(one.label if named and len(what) <= _NAMES else one.word for one in what)
    return ", ".join(
        f"your {word}" if count == 1 else f"{count} of your {word}s" for word, count in counts.items()
    )
