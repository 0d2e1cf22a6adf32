"""The calls that send files: a photo, document, voice or album; each returns an outcome, never raises."""

from collections.abc import Awaitable, Sequence
from typing import Any

from telegram import Bot, InputFile, InputMediaDocument, InputMediaPhoto, Message, ReplyParameters
from telegram.error import TelegramError

from bot.domain import FileKind, Lane, OutgoingFile, Part
from bot.telegram.client import UNREADABLE_ANSWER_ERRORS, UPLOAD_TIMEOUT_SECONDS
from bot.telegram.outcomes import DeliveryOutcome, DeliverySuccess, UnknownDelivery, classify_error


class FileClient:
    """Sends files by one bot: by Telegram's id where it has one, else their bytes."""

    def __init__(self, bot: Bot) -> None:
        self._bot = bot

    async def send_files(
        self,
        lane: Lane,
        part: Part,
        files: Sequence[OutgoingFile],
        kind: FileKind,
        reply_to: int | None = None,
    ) -> DeliveryOutcome:
        """Send files of a kind with the part's text as their caption: one message, or an album.

        Must not be repeated when the outcome is unknown.
        """
        try:
            messages = await self._start_call(lane, part, files, kind, reply_to)
            return DeliverySuccess(messages[0].message_id, tuple(map(_get_file_id, messages)))
        except TelegramError as error:
            return classify_error(error)
        except (*UNREADABLE_ANSWER_ERRORS, IndexError) as error:
            return UnknownDelivery(repr(error))

    async def _start_call(
        self,
        lane: Lane,
        part: Part,
        files: Sequence[OutgoingFile],
        kind: FileKind,
        reply_to: int | None,
    ) -> tuple[Message, ...]:
        options: dict[str, Any] = {
            "message_thread_id": lane.topic,
            "disable_notification": part.silent,
            "caption": part.text or None,
            "read_timeout": UPLOAD_TIMEOUT_SECONDS,
        }
        if reply_to is not None:
            options["reply_parameters"] = ReplyParameters(reply_to, allow_sending_without_reply=True)
        if len(files) > 1:
            media = [_build_media(file, kind) for file in files]
            return await self._bot.send_media_group(lane.chat, media, **options)
        call: Awaitable[Message]
        if kind == "photo":
            call = self._bot.send_photo(lane.chat, _build_upload(files[0]), **options)
        elif kind == "voice":
            call = self._bot.send_voice(lane.chat, _build_upload(files[0]), **options)
        else:
            call = self._bot.send_document(
                lane.chat, _build_upload(files[0]), disable_content_type_detection=True, **options
            )
        return (await call,)


def _build_media(file: OutgoingFile, kind: FileKind) -> InputMediaPhoto | InputMediaDocument:
    if kind == "photo":
        return InputMediaPhoto(_build_upload(file))
    return InputMediaDocument(_build_upload(file), disable_content_type_detection=True)


def _build_upload(file: OutgoingFile) -> InputFile | str:
    if file.file_id is not None:
        return file.file_id
    assert file.data is not None
    return InputFile(file.data, file.name, attach=True)


def _get_file_id(message: Message) -> str:
    if message.photo:
        return message.photo[-1].file_id
    file = message.voice or message.audio or message.document  # Telegram decides what it is
    assert file is not None
    return file.file_id
