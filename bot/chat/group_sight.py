"""What the bot sees in a group: every message, or only commands and replies to it.

Asked of Telegram when the bot gets into a group or its rights change there, and at each start for the groups
that it is in. While Telegram does not answer, what was known stays.
"""

from dataclasses import dataclass, replace
from functools import partial

from bot.chat.group_directory import GroupDirectory
from bot.db.engine import Database
from bot.db.people import groups
from bot.db.retry import retry_until_available
from bot.telegram.bot_rights import BotRights, BotRightsReader


def judge_sight(rights: BotRights, *, known: bool | None) -> bool:
    """Whether the bot sees every message of a group.

    `known`: what was found since the bot was added (None: nothing). Turning privacy mode off changes nothing
    in the groups that the bot is in already.
    """
    return rights.is_administrator or (rights.has_privacy_off and known is not False)


@dataclass(frozen=True, slots=True)
class GroupSight:
    """Notes what Telegram says in the database and in memory."""

    rights: BotRightsReader
    database: Database
    directory: GroupDirectory

    async def find(self, chat: int, *, was_added: bool = False) -> bool | None:
        """Return whether the bot sees every message of a group that it is in; None: nobody says.

        `was_added`: it has just been added, so what was known before says nothing.
        """
        group = self.directory.find(chat)
        known = group.hears_all if group is not None and not was_added else None
        rights = await self.rights.read(chat)
        return known if rights is None else judge_sight(rights, known=known)

    async def update_all(self) -> None:
        """Find out what the bot sees in each group that it is in, one after the other."""
        for listed in self.directory.list_present():
            hears_all = await self.find(listed.chat)
            group = self.directory.find(listed.chat)
            if group is not None and group.state != "left" and group.hears_all != hears_all:
                await retry_until_available(partial(self._store, group.chat, hears_all))

    async def _store(self, chat: int, hears_all: bool | None) -> None:
        async with self.database.transaction() as tx:
            await groups.set_hears_all(tx, chat, hears_all)
        group = self.directory.find(chat)
        if group is not None:
            self.directory.remember(replace(group, hears_all=hears_all))
