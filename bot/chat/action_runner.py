"""Runs an action in one transaction: its effect, the outbox rows of its answer and the items done."""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bot.attachments.outgoing_files import plan_file_parts
from bot.chat.access import ACCESS_LOST
from bot.chat.actions import (
    Action,
    ActionContext,
    ActionDependencies,
    ActionResult,
    ReadOnlyAction,
    reply_text,
)
from bot.db.conversations import turns
from bot.db.engine import Database
from bot.db.people import groups as group_rows
from bot.db.people import people
from bot.db.people.people import RoleOrBlocked
from bot.db.queues import inbox, outbox, outbox_files
from bot.db.transaction import Transaction
from bot.domain import Lane, Part
from bot.errors import ChangeRefused, StoreUnavailable
from bot.telegram.incoming.update import ParsedUpdate
from bot.translations.translator import Translator, load_translator, match_language


class ActionOutdated(Exception):
    """An admin's act was about to be stored when they were one no more, or another number of its group."""


@dataclass(frozen=True, slots=True)
class ActionRunner:
    """Runs actions, for one update or several of a lane or a person."""

    database: Database
    deps: ActionDependencies
    clock: Callable[[], float] = time.time

    async def run(
        self,
        updates: Sequence[ParsedUpdate],
        role: RoleOrBlocked | None,
        action: Action,
        args: str,
        *,
        moderates: bool = True,
    ) -> bool:
        """Act, answer and mark the items done in one transaction; then do what is outside the database.

        True: they are not done, and are to be handled once more. A ReadOnlyAction acts before that
        transaction: it would hold the write lock as long as it reads. Of an action that raises ChangeRefused
        the reason is said.
        """
        first = updates[0]
        now = self.clock()
        ids = [update.item.id for update in updates]
        lane = first.lane or Lane(0)

        async def build_context(tx: Transaction) -> ActionContext:
            known_lane = await group_rows.find_lane(tx, lane)
            if known_lane != lane:
                self.deps.groups.directory.move(known_lane.chat, lane.chat)
                raise ActionOutdated
            person = first.person or 0
            await self._check_role(tx, person, role)
            translate = self.get_translator(first, role)
            return ActionContext(
                tx, self.deps, first.item, lane, person, first.name, role, args, now, translate, moderates
            )

        result: ActionResult | None = None
        if isinstance(action, ReadOnlyAction):
            async with self.database.long_read_transaction() as tx:
                result = await _act(action, await build_context(tx), first)
        async with self.database.transaction() as tx:
            if result is None:
                result = await _act(action, await build_context(tx), first)
            if result.parts:
                parts = _mute(result.parts, all_silent=first.item.stale)
                reply_to = result.reply_to or _find_asking_message(first, lane)
                await outbox.add(tx, item=first.item.id, lane=lane, parts=parts, reply_to=reply_to, now=now)
            if result.files:
                files = await outbox_files.store(tx, result.files, turn=None, now=now)
                file_parts = plan_file_parts(files, self.get_translator(first, role))
                await outbox_files.add_parts(tx, file_parts, item=first.item.id, lane=lane, now=now)
            if not result.goes_on:
                await _settle(tx, ids, role, now=now)
        for callback in result.after_commit:
            callback()
        if result.changes_tools:
            with contextlib.suppress(StoreUnavailable):  # it is noticed a little later
                await self.deps.tools.registry.refresh()
        await self._make_best_effort_calls(first, result)
        return result.goes_on

    async def _check_role(self, tx: Transaction, person: int, role: RoleOrBlocked | None) -> None:
        """Raise ActionOutdated if an admin is one no more."""
        configured_admins = self.deps.access.configured_admins
        if role == "admin" and await people.load_role(tx, person, configured_admins) != "admin":
            raise ActionOutdated

    async def _make_best_effort_calls(self, update: ParsedUpdate, result: ActionResult) -> None:
        client = self.deps.best_effort_calls
        if update.tap:
            await client.answer_callback_query(update.tap.id, result.toast)
            if result.replacement and update.tap.message_id is not None and update.lane:
                await client.edit_message(update.lane, update.tap.message_id, result.replacement)
        for call in result.best_effort_calls:
            await call()

    def get_translator(self, update: ParsedUpdate, role: RoleOrBlocked | None) -> Translator:
        """Return the translator for the person who sent this; nothing is stored of one without a role."""
        is_known = update.person is not None and self.deps.access.get_role(update.person) is not None
        if role is None or update.person is None or not is_known:
            return load_translator(match_language(update.language_code))
        return self.deps.access.get_translator(update.person)


async def _act(action: Action, context: ActionContext, update: ParsedUpdate) -> ActionResult:
    try:
        return await action(context)
    except ChangeRefused as refused:
        text = refused.explain(context.translate)
        return ActionResult(toast=text) if update.tap else reply_text(text)


async def _settle(tx: Transaction, ids: Sequence[int], role: RoleOrBlocked | None, *, now: float) -> None:
    """Note that items are done; nothing is kept of what somebody wrote who is not answered."""
    await inbox.mark_done(tx, ids, now=now)
    if role in {None, "blocked"}:
        await inbox.forget_body(tx, ids)
        await turns.fail(tx, ids[0], reason=ACCESS_LOST, now=now)  # it may have begun before a restart


def _find_asking_message(update: ParsedUpdate, lane: Lane) -> int | None:
    """Return the message that an answer replies to in a group, where others write in between."""
    if not lane.is_group or update.message is None or update.membership is not None:
        return None
    return update.message.message_id


def _mute(parts: Sequence[Part], *, all_silent: bool) -> list[Part]:
    """Make all parts but the first silent, or all of them."""
    return [
        replace(part, silent=part.silent or all_silent or number > 0) for number, part in enumerate(parts)
    ]
