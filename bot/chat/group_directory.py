"""Which groups the bot is in and what it is called there, without a database query.

Owns the in-memory copy of all groups; code that changes one in the database calls `remember` once that is
committed. What another replica changes is read again.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from bot.db.engine import Database
from bot.db.people import groups
from bot.db.people.groups import Group
from bot.errors import ChangeRefused
from bot.telegram.chat_numbers import ChatNumbers
from bot.telegram.incoming.group_address import GroupIdentity
from bot.translations.formats import format_series


class GroupDirectory:
    """Groups by chat.

    `numbers`: told of groups that have become supergroups.
    `guest_mode`: whether it also answers in chats that it is no member of.
    """

    def __init__(
        self,
        bot_id: int,
        username: str,
        commands: Iterable[str],
        numbers: ChatNumbers,
        *,
        guest_mode: bool = False,
    ) -> None:
        self._guest_mode = guest_mode
        self._identity = GroupIdentity(bot_id, username, frozenset(commands))
        self._groups: dict[int, Group] = {}
        self.numbers = numbers

    async def load(self, database: Database) -> None:
        """Read all groups: before the first update is stored, and once another replica has changed one."""
        async with database.read_transaction() as tx:
            stored = await groups.list_groups(tx)
        self._groups.clear()
        for group in stored:
            self.remember(group)

    def find(self, chat: int) -> Group | None:
        """Return the group of this number, which may be its other one, whatever its state."""
        return self._groups.get(self.numbers.find_own(chat))

    def find_open(self, chat: int) -> Group | None:
        """Return the group of this chat if the bot answers there."""
        group = self.find(chat)
        return group if group is not None and group.state == "in" else None

    def can_answer(self, chat: int) -> bool:
        """Whether the bot answers in this chat, and may write there."""
        group = self.find_open(chat)
        return group is not None and group.can_send

    def list_present(self) -> list[Group]:
        """Return the groups that the bot is in, also those that wait to be let in, by title."""
        present = (group for group in self._groups.values() if group.state != "left")
        return sorted(present, key=lambda group: (group.title.casefold(), group.chat))

    def find_named(self, words: str) -> Group:
        """Return the one group of this title or number that is let in. Raises ChangeRefused."""
        named = [group for group in self.list_present() if group.state == "in" and group.has_name(words)]
        if not named:
            raise ChangeRefused("I'm not in a group called {title}. /groups lists my groups.", title=words)
        if len(named) > 1:
            raise ChangeRefused(
                "Several groups are called {title}. Say which one by number: {numbers}.",
                title=words,
                numbers=partial(format_series, words=[str(group.number) for group in named]),
            )
        return named[0]

    def is_in(self, chat: int) -> bool:
        """Whether the bot is in this chat as far as is known, also where it waits to be let in."""
        group = self.find(chat)
        return group is not None and group.state != "left"

    def takes_guest_queries(self, chat: int) -> bool:
        """Whether the bot answers as a guest in this chat: where it is a member, the group's rules hold."""
        return self._guest_mode and not self.is_in(chat)

    def get_identity(self, chat: int) -> GroupIdentity:
        """Return who the assistant is in this chat."""
        group = self.find(chat)
        return replace(self._identity, name=group.name if group else None)

    def remember(self, group: Group) -> None:
        """Note how a group is now."""
        self._groups[group.chat] = group
        if group.other_chat is not None:
            self.numbers.note(group.chat, group.other_chat)

    def move(self, chat: int, new_chat: int) -> None:
        """Note that a group has become a supergroup, which has another number at Telegram."""
        self._groups.pop(new_chat, None)
        if chat in self._groups:
            self.remember(replace(self._groups[chat], other_chat=new_chat))
