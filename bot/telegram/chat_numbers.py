"""The numbers by which Telegram knows groups and their messages, and those by which the gateway knows them.

A group that becomes a supergroup gets another number at Telegram and keeps its own here. A supergroup counts
its messages from the beginning, so a message under a group's other number has an id of its own here, too.
"""

from typing import Any

from bot.db.people.groups import OTHER_MESSAGES


class ChatNumbers:
    """Translates at the border to Telegram; empty until a group that has two numbers is noted."""

    def __init__(self) -> None:
        self._others: dict[int, int] = {}  # by the number that the gateway uses
        self._own: dict[int, int] = {}  # by the other one

    def note(self, chat: int, other: int) -> None:
        """Note the other number of a group."""
        self._others[chat] = other
        self._own[other] = chat

    def find_own(self, number: int) -> int:
        """Return the gateway's number of a chat."""
        return self._own.get(number, number)

    def read(self, value: Any) -> Any:
        """Return what Telegram says by the gateway's numbers; twice does no harm."""
        match value:
            case _ if not self._own:
                return value
            case list():
                return [self.read(each) for each in value]
            case {"type": "group" | "supergroup", "id": int(number)}:
                return value | {"id": self.find_own(number)}
            case dict():
                own = {key: self.read(each) for key, each in value.items()}
                if own.get("chat") != value.get("chat") and isinstance(own.get("message_id"), int):
                    own["message_id"] += OTHER_MESSAGES
                return own
        return value

    def write(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of a call by Telegram's numbers.

        A message is named where it was written; Telegram refuses what concerns one of before. A new one goes
        to the supergroup, and replies to none of before.
        """
        chat = parameters.get("chat_id", 0)
        other = self._others.get(chat)
        if other is None:
            return parameters
        is_other = other < chat  # that of a supergroup is the lower one
        changed = dict(parameters)
        if "message_id" in parameters:
            is_other, changed["message_id"] = divmod(parameters["message_id"], OTHER_MESSAGES)
        if reply := changed.pop("reply_parameters", None):
            replies_to_other, message_id = divmod(reply.message_id, OTHER_MESSAGES)
            if replies_to_other == is_other:
                changed["reply_parameters"] = {"message_id": message_id, "allow_sending_without_reply": True}
        if is_other:
            changed["chat_id"] = other
        return changed
