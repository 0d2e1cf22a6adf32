"""Makes the user messages of a turn out of raw messages and what came with them; an album is one. Pure.

What could not be used stands in the prompt as data. If nothing is left to be answered, the person is told
why.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from bot.agent.prompt import build_data_block
from bot.attachments.excerpts import ExtractedDocument, shorten_text
from bot.domain import Attachment
from bot.telegram.incoming import prompt_text as entering
from bot.telegram.incoming.attachments import MediaItem

NOT_FETCHED = "it was not fetched, for the turn was stopped"

_MAX_NAMED_FILES = 10  # files that are called by name in one line

RawMessage = dict[str, Any]
MediaContent = Attachment | ExtractedDocument


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """A raw message sent at `sent`, what came with it, and what was made of that or `why` it cannot be used."""

    raw: RawMessage
    sent_at: float
    media: MediaItem | None = None
    content: MediaContent | None = None
    unusable_reason: str = ""

    @property
    def needs_fetch(self) -> bool:
        """Whether something came that is still to be fetched."""
        return self.media is not None and self.content is None and not self.unusable_reason


@dataclass(frozen=True, slots=True)
class UserMessages:
    """The texts of a turn, what came with each, and when each was sent."""

    texts: tuple[str, ...]
    attachments: tuple[tuple[Attachment, ...], ...]
    sent_times: tuple[float, ...]


def compose_user_messages(messages: Sequence[IncomingMessage], max_text_bytes: int) -> UserMessages:
    """The user messages made of these letters; documents and transcripts share about `room` bytes of them."""
    wordy = sum(one.content is not None and _to_attachment(one.content).text is not None for one in messages)
    share = max_text_bytes // max(1, wordy)
    albums = [list(several) for _, several in groupby(enumerate(messages), key=_get_album_key)]
    texts = []
    came = []
    sent = []
    for album in albums:
        # The pictures of a forwarded album would each say who it is from.
        told = dict.fromkeys(_format_text(one, share) for _, one in album)
        texts.append("\n".join(text for text in told if text))
        came.append(tuple(_to_attachment(one.content) for _, one in album if one.content is not None))
        sent.append(album[0][1].sent_at)
    return UserMessages(tuple(texts), tuple(came), tuple(sent))


def explain_refusal(messages: Sequence[IncomingMessage]) -> str:
    """What the person reads if there is nothing to answer: no word of theirs, and nothing that could be used."""
    if any(one.content is not None or entering.extract_text(one.raw).strip() for one in messages):
        return ""
    return describe_unusable(messages, with_names=True)


def build_preface(messages: Sequence[IncomingMessage]) -> str:
    """What stands before an answer that could not take in all that came."""
    told = describe_unusable(messages, with_names=False)  # names may hold signs of Markdown
    if told:
        return f"({told})\n\n"
    return ""


def describe_unusable(messages: Sequence[IncomingMessage], *, with_names: bool) -> str:
    """What could not be used, in a sentence a reason; `named`: with the names of files."""
    by_reason: dict[str, list[MediaItem]] = {}
    for one in messages:
        if one.media is not None and one.unusable_reason:
            by_reason.setdefault(one.unusable_reason, []).append(one.media)
    return " ".join(
        f"I could not use {_list_media(what, with_names=with_names)}: {why}."
        for why, what in by_reason.items()
    )


def _get_album_key(numbered_message: tuple[int, IncomingMessage]) -> object:
    number, letter = numbered_message
    album = letter.raw.get("media_group_id")
    if isinstance(album, str):
        return album
    return number


def _to_attachment(content: MediaContent) -> Attachment:
    if isinstance(content, ExtractedDocument):
        return content.stored_attachment
    return content


def _format_text(message: IncomingMessage, max_text_bytes: int) -> str:
    """The text of one message, with what came with it as far as that is text."""
    enclosure = message.media
    found = message.content
    if enclosure is None:
        return entering.format_message(message.raw)
    if found is None:
        block = build_data_block(
            enclosure.label, f"({enclosure.noun} not shown to you: {message.unusable_reason or NOT_FETCHED})"
        )
        return entering.format_message(message.raw, media_block=block)
    if isinstance(found, ExtractedDocument):
        label, text = found.build_excerpt(max_text_bytes)
        return entering.format_message(
            message.raw, media_block=build_data_block(enclosure.label + label, text)
        )
    if found.text is None:
        return entering.format_message(message.raw)
    return _format_transcript(message.raw, enclosure, found.text, max_text_bytes)


def _format_transcript(raw: RawMessage, media: MediaItem, transcript: str, max_text_bytes: int) -> str:
    """The text of a message with sound: what people say themselves are their words, what they send is data."""
    text = shorten_text(transcript, max_text_bytes)
    length = f", {media.duration_seconds} s" if media.duration_seconds else ""
    if len(text) < len(transcript):
        part = f", first {len(text):,} of {len(transcript):,} characters"
    else:
        part = ""
    if media.is_own_voice:
        spoken = f"[transcript of a {media.noun}{length}{part}] {text}"
        return entering.format_message(raw, transcript=spoken)
    return entering.format_message(
        raw, media_block=build_data_block(f"{media.label}, transcript{length}{part}", text)
    )


def _list_media(items: Sequence[MediaItem], *, with_names: bool) -> str:
    counts = Counter(
        one.label if with_names and len(items) <= _MAX_NAMED_FILES else one.noun for one in items
    )
    return ", ".join(
        f"your {word}" if count == 1 else f"{count} of your {word}s" for word, count in counts.items()
    )
