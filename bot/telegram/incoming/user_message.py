"""Composes the user messages of a turn from raw messages and what came with them; an album is one. Pure.

The entry of message assembly. A raw message with its media (`attachments`) becomes an IncomingMessage;
`attachment_loader` fills in its content, or the reason why it cannot be used; `compose_user_messages` joins
the texts of `prompt_text`, excerpts and transcripts to what the model reads. What could not be used stands
in the prompt as data, and before the answer; if nothing is left to be answered, the sender reads why.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

from bot.agent.prompt import build_data_block
from bot.attachments.excerpts import Excerpt, ExtractedDocument, excerpt_text
from bot.domain import Attachment
from bot.telegram.incoming.attachments import MediaItem
from bot.telegram.incoming.prompt_text import extract_text, format_message
from bot.telegram.incoming.shared_items import describe_shared_item
from bot.translations.translator import ENGLISH, Translator, translatable

NOT_FETCHED = "it was not fetched, for the turn was stopped"

_MAX_NAMED_FILES = 10  # files that are called by name in one line
_MAX_PARTS = 3  # of files, each with a sentence

_NOUNS = {
    "photo": (translatable("your photo"), translatable("{count} of your photos")),
    "picture": (translatable("your picture"), translatable("{count} of your pictures")),
    "file": (translatable("your file"), translatable("{count} of your files")),
    "voice message": (translatable("your voice message"), translatable("{count} of your voice messages")),
    "video message": (translatable("your video message"), translatable("{count} of your video messages")),
    "video": (translatable("your video"), translatable("{count} of your videos")),
    "GIF": (translatable("your GIF"), translatable("{count} of your GIFs")),
}

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
class _MediaText:
    """What of the text that came with a message is read, and what its pages are called."""

    media: MediaItem
    excerpt: Excerpt
    page_noun: str = "page"


@dataclass(frozen=True, slots=True)
class _FormattedMessage:
    """A message as the model reads it."""

    text: str
    media_text: _MediaText | None = None


def compose_user_messages(
    messages: Sequence[IncomingMessage], max_text_bytes: int, translate: Translator = ENGLISH
) -> UserMessages:
    """Compose the messages of a turn; documents and transcripts share about `max_text_bytes` of them."""
    texts_to_share = sum(_has_text_content(message) for message in messages)
    share = max_text_bytes // max(1, texts_to_share)
    texts = []
    attachments = []
    sent_times = []
    media_texts: list[_MediaText] = []
    for album in _group_albums(messages):
        # The pictures of a forwarded album would each say who it is from.
        formatted = [_format_message(message, share) for message in album]
        distinct = dict.fromkeys(message.text for message in formatted)
        texts.append("\n".join(text for text in distinct if text))
        media_texts += [message.media_text for message in formatted if message.media_text is not None]
        attachments.append(
            tuple(_to_attachment(message.content) for message in album if message.content is not None)
        )
        sent_times.append(album[0].sent_at)
    # A name in the reasons might be read as Markdown.
    notes = (describe_unusable(messages, translate, with_names=False), _describe_partial(media_texts))
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
            "I could not use {files}: {reason}.",
            files=_list_media(items, translate, with_names=with_names),
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
    return message.content is not None and _to_attachment(message.content).text is not None


def _to_attachment(content: MediaContent) -> Attachment:
    if isinstance(content, ExtractedDocument):
        return content.stored_attachment
    return content


def _format_message(message: IncomingMessage, max_text_bytes: int) -> _FormattedMessage:
    """Format one message, with what came with it as far as that is text."""
    media = message.media
    content = message.content
    if media is None:
        return _FormattedMessage(format_message(message.raw))
    if content is None:
        reason = message.unusable_reason or NOT_FETCHED
        label = f"{media.label}{_format_duration(media)}"
        block = build_data_block(label, f"({media.noun} not shown to you: {reason})")
        return _FormattedMessage(format_message(message.raw, media_block=block))
    if isinstance(content, ExtractedDocument):
        excerpt = content.build_excerpt(max_text_bytes)
        block = build_data_block(_join_label(media.label, excerpt.part), excerpt.text)
        text = format_message(message.raw, media_block=block)
        return _FormattedMessage(text, _MediaText(media, excerpt, content.page_noun))
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
    return _FormattedMessage(text, _MediaText(media, excerpt))


def _describe_partial(media_texts: Sequence[_MediaText]) -> str:
    """List what was read only in part, a sentence for each part of equal files."""
    by_part: dict[str, list[MediaItem]] = {}
    by_textless_pages: dict[str, list[MediaItem]] = {}
    for text in media_texts:
        if not text.excerpt.is_whole:
            by_part.setdefault(text.excerpt.part, []).append(text.media)
        if text.excerpt.textless_pages:
            pages = _count_pages(text.excerpt.textless_pages, text.page_noun)
            by_textless_pages.setdefault(pages, []).append(text.media)
    return " ".join(
        (
            *_list_parts(by_part, "I read {files} only in part: {part}.", "I read {files} only in part."),
            *_list_parts(
                by_textless_pages,
                "I found no text on {part} of {files}.",
                "I found pages without text in {files}.",
            ),
        )
    )


def _list_parts(files_by_part: Mapping[str, list[MediaItem]], sentence: str, summary: str) -> Iterator[str]:
    """A sentence for each part; the summary if they are many."""
    if len(files_by_part) > _MAX_PARTS:
        yield summary.format(files=_list_files(list(chain.from_iterable(files_by_part.values()))))
        return
    for part, files in files_by_part.items():
        yield sentence.format(part=part, files=_list_files(files))


def _count_pages(count: int, noun: str) -> str:
    return f"one {noun}" if count == 1 else f"{count} {noun}s"


def _list_files(items: Sequence[MediaItem]) -> str:
    """List files, by their names if they are few: as code, since a name may hold Markdown."""
    if len(items) > _MAX_NAMED_FILES:
        nouns = Counter(item.noun for item in items)
    else:
        nouns = Counter(item.noun + _format_name(item) for item in items)
    return ", ".join(_format_media_count(noun, count) for noun, count in nouns.items())


def _format_name(media: MediaItem) -> str:
    if not media.name:
        return ""
    name = media.name.replace("`", "'")
    return f" `{name}`"


def _join_label(label: str, part: str) -> str:
    return f"{label}, {part}" if part else label


def _format_duration(media: MediaItem) -> str:
    if not media.duration_seconds:
        return ""
    return f", {media.duration_seconds} s"


def _list_media(items: Sequence[MediaItem], translate: Translator, *, with_names: bool) -> str:
    with_names = with_names and len(items) <= _MAX_NAMED_FILES
    counts = Counter((item.noun, item.name if with_names else "") for item in items)
    return ", ".join(
        f"{_translate_noun(noun, count, translate)} {name}".rstrip() for (noun, name), count in counts.items()
    )


def _translate_noun(noun: str, count: int, translate: Translator) -> str:
    one, several = _NOUNS[noun]
    if count == 1:
        return translate(one)
    return translate(several, count=count)


def _format_media_count(name: str, count: int) -> str:
    if count == 1:
        return f"your {name}"
    return f"{count} of your {name}s"
