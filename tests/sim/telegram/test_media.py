"""Photos, files and albums in the simulated Bot API, through the real client."""

import pytest
from telegram import Bot, InputMediaDocument, InputMediaPhoto
from telegram.error import BadRequest, NetworkError, RetryAfter

from bot.sim.telegram.files import MAX_UPLOAD_BYTES
from bot.sim.telegram.server import FloodLimits, FloodRate
from tests.support.attachment_files import make_image
from tests.support.telegram.server import ScriptedBotApi, ScriptedPerson
from tests.support.telegram_client import build_api, open_bot, open_http, refusal_reason

pytestmark = [
    pytest.mark.filterwarnings("ignore:Please use 'Bot:"),
    pytest.mark.filterwarnings("ignore:.*`retry_after` will be"),
]


@pytest.fixture
def ann(api: ScriptedBotApi) -> ScriptedPerson:
    ann = api.person(1)
    ann.send("hi")
    return ann


async def test_a_photo_goes_out_and_comes_in(bot: Bot, ann: ScriptedPerson):
    sent = ann.send_photo("what?", content=b"\x89PNG")
    file = await bot.get_file(sent.message["photo"][0]["file_id"])
    assert bytes(await file.download_as_bytearray()) == b"\x89PNG"
    assert await refusal_reason(bot.get_file("nowhere")) == "Invalid file_id"
    content = make_image(300, 200, "PNG")
    message = await bot.send_photo(1, content, caption="a" * 1024)
    assert message.caption == "a" * 1024
    assert (message.photo[-1].width, message.photo[-1].height) == (300, 200)
    again = await bot.send_photo(1, message.photo[0].file_id)
    assert again.photo == message.photo
    file = await bot.get_file(again.photo[0])
    assert bytes(await file.download_as_bytearray()) == content
    too_long = bot.send_photo(1, content, caption="😀" * 512 + "x")
    assert await refusal_reason(too_long) == "Message caption is too long"
    assert await refusal_reason(bot.do_api_request("sendPhoto", api_kwargs={"chat_id": 1})) == (
        "There is no photo in the request"
    )


@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "WEBP"])
async def test_a_photo_is_known_by_its_bytes(bot: Bot, ann: ScriptedPerson, image_format: str):
    content = make_image(40, 30, image_format)
    assert (await bot.send_photo(1, content, filename="x.txt")).photo[0].width == 40


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no picture", "Image_process_failed"),
        (make_image(40, 30, "GIF"), "Image_process_failed"),
        (make_image(9_971, 30, "PNG"), "Photo_invalid_dimensions"),
        (make_image(421, 20, "PNG"), "Photo_invalid_dimensions"),
        (
            make_image() + bytes(10 << 20),
            "File of size {size} bytes is too big for a photo; the maximum size is 10485760 bytes",
        ),
    ],
    ids=["text", "gif", "too large", "too narrow", "too heavy"],
)
async def test_what_is_no_photo_goes_only_as_a_document(
    bot: Bot, ann: ScriptedPerson, content: bytes, reason: str
):
    assert await refusal_reason(bot.send_photo(1, content)) == reason.format(size=len(content))
    message = await bot.send_document(1, content, filename="Übersicht 😀.png")
    assert message.document is not None
    assert (message.document.file_name, message.document.mime_type) == ("Übersicht 😀.png", "image/png")
    assert message.document.file_size == len(content)


async def test_a_document_has_fifty_megabytes_at_most_and_is_not_empty(bot: Bot, ann: ScriptedPerson):
    await bot.send_document(1, bytes(MAX_UPLOAD_BYTES), filename="fits.bin")
    with pytest.raises(NetworkError, match="Request Entity Too Large"):
        await bot.send_document(1, bytes(MAX_UPLOAD_BYTES + 1), filename="large.bin")
    empty = bot.send_document(1, b"", filename="empty.txt")
    assert await refusal_reason(empty) == "File must be non-empty"


async def test_a_file_id_is_of_one_kind(bot: Bot, ann: ScriptedPerson):
    message = await bot.send_document(1, b"text", filename="a.txt", caption="look")
    assert message.document is not None
    again = await bot.send_document(1, message.document.file_id)
    assert (again.document, again.caption) == (message.document, None)
    assert await refusal_reason(bot.send_photo(1, message.document.file_id)) == (
        "Can't use file of type document as photo"
    )
    assert "Wrong remote file identifier" in await refusal_reason(bot.send_document(1, "nowhere"))
    assert "Failed to get http url content" in await refusal_reason(bot.send_photo(1, "http://a.b/c.png"))


