"""Letting the bot into a group and leaving one: the same by button or the admins' page.

Also how the bot introduces itself there, and what ends when it is in a group no more.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from bot.chat.actions import ActionDependencies, build_part
from bot.db.people import groups, people
from bot.db.people.admin_changes import AdminChange
from bot.db.people.groups import Group
from bot.db.people.people import COMMAND_LINE_INVITER
from bot.db.queues import outbox
from bot.db.tools import audit
from bot.db.tools.audit import Actor
from bot.db.transaction import Transaction
from bot.domain import Lane
from bot.errors import ChangeRefused
from bot.translations.translator import ENGLISH, DeferredText, Translator, defer


@dataclass(frozen=True, slots=True)
class GroupChanges:
    """Makes the changes inside the caller's transaction. Raises ChangeRefused for what cannot be."""

    deps: ActionDependencies

    async def let_in(self, tx: Transaction, actor: Actor, chat: int, *, now: float) -> AdminChange:
        """Let in a group that waits for it, and introduce the bot there."""
        group = self._find_present(chat)
        if group.state == "in":
            decision = await describe_decision(tx, group)
            raise ChangeRefused(decision.text, **decision.values)
        translate = ENGLISH if actor.person is None else self.deps.access.get_translator(actor.person)
        after_commit = await self.admit(tx, group, translate, actor=actor, now=now)
        return AdminChange(defer("I'm in the group “{title}” now.", title=group.title), after_commit)

    async def leave(self, tx: Transaction, actor: Actor, chat: int, *, now: float) -> AdminChange:
        """Leave a group, and end what goes on for it."""
        group = self._find_present(chat)
        after_commit = await self.end(tx, group, now=now)
        await audit.record(
            tx, actor, "left", f"group {group.number}", change=({"title": group.title}, None), now=now
        )
        leave_chat = partial(self.deps.best_effort_calls.leave_chat, chat)
        return AdminChange(defer("I've left “{title}”.", title=group.title), after_commit, (leave_chat,))

    def _find_present(self, chat: int) -> Group:
        group = self.deps.groups.directory.find(chat)
        if group is None or group.state == "left":
            raise ChangeRefused("I'm not in this group.")
        return group

    async def admit(
        self, tx: Transaction, group: Group, translate: Translator, *, actor: Actor | None, now: float
    ) -> tuple[Callable[[], object], ...]:
        """Have a group answered, and introduce the bot; returns what is called after the commit.

        `actor` None: no admin decided it.
        """
        admitted = replace(group, state="in", since=now, let_in_by=None)
        if actor is not None:
            admitted = replace(admitted, let_in_by=actor.person or COMMAND_LINE_INVITER)
            change = (None, {"title": group.title})
            await audit.record(tx, actor, "let in", f"group {group.number}", change=change, now=now)
        await groups.put(tx, admitted)
        is_open = self.deps.access.mode == "open"
        introduction = build_part(_introduce(translate, self.deps.settings.bot_name, group, is_open=is_open))
        await outbox.add(tx, item=None, lane=Lane(group.chat), parts=(introduction,), now=now)
        return (partial(self.deps.groups.directory.remember, admitted),)

    async def end(self, tx: Transaction, group: Group, *, now: float) -> tuple[Callable[[], object], ...]:
        """End what goes on for a group where the bot is no more; returns what is called after the commit."""
        left = replace(group, state="left", since=now)
        await groups.put(tx, left)
        lanes = await groups.end_work(tx, group.chat, now=now)
        stops = (partial(self.deps.turns.control.stop, lane) for lane in lanes)
        return (partial(self.deps.groups.directory.remember, left), *stops)


async def describe_decision(tx: Transaction, group: Group) -> DeferredText:
    """What became of a group, and who decided it."""
    if group.state == "left":
        return defer("I'm no longer in “{title}”.", title=group.title)
    admin: object = defer("an admin")
    if group.let_in_by is not None:
        admin = (await people.list_names(tx)).get(group.let_in_by, admin)
    return defer("“{title}” got access from {admin}.", title=group.title, admin=admin)


def build_greeting(translate: Translator, bot_name: str, *, hears_all: bool | None) -> str:
    """How people of a group ask the bot something; a mention may not reach one that does not hear all."""
    if hears_all is False:
        return translate(
            "Hello! To ask me something, reply to a message of mine, or write /ask@{name} and your question.",
            name=bot_name,
        )
    return translate(
        "Hello! To ask me something, reply to a message of mine, write @{name}, or use /ask.", name=bot_name
    )


def _introduce(translate: Translator, bot_name: str, group: Group, *, is_open: bool) -> str:
    lines = [build_greeting(translate, bot_name, hears_all=group.hears_all)]
    if group.speakers == "members" and not is_open:
        lines.append(
            translate(
                "I answer people with access. To ask for it, write to me in private: {link}",
                link=f"https://t.me/{bot_name}",
            )
        )
    if group.hears_all is False:
        lines.append(
            translate("Here I see only commands and replies to me. To change that, make me an administrator.")
        )
    return "\n".join(lines)
