"""Edits change messages that came with them in one batch; of all others their text is compared."""

from typing import Any

import pytest

from bot.db.queues.incoming_updates import IncomingUpdate
from bot.telegram.incoming.edits import fold_edits, has_new_content
from tests.support.groups import read_private_envelope


def build(update_id: int, kind: str, message_id: int, **content: Any) -> IncomingUpdate:
    chat = {"id": 5, "type": "private"}
    message = {"message_id": message_id, "date": 1, "chat": chat, "from": {"id": 5}, **content}
    update = read_private_envelope({"update_id": update_id, kind: message}, 1.0)
    assert update is not None
    return update


def test_the_newest_edit_of_a_batch_counts():
    folded = fold_edits(
        [
            build(1, "message", 7, text="capitol"),
            build(2, "message", 8, text="other"),
            build(3, "edited_message", 7, text="capital"),
            build(4, "edited_message", 7, text="capital?"),
        ]
    )
    assert '"text":"capital?"' in folded[0].body
    assert '"text":"other"' in folded[1].body
    assert [update.shape for update in folded] == ["text", "text", "other", "other"]
    assert all(update.edit is None for update in folded)


@pytest.mark.parametrize("text", ["/stop", "/deep think"])
def test_no_edit_makes_a_waiting_message_a_command(text: str):
    message, edit = fold_edits([build(1, "message", 7, text="hi"), build(2, "edited_message", 7, text=text)])
    assert '"text":"hi"' in message.body
    assert edit.shape == "edit"


def test_an_edit_of_another_chat_or_message_changes_nothing():
    updates = [build(1, "message", 7, text="hi"), build(2, "edited_message", 9, text="ho")]
    assert fold_edits(updates) == updates


def test_of_several_edits_of_a_message_that_was_taken_the_newest_counts():
    edits = [build(number, "edited_message", 7, text=f"try {number}") for number in (1, 2)]
    assert [update.edit is not None for update in fold_edits(edits)] == [False, True]


def test_another_file_is_an_edit_and_another_name_of_the_same_file_is_none():
    def build_photo(file_id: str, unique_id: str) -> dict[str, Any]:
        return {"caption": "a", "photo": [{"file_id": file_id, "file_unique_id": unique_id}]}

    assert not has_new_content(build_photo("1", "x"), build_photo("2", "x"))
    assert has_new_content(build_photo("1", "x"), build_photo("1", "y"))


@pytest.mark.parametrize(
    ("edited", "is_new"),
    [
        ({"text": "a", "edit_date": 2}, False),
        ({"text": "b"}, True),
        ({"caption": "a"}, True),
        ({}, True),
    ],
)
def test_an_edit_that_changes_no_text_is_told_apart(edited: dict[str, Any], is_new: bool):
    assert has_new_content(edited, {"text": "a"}) == is_new
