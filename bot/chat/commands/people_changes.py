"""Letting somebody in, removing and blocking them: the same by command, button or the admins' page.

Removing or blocking somebody ends what runs for them; the last admin stays.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from bot.chat.access import ACCESS_LOST
from bot.chat.actions import ActionDependencies
from bot.chat.commands.welcome import build_greeting, list_examples
from bot.db import revisions
from bot.db.people import people
from bot.db.people.admin_changes import AdminChange
from bot.db.people.people import COMMAND_LINE_INVITER, Person, RoleOrBlocked
from bot.db.queues import hooks, jobs, outbox, stop_requests
from bot.db.tools import audit, grants, secrets
from bot.db.tools.audit import Actor
from bot.db.transaction import Transaction
from bot.domain import Lane
from bot.errors import ChangeRefused
from bot.translations.translator import DeferredText, defer, load_translator

ROLE_CHANGES = ("let in", "came in by a link", "removed", "blocked")
"""What is recorded where somebody's role changes."""


@dataclass(frozen=True, slots=True)
class PeopleChanges:
    """Makes the changes inside the caller's transaction. Raises ChangeRefused for what cannot be."""

    deps: ActionDependencies

    async def let_in(self, tx: Transaction, actor: Actor, person_id: int, *, now: float) -> AdminChange:
        """Make somebody a member, and greet them."""
        access = self.deps.access
        name = await _load_name(tx, person_id)
        if access.get_role(person_id) in {"admin", "member"} and not access.is_new_guest(person_id):
            raise ChangeRefused("{name} already has access.", name=name)
        await _record_role_change(tx, actor, person_id, "let in", "member", now=now)
        stranger = await people.find_stranger(tx, person_id)
        languages = access.get_languages(person_id)
        if stranger is not None:
            languages = replace(languages, telegram=stranger.language)
        await people.put(
            tx, person_id, name, "member", let_in_by=actor.person or COMMAND_LINE_INVITER, now=now
        )
        await people.set_languages(tx, person_id, languages)
        translate = load_translator(languages.effective)
        greeting = build_greeting(translate, name, "member", list_examples(self.deps.settings))
        await outbox.add(tx, item=None, lane=Lane(person_id), parts=(greeting,), reply_to=None, now=now)
        after_commit = (
            partial(access.remember, Person(person_id, name, "member")),
            partial(access.remember_languages, person_id, languages),
        )
        return AdminChange(defer("{name} now has access.", name=name), after_commit)

    async def remove(self, tx: Transaction, actor: Actor, person_id: int, *, now: float) -> AdminChange:
        """Make somebody a stranger, also who was blocked, and end what runs for them."""
        await self._check_may_lose_role(tx, actor, person_id)
        person = await people.find(tx, person_id)
        if person is None:
            raise ChangeRefused("Nobody with this Telegram ID has access.")
        await _record_role_change(tx, actor, person_id, "removed", None, now=now)
        await people.remove(tx, person_id, now=now)
        ends = await self._end_work(tx, person_id, now=now)
        text = defer("{name} has been removed.", name=person.name)
        if person.role == "blocked":
            text = defer("{name} is no longer blocked.", name=person.name)
        change = AdminChange(text, (partial(self.deps.access.forget, person_id), *ends))
        if person.role != "admin":
            return change
        return replace(change, calls=(partial(self.deps.best_effort_calls.reset_menu, person_id),))

    async def block(self, tx: Transaction, actor: Actor, person_id: int, *, now: float) -> AdminChange:
        """Block somebody, and end what runs for them."""
        await self._check_may_lose_role(tx, actor, person_id)
        name = await _load_name(tx, person_id)
        await _record_role_change(tx, actor, person_id, "blocked", "blocked", now=now)
        await people.put(
            tx, person_id, name, "blocked", let_in_by=actor.person or COMMAND_LINE_INVITER, now=now
        )
        remember = partial(self.deps.access.remember, Person(person_id, name, "blocked"))
        ends = await self._end_work(tx, person_id, now=now)
        reset_menu = partial(self.deps.best_effort_calls.reset_menu, person_id)
        return AdminChange(defer("{name} is blocked.", name=name), (remember, *ends), (reset_menu,))

    async def _check_may_lose_role(self, tx: Transaction, actor: Actor, person_id: int) -> None:
        """Raise ChangeRefused for somebody who can be neither removed nor blocked by this admin."""
        configured_admins = self.deps.access.configured_admins
        if person_id in configured_admins:
            raise ChangeRefused("This person is an admin through the setting ADMIN_IDS; change it there.")
        if set(await people.list_admins(tx)) | configured_admins == {person_id}:
            raise ChangeRefused("This is the last admin. First make another one, with /invite admin.")
        if person_id == actor.person:
            raise ChangeRefused("This is you: only another admin can remove or block you.")

    async def _end_work(
        self, tx: Transaction, person_id: int, *, now: float
    ) -> tuple[Callable[[], object], ...]:
        """End what runs and waits for this person, and what they were granted.

        Returns what has to be called after the commit.
        """
        await jobs.remove_all(tx, person_id)
        await hooks.end_of_person(tx, person_id)
        lanes = await people.list_busy_lanes(tx, person_id)
        for lane in lanes:
            await stop_requests.stop_lane(tx, lane)
        await grants.revoke_all(tx, person_id)
        await secrets.remove_sign_ins_of_person(tx, person_id)
        await revisions.bump(tx, revisions.TOOLS)
        callbacks = await self.deps.turns.approvals.end_for_person(tx, person_id, reason=ACCESS_LOST, now=now)
        stops = (partial(self.deps.turns.control.stop, lane) for lane in lanes)
        tools = self.deps.tools
        ends = (partial(tools.registry.end_person, person_id), partial(tools.sign_ins.end, person_id))
        return (*stops, *callbacks, *ends)


async def describe_decision(tx: Transaction, person_id: int) -> DeferredText | None:
    """What became of a stranger in the meantime, and who decided it; None: nothing yet."""
    person = await people.find(tx, person_id)
    if person is None or person.guest:
        return None
    entry = await audit.find_latest(tx, f"person {person_id}", ROLE_CHANGES)
    names = await people.list_names(tx)
    admin: object = defer("an admin")
    if entry is not None and entry.who is not None:
        admin = names.get(entry.who, admin)
    if person.role == "blocked":
        return defer("{name} has been blocked by {admin}.", name=person.name, admin=admin)
    if entry is not None and entry.who == person_id:
        return defer("{name} joined with an invite link.", name=person.name)
    return defer("{name} got access from {admin}.", name=person.name, admin=admin)


async def _record_role_change(
    tx: Transaction, actor: Actor, person_id: int, action: str, role: RoleOrBlocked | None, *, now: float
) -> None:
    """Record that somebody gets another role, or loses theirs (None)."""
    before = describe_role(await people.find(tx, person_id))
    after = None
    if role is not None:
        after = {"role": role}
    await audit.record(tx, actor, action, f"person {person_id}", change=(before, after), now=now)


def describe_role(person: Person | None) -> dict[str, str] | None:
    """What is recorded of somebody before their role changes; None: they had none."""
    if person is None:
        return None
    return {"role": person.role, "name": person.name}


async def _load_name(tx: Transaction, person_id: int) -> str:
    row = await people.find(tx, person_id) or await people.find_stranger(tx, person_id)
    if row is not None:
        return row.name
    entry = await audit.find_latest(tx, f"person {person_id}", ROLE_CHANGES)
    if entry is not None and entry.before is not None:  # they were removed, or are no longer blocked
        return str(entry.before["name"])
    return f"Person {person_id}"
