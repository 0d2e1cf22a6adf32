"""Messages and what came with them become the user messages of a turn; what cannot be used is said in a
sentence.
"""

import pytest

from bot.attachments.excerpts import Document
from bot.domain import Attachment
from bot.telegram.incoming import user_message as composing
from bot.telegram.incoming.attachments import Enclosure
from bot.telegram.incoming.user_message import Letter, compose

PHOTO = Enclosure("picture", "photo", "p")
FILE = Enclosure("file", "file", "f", "a.txt")
VOICE = Enclosure("sound", "voice message", "v", seconds=12, own=True)
SONG = Enclosure("sound", "file", "s", "a.mp3")
RED = Attachment("image", "", "image/jpeg", data=b"red")
BLUE = Attachment("image", "", "image/jpeg", data=b"blue")


def document(text: str) -> Document:
    return Document("a.txt", "text/plain", (text,), length=len(text))


def heard(text: str) -> Attachment:
    return Attachment("sound", "", "audio/ogg", text=text)


def test_texts_stay_as_they_are():
    told = compose([Letter({"text": "one"}, 1.0), Letter({"text": "two"}, 2.0)], 900)
    assert (told.texts, told.attachments, told.sent) == (("one", "two"), ((), ()), (1.0, 2.0))


def test_the_messages_of_an_album_are_one_and_others_are_not():
    album = {"media_group_id": "m"}
    letters = [
        Letter({"text": "before"}, 1.0),
        Letter(album, 2.0, PHOTO, RED),
        Letter(album | {"caption": "Which?"}, 2.1, PHOTO, BLUE),
        Letter({"media_group_id": "n", "caption": "Next"}, 3.0, PHOTO, RED),
        Letter({"text": "after"}, 4.0),
        Letter({"text": "last"}, 5.0),
    ]
    told = compose(letters, 900)
    assert told.texts == ("before", "Which?", "Next", "after", "last")
    assert told.attachments == ((), (RED, BLUE), (RED,), (), ())
    assert told.sent == (1.0, 2.0, 3.0, 4.0, 5.0)


def test_a_forwarded_album_says_once_whose_it_is():
    forwarded = {"media_group_id": "m", "forward_origin": {"sender_user_name": "Zed"}}
    told = compose([Letter(forwarded, 1.0, PHOTO, RED), Letter(forwarded, 1.0, PHOTO, BLUE)], 900)
    assert told.texts == ("[data: message forwarded from Zed]\n(no words)\n[end of data]",)


def test_documents_and_transcripts_share_the_room_and_all_of_them_is_kept():
    letters = [
        Letter({}, 1.0, FILE, document("x" * 900)),
        Letter({}, 1.0, VOICE, heard("y" * 900)),
        Letter({}, 1.0),
    ]
    told = compose(letters, 600)
    assert [text.count("x") - text.count(".txt") for text in told.texts] == [300, 0, 0]
    assert told.texts[0].startswith("[data: file a.txt, first 300 of 900 characters]\nxxx")
    assert told.texts[1] == f"[transcript of a voice message, 12 s, first 300 of 900 characters] {'y' * 300}"
    assert [len(one.text or "") for several in told.attachments for one in several] == [900, 900]


def test_what_people_say_is_theirs_and_what_they_send_or_forward_is_data():
    forwarded = {"forward_origin": {"sender_user_name": "Zed"}}
    letters = [
        Letter({"caption": "and this"}, 1.0, VOICE, heard("hello")),
        Letter({"caption": "Who?"}, 1.0, SONG, heard("la la")),
        Letter(forwarded, 1.0, VOICE, heard("obey")),
    ]
    assert compose(letters, 900).texts == (
        "[transcript of a voice message, 12 s] hello\nand this",
        "[data: file a.mp3, transcript]\nla la\n[end of data]\nWho?",
        "[data: message forwarded from Zed]\n[transcript of a voice message, 12 s] obey\n[end of data]",
    )


def test_what_cannot_be_used_stands_there_as_data():
    letters = [Letter({"caption": "Read it"}, 1.0, FILE, why="it is empty"), Letter({}, 1.0, PHOTO)]
    assert compose(letters, 900).texts == (
        "[data: file a.txt]\n(file not shown to you: it is empty)\n[end of data]\nRead it",
        f"[data: photo]\n(photo not shown to you: {composing.NOT_FETCHED})\n[end of data]",
    )


@pytest.mark.parametrize(
    "answerable",
    [
        Letter({"text": "hi"}, 1.0),
        Letter({"caption": "hi"}, 1.0, PHOTO, why="x"),
        Letter({}, 1.0, PHOTO, RED),
    ],
)
def test_with_anything_left_to_answer_nothing_is_refused(answerable: Letter):
    assert composing.refused([Letter({}, 1.0, FILE, why="it is empty"), answerable]) == ""


def test_what_is_refused_is_said_a_reason_a_sentence_with_names():
    letters = [
        Letter({}, 1.0, PHOTO, why="it is damaged"),
        Letter({"reply_to_message": {"text": "what others said"}}, 1.0, FILE, why="it is empty"),
        Letter({}, 1.0, PHOTO, why="it is damaged"),
        Letter({"caption": " \n"}, 1.0, VOICE, why="it is damaged"),
    ]
    said = "I could not use 2 of your photos, your voice message: it is damaged. "
    said += "I could not use your file a.txt: it is empty."
    assert composing.refused(letters) == said
    assert composing.preface(letters) == f"({said.replace(' a.txt', '')})\n\n"
    assert composing.preface([Letter({}, 1.0, PHOTO)]) == ""


def test_of_very_many_files_only_the_count_is_said():
    letters = [
        Letter({}, 1.0, Enclosure("file", "file", "f", f"{'x' * 30}{at}"), why="it is empty")
        for at in range(11)
    ]
    assert composing.refused(letters) == "I could not use 11 of your files: it is empty."
    assert composing.refused(letters[1:]).count("your file ") == 10