async def test_an_album_holds_one_family_under_one_group_id(bot: Bot, ann: ScriptedPerson):
    photos = [InputMediaPhoto(make_image(), caption="first"), InputMediaPhoto(make_image())]
    first, second = await bot.send_media_group(1, photos)
    assert first.media_group_id == second.media_group_id is not None
    assert (first.caption, second.caption) == ("first", None)
    files = [InputMediaDocument(b"a", filename="a.txt"), InputMediaDocument(b"b", filename="b.txt")]
    documents = await bot.send_media_group(1, files)
    assert [message.document and message.document.file_name for message in documents] == ["a.txt", "b.txt"]
    assert documents[0].media_group_id != first.media_group_id
    (alone,) = await bot.send_media_group(1, photos[:1])
    assert alone.media_group_id is None
    assert len(ann.chat.bot_messages) == 5


async def test_a_refused_album_sends_nothing(bot: Bot, ann: ScriptedPerson):
    photo, document = InputMediaPhoto(make_image()), InputMediaDocument(b"a", filename="a.txt")
    albums: list[tuple[list[InputMediaPhoto | InputMediaDocument], str]] = [
        ([photo, document], "Document can't be mixed with other media types"),
        ([photo] * 11, "Too many messages to send as an album"),
        (
            [photo, InputMediaPhoto(make_image(421, 20))],
            'Failed to send message #2 with the error message "photo_invalid_dimensions"',
        ),
        ([photo, InputMediaPhoto(make_image(), caption="x" * 1025)], "Message caption is too long"),
    ]
    for album, reason in albums:
        assert (await refusal_reason(bot.send_media_group(1, album))).lower() == reason.lower()
    assert ann.chat.bot_messages == []


@pytest.mark.parametrize(
    ("media", "reason"),
    [
        ("{", "can't parse media JSON object"),
        ("7", "expected an Array of InputMedia"),
        ("[]", "there are no messages to send"),
        ("[7]", "can't parse InputMedia: expected an Object"),
        ('[{"type": "photo"}]', "can't parse InputMedia: media not found"),
        ('[{"type": "photo", "media": "attach://x"}]', "can't parse InputMedia: media not found"),
        (
            '[{"type": "animation", "media": "x"}]',
            "can't parse InputMedia: type \"animation\" can't be used in sendMediaGroup",
        ),
        ('[{"type": "poll", "media": "x"}]', 'can\'t parse InputMedia: type "poll" is unsupported'),
        (None, 'parameter "media" is required'),
    ],
)
async def test_what_is_no_list_of_media_is_refused(
    api: ScriptedBotApi, api_url: str, ann: ScriptedPerson, media: str | None, reason: str
):
    async with open_http() as http:
        url = f"{api_url}/bot{api.token}/sendMediaGroup"
        answer = await http.post(url, json={"chat_id": 1, "media": media})
    assert answer.json()["description"] == f"Bad Request: {reason}"


async def test_each_item_of_an_album_counts_as_a_message():
    api = build_api(FloodLimits(overall=None, private=FloodRate(1, 1, 2)))
    api.person(1).send("hi")
    async with api.serve_on_loopback() as url, open_bot(api, url) as bot:
        await bot.send_media_group(1, [InputMediaPhoto(make_image())] * 2)
        with pytest.raises(RetryAfter):
            await bot.send_message(1, "too much")


async def test_a_group_may_be_closed_to_files(bot: Bot, api: ScriptedBotApi, ann: ScriptedPerson):
    group = api.add_group(-1001, "Team", owner=ann)
    group.change_member(api.bot, "restricted", can_send=False)
    refused = bot.send_document(group.id, b"a", filename="a.txt")
    assert await refusal_reason(refused) == "Not enough rights to send documents to the chat"


async def test_a_file_of_twenty_megabytes_can_be_fetched_and_none_that_is_larger(
    bot: Bot, ann: ScriptedPerson
):
    sizes = (20 << 20, (20 << 20) + 1)
    fits, too_big = (ann.send_document("a.bin", content=bytes(size)).message for size in sizes)
    assert (await bot.get_file(fits["document"]["file_id"])).file_size == 20 << 20
    with pytest.raises(BadRequest, match="File is too big"):
        await bot.get_file(too_big["document"]["file_id"])
