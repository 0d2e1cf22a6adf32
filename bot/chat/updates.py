"""Runs inbox items of kind `update`: checks access, then runs a turn or an action.

An action (a command, a tap, a refusal) is one transaction: the effect, its outbox row and the item done.
Turns have their own transactions.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from bot.chat.access import find_role
from bot.chat.action_runner import ActionOutdated, ActionRunner
from bot.chat.actions import (
    Action,
    ActionDependencies,
    do_nothing,
)
from bot.chat.commands import (
    callbacks,
    consent,
    conversation,
    edited_messages,
    groups,
    registry,
    retries,
    strangers,
    tool_answers,
)
from bot.chat.commands.callbacks import ButtonKind, find_button
from bot.chat.commands.groups import GROUP_TYPES
from bot.chat.commands.registry import Command, find_command
from bot.chat.early_group_messages import EarlyGroupMessages
from bot.chat.message_turns import MessageTurns
from bot.chat.question_answers import JobAnswers, take_answer
from bot.chat.refusals import RefusalReplies, group_by_lane
from bot.db.engine import Database
from bot.db.people import people
from bot.db.people.people import Person, RoleOrBlocked
from bot.db.queues import inbox
from bot.domain import InboxItem, Lane
from bot.jobs.user_jobs import shorten_text
from bot.telegram.incoming.attachment_loader import AttachmentLoader
from bot.telegram.incoming.envelope import find_question_key
from bot.telegram.incoming.update import ParsedUpdate, ReadMessage, parse_update
from bot.translations.formats import load_data
from bot.translations.translator import defer, find_language
from tools.threads import run_in_thread

MAX_TITLE_CHARS = 40  # of a topic's name; Telegram takes 128
UNREADABLE_UPDATE = defer("I couldn't read an update from Telegram; details are in the log.")

log = logging.getLogger(__name__)


class UpdateRunner:
    """The runner.

    `max_waiting`: how many waiting messages of one person are accepted.
    `on_answered`: called with the items of a turn that has ended, or waits for a person.
    """

    def __init__(
        self,
        database: Database,
        deps: ActionDependencies,
        attachment_loader: AttachmentLoader,
        *,
        max_waiting: int,
        on_answered: Callable[[Sequence[InboxItem]], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._deps = deps
        self._actions = ActionRunner(database, deps, clock=clock)
        self._message_turns = MessageTurns(database, deps, attachment_loader, self._actions, clock=clock)
        self._job_answers = JobAnswers(database, deps.user_jobs, self._actions, clock)
        self._refusals = RefusalReplies(max_waiting)
        self._on_answered = on_answered
        self._clock = clock
        self._early_messages = EarlyGroupMessages(database, deps.groups.directory, clock=clock)
        # Telegram is asked in between: neither a removal nor the first question may be overtaken.
        self._group_lock = asyncio.Lock()

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        """Handle one item, or several messages of a lane or a person; raises if an update cannot be read."""
        try:
            await self._place_or_handle(items)
        except ActionOutdated:
            await self._deps.access.load(self._database)
            await self._place_or_handle(items)

    async def _place_or_handle(self, items: tuple[InboxItem, ...]) -> None:
        read = self._deps.groups.directory.numbers.read
        items = tuple(replace(item, body=read(item.body)) for item in items)
        if not _depends_on_membership(items[0]):
            await self._handle_by_role(items)
            return
        async with self._group_lock:
            if not await self._early_messages.place(items[0]):
                await self._handle_by_role(items)

    async def _handle_by_role(self, items: tuple[InboxItem, ...]) -> None:
        updates = await self._parse(items)
        first = updates[0]
        role = self._find_role(first)
        if role is None and await self._taps_for_group(first):
            role = "member"
        if first.person is not None and self._deps.access.get_role(first.person) is not None:
            await self._note_language(first.person, first.name, first.language_code)
        if role == "admin":
            updates = await self._let_in_by_codes(updates)
            if not updates:
                return
            first = updates[0]
        speaker = role if role in {"admin", "member"} else None
        if await self._handle_without_lane(first, speaker):
            return
        if speaker is not None and first.lane is not None and await self._is_turn(first, first.lane):
            approvals = self._deps.turns.approvals
            now = self._clock()
            is_answer = await take_answer(self._database, approvals, updates, first.lane, now=now)
            if not is_answer and not await self._job_answers.take(updates, first.lane, speaker):
                await self._run_turn(updates, first.lane, speaker)
                await self._name_topic(first, first.lane)
            self._on_answered([update.item for update in updates])
            return
        if speaker is not None and first.item.shape == "overflow":
            for group in group_by_lane(items):
                await self._actions.run(group, speaker, partial(self._refusals.refuse_overflow, group), "")
            return
        await self._act(updates, role)

    async def _parse(self, items: Sequence[InboxItem]) -> list[ParsedUpdate]:
        """Parse the items; those that cannot be parsed become dead letters, and admins hear of it.

        Of messages that were not taken only the first is parsed: there may be hundreds. Raises the library's
        error if none can be parsed.
        """
        if items[0].shape == "overflow":
            return [parse_update(items[0]), *map(ParsedUpdate, items[1:])]
        updates = list[ParsedUpdate]()
        broken = list[int]()
        for item in items:
            try:
                updates.append(parse_update(item))
            except Exception:
                if len(broken) == len(items) - 1:
                    raise
                log.exception("an update cannot be read", extra={"action": "handlers.unreadable"})
                broken.append(item.id)
        if broken:
            now = self._clock()
            async with self._database.transaction() as tx:
                await inbox.mark_dead(tx, broken, error=str(UNREADABLE_UPDATE), now=now)
                await self._deps.notices.notify(tx, "unreadable", UNREADABLE_UPDATE, now=now)
        return updates

    async def _handle_without_lane(self, update: ParsedUpdate, role: RoleOrBlocked | None) -> bool:
        """Handle what waits in a lane only once it is known to be answered; False for anything else.

        `role` is None for people who are not answered.
        """
        if update.item.shape == "guest" and update.item.lane is None:
            await self._answer_guest_query(update, role)
            return True
        if update.item.shape != "unaddressed":
            return False
        await self._deps.groups.unaddressed_messages.handle(update, may_ask=role is not None)
        return True

    async def _act(self, updates: Sequence[ParsedUpdate], role: RoleOrBlocked | None) -> None:
        first = updates[0]
        await run_in_thread(load_data)  # what most commands write has a number or a date
        action, args = self._choose_action(first, role, sees_all=await self._find_sight(first))
        moderates = await self._moderates(first, role)
        goes_on = await self._actions.run(updates, role, action, args, moderates=moderates)
        if goes_on and not await self._early_messages.place(first.item):
            await self._handle_by_role(tuple(update.item for update in updates))

    def _find_role(self, update: ParsedUpdate) -> RoleOrBlocked | None:
        """Return the role of an update's sender where it was sent; None for somebody who is not answered."""
        if update.person is None:
            return None
        is_guest = update.item.shape == "guest"
        if is_guest or update.chat_type not in GROUP_TYPES or update.lane is None:
            return self._deps.access.get_role(update.person)
        return find_role(self._deps.access, self._deps.groups.directory, update.person, update.lane)

    async def _moderates(self, update: ParsedUpdate, role: RoleOrBlocked | None) -> bool:
        """Whether the sender may stop what others asked, instruct and delete the chat; in private always.

        In a group its administrators may, and those of the gateway. Telegram is asked about the former only
        where it matters.
        """
        if update.chat_type not in GROUP_TYPES or role == "admin":
            return True
        if role is None or update.lane is None or update.person is None or not _needs_moderator(update):
            return False
        return await self._deps.groups.administrators.is_administrator(update.lane.chat, update.person)

    async def _taps_for_group(self, update: ParsedUpdate) -> bool:
        """Whether an administrator of a group taps a button there: they may have asked as the group."""
        if update.tap is None or update.lane is None:
            return False
        is_let_in = self._deps.groups.directory.find_open(update.lane.chat) is not None
        return is_let_in and await self._moderates(update, "member")

    async def _answer_guest_query(self, update: ParsedUpdate, role: RoleOrBlocked | None) -> None:
        """Answer what somebody asks in a chat of others; whom the bot does not know hears nothing at all."""
        if role is None:
            await self._actions.run([update], None, do_nothing, "")
        else:
            await self._deps.groups.guest_queries.answer(update, self._actions.get_translator(update, role))

    async def _let_in_by_codes(self, updates: Sequence[ParsedUpdate]) -> list[ParsedUpdate]:
        """Let in the strangers whose codes an admin has pasted; returns the other updates."""
        codes = [update for update in updates if await self._is_stranger_code(update)]
        for update in codes:
            await self._actions.run([update], "admin", strangers.let_in_by_code, _get_text(update.message))
        return [update for update in updates if update not in codes]

    async def _is_stranger_code(self, update: ParsedUpdate) -> bool:
        """Whether a message is the valid code of a stranger, and nothing else."""
        text = _get_text(update.message)
        if update.item.shape != "text" or not strangers.is_code(text):
            return False
        async with self._database.read_transaction() as tx:
            return await people.find_stranger_by_code(tx, text, now=self._clock()) is not None

    async def _is_turn(self, update: ParsedUpdate, lane: Lane) -> bool:
        if update.item.shape != "deep" or update.message is None:
            return update.item.shape in {"text", "guest"}
        if update.chat_type in GROUP_TYPES:  # what may go to the second endpoint is asked in private alone
            return False
        _, args = registry.parse_command(_get_text(update.message))
        async with self._database.read_transaction() as tx:
            return await consent.can_answer_deep(
                tx, update.item, self._deps.turns.fallback_endpoint, lane.chat, args
            )

    async def _run_turn(
        self, updates: Sequence[ParsedUpdate], lane: Lane, role: RoleOrBlocked | None
    ) -> None:
        first = updates[0]
        if first.person is not None and self._deps.access.is_new_guest(first.person):
            await self._admit_guest(first.person, first.name)
        await self._message_turns.run(updates, lane, self._actions.get_translator(first, role))

    async def _name_topic(self, update: ParsedUpdate, lane: Lane) -> None:
        """Name a new topic of a private chat after its first answer, once, unless its person has named it."""
        if lane.topic is None or lane.is_group or lane.is_guest:
            return
        title = shorten_text(_get_text(update.message), MAX_TITLE_CHARS)
        if not title:
            return
        async with self._database.read_transaction() as tx:
            root = await inbox.find_untitled_topic(tx, lane)
        if root is None:
            return
        async with self._database.transaction() as tx:
            await inbox.forget_body(tx, [root])  # before the call: a topic is not named twice
        await self._deps.best_effort_calls.name_topic(lane, title)

    async def _note_language(self, person: int, name: str, language_code: str | None) -> None:
        """Store which language Telegram names for a person, if it is another one than before.

        That of a new guest is only remembered: it is stored with their first message.
        """
        known = self._deps.access.get_languages(person)
        if language_code is None or find_language(language_code) == known.telegram:
            return
        languages = replace(known, telegram=find_language(language_code))
        if not self._deps.access.is_new_guest(person):
            async with self._database.transaction() as tx:
                await people.ensure_person(tx, person, name, now=self._clock())
                await people.set_languages(tx, person, languages)
        self._deps.access.remember_languages(person, languages)

    async def _admit_guest(self, person: int, name: str) -> None:
        """Store a new person as a guest of the open bot, whom admins can see and block."""
        async with self._database.transaction() as tx:
            await people.admit_guest(tx, person, name, now=self._clock())
            await people.set_languages(tx, person, self._deps.access.get_languages(person))
        self._deps.access.remember(Person(person, name, "member", guest=True))

    async def _find_sight(self, update: ParsedUpdate) -> bool | None:
        """Return whether the bot sees every message of a group that it is new in, or has other rights in."""
        if update.chat_type not in GROUP_TYPES or update.lane is None:
            return None
        if update.membership is not None:
            was_added = not update.membership.was_present
            return await self._deps.groups.sight.find(update.lane.chat, was_added=was_added)
        if self._deps.groups.directory.find(update.lane.chat) is not None:
            return None
        return await self._deps.groups.sight.find(update.lane.chat)

    def _choose_action(
        self, update: ParsedUpdate, role: RoleOrBlocked | None, *, sees_all: bool | None
    ) -> tuple[Action, str]:
        """Return the action for an update that is no turn, and its arguments.

        `sees_all`: what `_find_sight` says.
        """
        if update.chat_type in GROUP_TYPES and update.lane is not None:
            action = groups.choose_group_action(update, role, self._deps.groups.directory, sees_all=sees_all)
            if action is not None:
                return action, ""
        elif update.chat_type != "private" or update.person is None:
            return do_nothing, ""
        if update.is_reaction:
            return (retries.handle_reaction if role in {"admin", "member"} else do_nothing), ""
        if update.membership:
            return partial(self._refusals.handle_membership, update), ""
        if role == "blocked":
            return do_nothing, ""
        return self._choose_personal_action(update, role)

    def _choose_personal_action(self, update: ParsedUpdate, role: RoleOrBlocked | None) -> tuple[Action, str]:
        """Return the action for what somebody who is not blocked has written or tapped."""
        in_group = update.chat_type in GROUP_TYPES
        if update.tap:
            return callbacks.choose_button_action(update.tap.data, role, in_group=in_group)
        if update.item.shape == "stop" and role:
            return conversation.handle_stop, ""
        question_key = find_question_key(update.item.body["message"]) if update.message else None
        if question_key and role:
            return partial(tool_answers.take_reply, question_key), _get_text(update.message)
        if update.message and update.item.shape in {"command", "new", "deep"}:
            return registry.choose_command_action(_get_text(update.message), role, in_group=in_group)
        if update.message is None:
            return registry.choose_edit_action(
                _get_text(update.edited), role, otherwise=edited_messages.handle_edit
            )
        if role:
            return partial(self._refusals.refuse_message, update), ""
        return strangers.reject_stranger, ""


def _depends_on_membership(item: InboxItem) -> bool:
    """Whether an item adds the bot to a chat or removes it, or came from a group not known to be open."""
    is_unplaced = item.shape == "other" and item.lane is None
    return is_unplaced and not item.body.keys().isdisjoint({"message", "my_chat_member"})


def _needs_moderator(update: ParsedUpdate) -> bool:
    """Whether what somebody does in a group may concern what others asked."""
    kind: ButtonKind | Command | None
    if update.tap is not None:
        kind = find_button(update.tap.data)
    else:
        kind = find_command(registry.parse_command(_get_text(update.message))[0])
    return kind is not None and kind.concerns_others


def _get_text(message: ReadMessage | None) -> str:
    return message.text if message is not None else ""
