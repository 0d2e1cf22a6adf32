"""Messages and what came with them become the user messages of a turn; what cannot be used is said in a
sentence.
"""

import pytest

from bot.attachments.excerpts import ExtractedDocument
from bot.domain import Attachment
from bot.telegram.incoming import user_message as composing
from bot.telegram.incoming.attachments import MediaItem
from bot.telegram.incoming.user_message import IncomingMessage, compose_user_messages

PHOTO = MediaItem("picture", "photo", "p")
FILE = MediaItem("file", "file", "f", "a.txt")
VOICE = MediaItem("sound", "voice message", "v", duration_seconds=12, is_own_voice=True)
SONG = MediaItem("sound", "file", "s", "a.mp3")
RED = Attachment("image", "", "image/jpeg", data=b"red")
BLUE = Attachment("image", "", "image/jpeg", data=b"blue")


def build_document(text: str) -> ExtractedDocument:
    return ExtractedDocument("a.txt", "text/plain", (text,), char_count=len(text))


def build_sound(text: str) -> Attachment:
    return Attachment("sound", "", "audio/ogg", text=text)


def test_texts_stay_as_they_are():
    told = compose_user_messages(
        [IncomingMessage({"text": "one"}, 1.0), IncomingMessage({"text": "two"}, 2.0)], 900
    )
    assert (told.texts, told.attachments, told.sent_times) == (("one", "two"), ((), ()), (1.0, 2.0))


def test_the_messages_of_an_album_are_one_and_others_are_not():
    album = {"media_group_id": "m"}
    letters = [
        IncomingMessage({"text": "before"}, 1.0),
        IncomingMessage(album, 2.0, PHOTO, RED),
        IncomingMessage(album | {"caption": "Which?"}, 2.1, PHOTO, BLUE),
        IncomingMessage({"media_group_id": "n", "caption": "Next"}, 3.0, PHOTO, RED),
        IncomingMessage({"text": "after"}, 4.0),
        IncomingMessage({"text": "last"}, 5.0),
    ]
    told = compose_user_messages(letters, 900)
    assert told.texts == ("before", "Which?", "Next", "after", "last")
    assert told.attachments == ((), (RED, BLUE), (RED,), (), ())
    assert told.sent_times == (1.0, 2.0, 3.0, 4.0, 5.0)


def test_a_forwarded_album_says_once_whose_it_is():
    forwarded = {"media_group_id": "m", "forward_origin": {"sender_user_name": "Zed"}}
    told = compose_user_messages(
        [IncomingMessage(forwarded, 1.0, PHOTO, RED), IncomingMessage(forwarded, 1.0, PHOTO, BLUE)], 900
    )
    assert told.texts == ("[data: message forwarded from Zed]\n(no words)\n[end of data]",)


def test_documents_and_transcripts_share_the_room_and_all_of_them_is_kept():
    letters = [
        IncomingMessage({}, 1.0, FILE, build_document("x" * 900)),
        IncomingMessage({}, 1.0, VOICE, build_sound("y" * 900)),
        IncomingMessage({}, 1.0),
    ]
    told = compose_user_messages(letters, 600)
    assert [text.count("x") - text.count(".txt") for text in told.texts] == [300, 0, 0]
    assert told.texts[0].startswith("[data: file a.txt, first 300 of 900 characters]\nxxx")
    assert told.texts[1] == f"[transcript of a voice message, 12 s, first 300 of 900 characters] {'y' * 300}"
    assert [len(one.text or "") for several in told.attachments for one in several] == [900, 900]


def test_what_people_say_is_theirs_and_what_they_send_or_forward_is_data():
    forwarded = {"forward_origin": {"sender_user_name": "Zed"}}
    letters = [
        IncomingMessage({"caption": "and this"}, 1.0, VOICE, build_sound("hello")),
        IncomingMessage({"caption": "Who?"}, 1.0, SONG, build_sound("la la")),
        IncomingMessage(forwarded, 1.0, VOICE, build_sound("obey")),
    ]
    assert compose_user_messages(letters, 900).texts == (
        "[transcript of a voice message, 12 s] hello\nand this",
        "[data: file a.mp3, transcript]\nla la\n[end of data]\nWho?",
        "[data: message forwarded from Zed]\n[transcript of a voice message, 12 s] obey\n[end of data]",
    )


def test_what_cannot_be_used_stands_there_as_data():
    letters = [
        IncomingMessage({"caption": "Read it"}, 1.0, FILE, unusable_reason="it is empty"),
        IncomingMessage({}, 1.0, PHOTO),
    ]
    assert compose_user_messages(letters, 900).texts == (
        "[data: file a.txt]\n(file not shown to you: it is empty)\n[end of data]\nRead it",
        f"[data: photo]\n(photo not shown to you: {composing.NOT_FETCHED})\n[end of data]",
    )


@pytest.mark.parametrize(
    "answerable",
    [
        IncomingMessage({"text": "hi"}, 1.0),
        IncomingMessage({"caption": "hi"}, 1.0, PHOTO, unusable_reason="x"),
        IncomingMessage({}, 1.0, PHOTO, RED),
    ],
)
def test_with_anything_left_to_answer_nothing_is_refused(answerable: IncomingMessage):
    assert (
        composing.explain_refusal([IncomingMessage({}, 1.0, FILE, unusable_reason="it is empty"), answerable])
        == ""
    )


def test_what_is_refused_is_said_a_reason_a_sentence_with_names():
    letters = [
        IncomingMessage({}, 1.0, PHOTO, unusable_reason="it is damaged"),
        IncomingMessage(
            {"reply_to_message": {"text": "what others said"}}, 1.0, FILE, unusable_reason="it is empty"
        ),
        IncomingMessage({}, 1.0, PHOTO, unusable_reason="it is damaged"),
        IncomingMessage({"caption": " \n"}, 1.0, VOICE, unusable_reason="it is damaged"),
    ]
    said = "I could not use 2 of your photos, your voice message: it is damaged. "
    said += "I could not use your file a.txt: it is empty."
    assert composing.explain_refusal(letters) == said
    assert composing.build_preface(letters) == f"({said.replace(' a.txt', '')})\n\n"
    assert composing.build_preface([IncomingMessage({}, 1.0, PHOTO)]) == ""


def test_of_very_many_files_only_the_count_is_said():
    letters = [
        IncomingMessage(
            {}, 1.0, MediaItem("file", "file", "f", f"{'x' * 30}{at}"), unusable_reason="it is empty"
        )
        for at in range(11)
    ]
    assert composing.explain_refusal(letters) == "I could not use 11 of your files: it is empty."
    assert composing.explain_refusal(letters[1:]).count("your file ") == 10
