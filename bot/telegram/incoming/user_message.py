"""Composes the user messages of a turn from raw messages and what came with them; an album is one. Pure.

The entry of message assembly. A raw message with its media (`attachments`) becomes an IncomingMessage;
`attachment_loader` fills in its content, or the reason why it cannot be used; `compose_user_messages` joins
the texts of `prompt_text`, excerpts and transcripts to what the model reads. What could not be used stands
in the prompt as data, and before the answer; if nothing is left to be answered, the sender reads why.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from bot.agent.prompt import build_data_block
from bot.attachments.excerpts import ExtractedDocument, excerpt_text
from bot.domain import Attachment
from bot.telegram.incoming.attachments import MediaItem
from bot.telegram.incoming.media_notes import MediaText, describe_frames, describe_partial, list_media
from bot.telegram.incoming.prompt_text import extract_text, format_message
from bot.telegram.incoming.shared_items import describe_shared_item
from bot.translations.translator import ENGLISH, Translator

NOT_FETCHED = "it was not fetched, for the turn was stopped"

_FRAME_SHOWN = "(the picture is one frame of it; you cannot see the rest)"

RawMessage = dict[str, Any]
MediaContent = Attachment | ExtractedDocument


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """A raw message sent at `sent_at`, what came with it, and the content of that once it is loaded.

    `unusable_reason`: why what came with it cannot be used, or "".
    """

    raw: RawMessage
    sent_at: float
    media: MediaItem | None = None
    content: MediaContent | None = None
    unusable_reason: str = ""

    @property
    def needs_fetch(self) -> bool:
        """Whether something came with it that is still to be downloaded."""
        return self.media is not None and self.content is None and not self.unusable_reason


@dataclass(frozen=True, slots=True)
class UserMessages:
    """The texts of a turn, and for each of them its attachments and when it was sent.

    `preface`: what the sender reads before the answer: what was not read, or not all of it; or "".
    """

    texts: tuple[str, ...]
    attachments: tuple[tuple[Attachment, ...], ...]
    sent_times: tuple[float, ...]
    preface: str = ""


@dataclass(frozen=True, slots=True)
class _FormattedMessage:
    """A message as the model reads it."""

    text: str
    media_text: MediaText | None = None


def compose_user_messages(
    messages: Sequence[IncomingMessage], max_text_bytes: int, translate: Translator = ENGLISH
) -> UserMessages:
    """Compose the messages of a turn; documents and transcripts share about `max_text_bytes` of them."""
    texts_to_share = sum(_has_text_content(message) for message in messages)
    share = max_text_bytes // max(1, texts_to_share)
    texts = []
    attachments = []
    sent_times = []
    media_texts: list[MediaText] = []
    for album in _group_albums(messages):
        # The pictures of a forwarded album would each say who it is from.
        formatted = [_format_message(message, share) for message in album]
        distinct = dict.fromkeys(message.text for message in formatted)
        texts.append("\n".join(text for text in distinct if text))
        media_texts += [message.media_text for message in formatted if message.media_text is not None]
        attachments.append(
            tuple(
                attachment
                for message in album
                if message.content is not None
                for attachment in _list_attachments(message.content)
            )
        )
        sent_times.append(album[0].sent_at)
    # A name in the reasons might be read as Markdown.
    notes = (
        describe_unusable(messages, translate, with_names=False),
        describe_partial(media_texts, translate),
        describe_frames(
            [message.media for message in messages if message.media and _is_frame(message)], translate
        ),
    )
    told = " ".join(note for note in notes if note)
    preface = f"({told})\n\n" if told else ""
    return UserMessages(tuple(texts), tuple(attachments), tuple(sent_times), preface)


def explain_refusal(messages: Sequence[IncomingMessage], translate: Translator = ENGLISH) -> str:
    """Explain why there is nothing to answer: no text, and nothing that could be used. "" if there is."""
    if any(message.content is not None or _has_own_text(message.raw) for message in messages):
        return ""
    return describe_unusable(messages, translate, with_names=True)


def _has_own_text(raw: RawMessage) -> bool:
    return bool(extract_text(raw).strip() or describe_shared_item(raw))


def describe_unusable(messages: Sequence[IncomingMessage], translate: Translator, *, with_names: bool) -> str:
    """List what could not be used, a sentence for each reason; `with_names`: with the names of files."""
    by_reason: dict[str, list[MediaItem]] = {}
    for message in messages:
        if message.media is not None and message.unusable_reason:
            by_reason.setdefault(message.unusable_reason, []).append(message.media)
    return " ".join(
        translate(
            "I couldn't use {files}: {reason}.",
            files=list_media(items, translate, with_names=with_names),
            reason=translate(reason),
        )
        for reason, items in by_reason.items()
    )


def _group_albums(messages: Sequence[IncomingMessage]) -> list[list[IncomingMessage]]:
    """Group neighbours that belong to one album; any other message is alone."""
    groups = groupby(enumerate(messages), key=_get_album_key)
    return [[message for _, message in group] for _, group in groups]


def _get_album_key(numbered_message: tuple[int, IncomingMessage]) -> object:
    number, message = numbered_message
    album = message.raw.get("media_group_id")
    if isinstance(album, str):
        return album
    return number


def _has_text_content(message: IncomingMessage) -> bool:
    return message.content is not None and any(
        attachment.text is not None for attachment in _list_attachments(message.content)
    )


def _is_frame(message: IncomingMessage) -> bool:
    return message.media is not None and message.media.kind == "video" and message.content is not None


def _list_attachments(content: MediaContent) -> tuple[Attachment, ...]:
    match content:
        case Attachment():
            return (content,)
        case ExtractedDocument(is_scanned=True):
            return content.pictures
    return (content.stored_attachment, *content.pictures)


def _format_message(message: IncomingMessage, max_text_bytes: int) -> _FormattedMessage:
    """Format one message, with what came with it as far as that is text."""
    media = message.media
    content = message.content
    if media is None:
        return _FormattedMessage(format_message(message.raw))
    if content is None or _is_frame(message):
        reason = message.unusable_reason or NOT_FETCHED
        label = f"{media.label}{_format_duration(media)}"
        shown = _FRAME_SHOWN if content else f"({media.noun} not shown to you: {reason})"
        block = build_data_block(label, shown)
        return _FormattedMessage(format_message(message.raw, media_block=block))
    if isinstance(content, ExtractedDocument):
        excerpt = content.build_excerpt(max_text_bytes)
        block = build_data_block(_join_label(media.label, excerpt.part), excerpt.text)
        text = format_message(message.raw, media_block=block)
        return _FormattedMessage(text, MediaText(media, excerpt, content.page_noun, content.is_scanned))
    if content.text is None:
        return _FormattedMessage(format_message(message.raw))
    return _format_transcript(message.raw, media, content.text, max_text_bytes)


def _format_transcript(
    raw: RawMessage, media: MediaItem, transcript: str, max_text_bytes: int
) -> _FormattedMessage:
    """Format a message with sound: what people say themselves is their text, what they send is data."""
    excerpt = excerpt_text(transcript, max_text_bytes)
    details = _join_label(_format_duration(media), excerpt.part)
    if media.is_own_voice:
        words = f"[transcript of a {media.noun}{details}] {excerpt.text}"
        text = format_message(raw, transcript=words)
    else:
        block = build_data_block(f"{media.label}, transcript{details}", excerpt.text)
        text = format_message(raw, media_block=block)
    return _FormattedMessage(text, MediaText(media, excerpt))


def _join_label(label: str, part: str) -> str:
    return f"{label}, {part}" if part else label


def _format_duration(media: MediaItem) -> str:
    if not media.duration_seconds:
        return ""
    return f", {media.duration_seconds} s"
