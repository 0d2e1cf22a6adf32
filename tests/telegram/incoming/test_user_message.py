"""Messages and what came with them become the user messages of a turn; what is unusable is named."""

import pytest

from bot.attachments.excerpts import ExtractedDocument
from bot.attachments.reader import EMPTY
from bot.domain import Attachment
from bot.telegram.incoming import user_message
from bot.telegram.incoming.attachments import MediaItem
from bot.telegram.incoming.user_message import IncomingMessage, compose_user_messages
from bot.translations.translator import load_translator

PHOTO = MediaItem("picture", "photo", "p")
FILE = MediaItem("file", "file", "f", "a.txt")
VOICE = MediaItem("sound", "voice message", "v", duration_seconds=12, is_own_voice=True)
SONG = MediaItem("sound", "file", "s", "a.mp3")
RED = Attachment("image", "", "image/jpeg", data=b"red")
BLUE = Attachment("image", "", "image/jpeg", data=b"blue")


def build_document(text: str) -> ExtractedDocument:
    return ExtractedDocument("a.txt", "text/plain", (text,), char_count=len(text))


def build_pages(*texts: str) -> ExtractedDocument:
    return ExtractedDocument("a.pdf", "application/pdf", texts, page_count=len(texts))


def build_sound(text: str) -> Attachment:
    return Attachment("sound", "", "audio/ogg", text=text)


def test_texts_stay_as_they_are():
    composed = compose_user_messages(
        [IncomingMessage({"text": "one"}, 1.0), IncomingMessage({"text": "two"}, 2.0)], 900
    )
    assert (composed.texts, composed.attachments, composed.sent_times) == (
        ("one", "two"),
        ((), ()),
        (1.0, 2.0),
    )


def test_the_messages_of_an_album_are_one_and_others_are_not():
    album = {"media_group_id": "m"}
    messages = [
        IncomingMessage({"text": "before"}, 1.0),
        IncomingMessage(album, 2.0, PHOTO, RED),
        IncomingMessage(album | {"caption": "Which?"}, 2.1, PHOTO, BLUE),
        IncomingMessage({"media_group_id": "n", "caption": "Next"}, 3.0, PHOTO, RED),
        IncomingMessage({"text": "after"}, 4.0),
        IncomingMessage({"text": "last"}, 5.0),
    ]
    composed = compose_user_messages(messages, 900)
    assert composed.texts == ("before", "Which?", "Next", "after", "last")
    assert composed.attachments == ((), (RED, BLUE), (RED,), (), ())
    assert composed.sent_times == (1.0, 2.0, 3.0, 4.0, 5.0)


def test_a_forwarded_album_says_once_whose_it_is():
    forwarded = {"media_group_id": "m", "forward_origin": {"sender_user_name": "Zed"}}
    composed = compose_user_messages(
        [IncomingMessage(forwarded, 1.0, PHOTO, RED), IncomingMessage(forwarded, 1.0, PHOTO, BLUE)], 900
    )
    assert composed.texts == ("[data: message forwarded from Zed]\n(no words)\n[end of data]",)


def test_documents_and_transcripts_share_the_limit_and_all_of_them_is_stored():
    messages = [
        IncomingMessage({}, 1.0, FILE, build_document("x" * 900)),
        IncomingMessage({}, 1.0, VOICE, build_sound("y" * 900)),
        IncomingMessage({}, 1.0),
    ]
    composed = compose_user_messages(messages, 600)
    assert [text.count("x") - text.count(".txt") for text in composed.texts] == [300, 0, 0]
    assert composed.texts[0].startswith("[data: file a.txt, first 300 of 900 characters]\nxxx")
    assert (
        composed.texts[1] == f"[transcript of a voice message, 12 s, first 300 of 900 characters] {'y' * 300}"
    )
    assert [
        len(attachment.text or "") for attachments in composed.attachments for attachment in attachments
    ] == [900, 900]


def test_what_people_say_is_theirs_and_what_they_send_or_forward_is_data():
    forwarded = {"forward_origin": {"sender_user_name": "Zed"}}
    messages = [
        IncomingMessage({"caption": "and this"}, 1.0, VOICE, build_sound("hello")),
        IncomingMessage({"caption": "Who?"}, 1.0, SONG, build_sound("la la")),
        IncomingMessage(forwarded, 1.0, VOICE, build_sound("obey")),
    ]
    assert compose_user_messages(messages, 900).texts == (
        "[transcript of a voice message, 12 s] hello\nand this",
        "[data: file a.mp3, transcript]\nla la\n[end of data]\nWho?",
        "[data: message forwarded from Zed]\n[transcript of a voice message, 12 s] obey\n[end of data]",
    )


def test_what_cannot_be_used_stands_there_as_data():
    messages = [
        IncomingMessage({"caption": "Read it"}, 1.0, FILE, unusable_reason="it is empty"),
        IncomingMessage({}, 1.0, PHOTO),
    ]
    assert compose_user_messages(messages, 900).texts == (
        "[data: file a.txt]\n(file not shown to you: it is empty)\n[end of data]\nRead it",
        f"[data: photo]\n(photo not shown to you: {user_message.NOT_FETCHED})\n[end of data]",
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
        user_message.explain_refusal(
            [IncomingMessage({}, 1.0, FILE, unusable_reason="it is empty"), answerable]
        )
        == ""
    )


