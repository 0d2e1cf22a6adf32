"""The methods that send photos, documents, voice messages and albums, and edit media, strict as Telegram."""

from typing import Any

from bot.sim.telegram.entities import MAX_CAPTION_UNITS, FormattedText
from bot.sim.telegram.files import FileRefusal, StoredFile
from bot.sim.telegram.messages import content_fields, read_formatted, send_new
from bot.sim.telegram.params import Json, Params, bad_request
from bot.sim.telegram.world import World

_MAX_ALBUM = 10
_KINDS = {"photo": "photos", "document": "documents", "voice": "voice notes"}


def send_photo(world: World, params: Params) -> Json:
    return _send_file(world, params, "photo")


def send_document(world: World, params: Params) -> Json:
    return _send_file(world, params, "document")


def send_voice(world: World, params: Params) -> Json:
    """Send a voice message, unless the person's privacy settings forbid it."""
    if not world.find_chat(params).takes_voice:
        raise FileRefusal("VOICE_MESSAGES_FORBIDDEN")
    return _send_file(world, params, "voice")


def _send_file(world: World, params: Params, kind: str) -> Json:
    caption = _check_caption(read_formatted(params, "caption", "caption_entities"))
    file = world.files.read(kind, params, kind)
    (message,) = send_new(world, params, _KINDS[kind], [file.to_fields() | caption])
    return message


def send_media_group(world: World, params: Params) -> list[Json]:
    """Send an album; one item alone is an ordinary message, as in TDLib."""
    items = _read_json(params, "media", "media")
    if items is None:
        raise bad_request('parameter "media" is required')
    if not isinstance(items, list):
        raise bad_request("expected an Array of InputMedia")
    if not items:
        raise bad_request("there are no messages to send")
    captions = [_read_item_caption(item) for item in items]
    files = [_read_album_file(world, params, item, position) for position, item in enumerate(items, 1)]
    if len(files) > _MAX_ALBUM:
        raise bad_request("too many messages to send as an album")
    kinds = {file.kind for file in files}
    if len(kinds) > 1:
        raise bad_request("document can't be mixed with other media types")
    album = {"media_group_id": str(next(world.album_ids))} if len(files) > 1 else {}
    contents = [file.to_fields() | caption | album for file, caption in zip(files, captions, strict=True)]
    return send_new(world, params, _KINDS[kinds.pop()], contents)


def _check_caption(caption: FormattedText) -> Json:
    if caption.units > MAX_CAPTION_UNITS:
        raise bad_request("message caption is too long")
    return content_fields("caption", caption)


def _read_item_caption(item: Any) -> Json:
    if not isinstance(item, dict):
        raise bad_request("can't parse InputMedia: expected an Object")
    return _check_caption(read_formatted(Params(item), "caption", "caption_entities"))


def _read_album_file(world: World, params: Params, item: Json, position: int) -> StoredFile:
    if item.get("type") == "animation":
        raise bad_request("can't parse InputMedia: type \"animation\" can't be used in sendMediaGroup")
    try:
        return _read_item_file(world, params, item)
    except FileRefusal as refusal:
        raise bad_request(
            f'failed to send message #{position} with the error message "{refusal.reason}"'
        ) from None


def _read_item_file(world: World, params: Params, item: Json) -> StoredFile:
    kind = str(item.get("type"))
    if kind not in _KINDS or kind == "voice":
        raise bad_request(f'can\'t parse InputMedia: type "{kind}" is unsupported')
    media = item.get("media")
    if not isinstance(media, str) or not media:
        raise bad_request("can't parse InputMedia: media not found")
    return world.files.read_reference(kind, params, media)


def _read_json(params: Params, name: str, words: str) -> Any:
    try:
        return params.json(name)
    except ValueError:
        raise bad_request(f"can't parse {words} JSON object") from None
