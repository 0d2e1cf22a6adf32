"""What people edit in the simulated Bot API."""

import pytest
from telegram import Bot

from tests.support.attachment_files import make_image
from tests.support.telegram.server import ScriptedBotApi
from tests.support.telegram_client import fetch_updates

pytestmark = [pytest.mark.filterwarnings("ignore:Please use 'Bot:")]


async def test_an_edit_of_metadata_is_a_new_update_with_the_old_text(bot: Bot, api: ScriptedBotApi):
    ann = api.person(1)
    message = ann.send("/stop @somebody")
    update_id = ann.edit_metadata(message)
    first, edited = await fetch_updates(bot)
    assert edited["update_id"] == update_id != first["update_id"]
    assert edited["edited_message"]["edit_date"]
    for name in ("message_id", "text", "entities"):
        assert edited["edited_message"][name] == first["message"][name]


async def test_captions_and_photos_are_edited(bot: Bot, api: ScriptedBotApi):
    ann = api.person(1)
    photo = ann.send_photo("@somebody", content=make_image())
    ann.edit_caption(photo, "plain")
    ann.replace_photo(photo, make_image(30, 30))
    posted, captioned, replaced = await fetch_updates(bot)
    assert "caption_entities" in posted["message"]
    assert "caption_entities" not in captioned["edited_message"]
    assert replaced["edited_message"]["caption"] == "plain"
    files = [update["photo"][0]["file_unique_id"] for update in (photo.message, replaced["edited_message"])]
    assert files[0] != files[1]
    with pytest.raises(ValueError, match="own message"):
        ann.replace_photo(ann.send("text"), make_image())


async def test_in_privacy_mode_an_edit_is_heard_if_the_new_text_is_for_the_bot(api: ScriptedBotApi):
    ann = api.person(1)
    group = api.add_group(-1001, "Team", owner=ann)
    message = ann.send("among ourselves", thread=group)
    assert message.update_id == 0
    assert ann.edit(message, "/help", thread=group)
    assert ann.edit(message, "among ourselves", thread=group) == 0