def test_what_is_refused_is_listed_with_names_a_sentence_for_each_reason():
    messages = [
        IncomingMessage({}, 1.0, PHOTO, unusable_reason="it is damaged"),
        IncomingMessage(
            {"reply_to_message": {"text": "what others said"}}, 1.0, FILE, unusable_reason="it is empty"
        ),
        IncomingMessage({}, 1.0, PHOTO, unusable_reason="it is damaged"),
        IncomingMessage({"caption": " \n"}, 1.0, VOICE, unusable_reason="it is damaged"),
    ]
    sentences = "I couldn't use 2 of your photos and your voice message: it is damaged. "
    sentences += "I couldn't use your file a.txt: it is empty."
    assert user_message.explain_refusal(messages) == sentences
    preface = f"({sentences.replace(' a.txt', '')})\n\n"
    assert compose_user_messages(messages, 900).preface == preface
    assert compose_user_messages([IncomingMessage({}, 1.0, PHOTO)], 900).preface == ""


@pytest.mark.parametrize(
    ("media", "content", "preface"),
    [
        (
            FILE,
            build_document("x" * 2000),
            "I read your file `a.txt` only in part: the first 900 of 2,000 characters.",
        ),
        (FILE, build_document("one"), ""),
        (FILE, build_pages("one", "", ""), "I found no text on 2 pages of your file `a.txt`."),
        (
            FILE,
            build_pages("one", "", "x" * 2000),
            "I read your file `a.txt` only in part: pages 1-2 of 3. "
            "I found no text on 1 page of your file `a.txt`.",
        ),
        (
            VOICE,
            Attachment("sound", "", "audio/ogg", text="la " * 400),
            "I read your voice message only in part: the first 899 of 1,200 characters.",
        ),
    ],
)
def test_what_was_read_only_in_part_is_said_before_the_answer(
    media: MediaItem, content: user_message.MediaContent, preface: str
):
    composed = compose_user_messages([IncomingMessage({}, 1.0, media, content)], 900)
    assert composed.preface == (f"({preface})\n\n" if preface else "")


def test_what_was_read_only_in_part_is_said_in_the_language_of_the_sender():
    messages = [
        IncomingMessage({}, 1.0, FILE, build_pages("one", "", "x" * 2000)),
        IncomingMessage({}, 1.0, PHOTO, unusable_reason="it is damaged"),
    ]
    composed = compose_user_messages(messages, 900, load_translator("de"))
    assert composed.preface == (
        "(Ich konnte dein Foto nicht verwenden: der Inhalt ist beschädigt. "
        "Ich habe deine Datei `a.txt` nur zum Teil gelesen: Seiten 1-2 von 3. "
        "Ich habe deine Datei `a.txt` gelesen, aber auf 1 Seite steht kein Text.)\n\n"
    )


def build_files(count: int, lengths: int) -> list[IncomingMessage]:
    """Files of so many different lengths, whose names hold Markdown."""
    return [
        IncomingMessage(
            {},
            1.0,
            MediaItem("file", "file", "f", f"`*{number}*.txt"),
            build_document("x" * (5000 + number % lengths)),
        )
        for number in range(count)
    ]


def test_files_read_to_the_same_part_share_a_sentence_with_their_names():
    composed = compose_user_messages(build_files(2, lengths=1), 200)
    files = "your file `'*0*.txt` and your file `'*1*.txt`"
    assert composed.preface == f"(I read {files} only in part: the first 100 of 5,000 characters.)\n\n"


@pytest.mark.parametrize("lengths", [1, 4, 20])
def test_of_very_many_files_read_in_part_one_sentence_tells(lengths: int):
    preface = compose_user_messages(build_files(20, lengths), 20_000).preface
    assert preface.startswith("(I read 20 of your files only in part")
    assert preface.count("I read") == 1


def test_of_very_many_files_only_the_count_is_named():
    messages = [
        IncomingMessage(
            {}, 1.0, MediaItem("file", "file", "f", f"{'x' * 30}{number}"), unusable_reason="it is empty"
        )
        for number in range(11)
    ]
    assert user_message.explain_refusal(messages) == "I couldn't use 11 of your files: it is empty."
    assert user_message.explain_refusal(messages[1:]).count("your file ") == 10


def test_what_cannot_be_used_is_said_in_the_language_of_the_sender_and_stays_english_for_the_model():
    messages = [
        IncomingMessage({"caption": "Lies"}, 1.0, FILE, unusable_reason=EMPTY),
        IncomingMessage({}, 1.0, PHOTO, unusable_reason=EMPTY),
        IncomingMessage({}, 1.0, PHOTO, unusable_reason=EMPTY),
    ]
    german = load_translator("de")
    composed = compose_user_messages(messages, 900, german)
    assert composed.preface == (
        "(Ich konnte deine Datei und 2 deiner Fotos nicht verwenden: es ist nichts darin.)\n\n"
    )
    assert (
        composed.texts[0] == "[data: file a.txt]\n(file not shown to you: it is empty)\n[end of data]\nLies"
    )
    refusal = user_message.explain_refusal(messages[1:], german)
    assert refusal == "Ich konnte 2 deiner Fotos nicht verwenden: es ist nichts darin."
