"""Groups: an admin lets the bot into one by a card; nobody answers within a day, and it leaves.

Also what follows when it is made an administrator, muted or removed, and when a group becomes a supergroup.
"""

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from bot.chat.actions import (
    Action,
    ActionContext,
    ActionResult,
    ButtonExpired,
    build_part,
    do_nothing,
    reply_change,
)
from bot.chat.commands.group_changes import GroupChanges, describe_decision
from bot.chat.commands.strangers import MAX_TITLE_CHARS, ask_from_group, send_cards
from bot.chat.group_directory import GroupDirectory
from bot.db.engine import Database
from bot.db.people import group_texts, groups
from bot.db.people.admin_changes import AdminChange
from bot.db.people.groups import Group
from bot.db.people.people import RoleOrBlocked
from bot.domain import Button, Part
from bot.telegram.best_effort_calls import BestEffortCalls
from bot.telegram.incoming.update import ParsedUpdate, to_plain_name
from bot.translations.translator import Translator, translatable

ANSWER_SECONDS = 86_400.0
GROUP_TYPES = frozenset({"group", "supergroup"})
HEARING_HINT = translatable(
    "I see only commands and replies to me there. To change that, make me an administrator of the group, or "
    "turn privacy mode off with /setprivacy at @BotFather, then remove me and add me again."
)
_BUTTON = re.compile(r"(in|leave):(-[1-9][0-9]{0,17})", re.ASCII)

log = logging.getLogger(__name__)


def choose_group_action(
    update: ParsedUpdate, role: RoleOrBlocked | None, directory: GroupDirectory, *, sees_all: bool | None
) -> Action | None:
    """Return what is done about a group's update; None if it is what a private chat's would be.

    `sees_all`: whether the bot sees every message of a group that it is new in (None: unknown).
    """
    assert update.lane is not None
    if update.membership:
        return partial(handle_membership, update, sees_all)
    message = update.message
    if message is not None and message.other_chat is not None:
        new_chat, chat = sorted((message.chat, message.other_chat))  # that of a supergroup is the lower one
        return partial(_move_group, chat, new_chat)
    if message is not None and directory.find(update.lane.chat) is None:
        return partial(announce_group, update, sees_all)
    if message is not None and not directory.can_answer(update.lane.chat):
        return do_nothing
    if role in {"admin", "member"} or update.tap:
        return None
    # A refusal would be one more message of a bot in the group.
    group = directory.find_open(update.lane.chat)
    if group is None or message is None or role is not None or update.person is None:
        return do_nothing
    return partial(ask_from_group, group.title)


async def handle_membership(
    update: ParsedUpdate, sees_all: bool | None, context: ActionContext
) -> ActionResult:
    """Note that the bot was added to a group, made an administrator, muted, or removed."""
    change = update.membership
    assert change is not None
    known = context.deps.groups.directory.find(change.chat)
    if known is not None and known.other_chat is not None and update.chat_type == "group":
        return ActionResult()  # of what it was before it became a supergroup
    if not change.is_present:
        return await _note_removal(context, known)
    title = change.chat_title or str(change.chat)
    other_chat = known.other_chat if known else None
    added_by = context.person or None
    group = Group(change.chat, title, "asked", context.now, added_by, other_chat=other_chat)
    if known is not None and known.state != "left":
        group = replace(known, title=group.title)
    group = replace(group, can_send=change.can_send, hears_all=sees_all)
    if known is not None and known.state != "left":
        return await store_group(context, group)
    if context.deps.access.get_role(context.person) == "blocked":
        left = await store_group(context, replace(group, state="left"))
        leave_chat = partial(context.deps.best_effort_calls.leave_chat, change.chat)
        return replace(left, best_effort_calls=(leave_chat,))
    return await _join_group(context, group, has_card=_was_asked_about(context, known))


def _was_asked_about(context: ActionContext, left: Group | None) -> bool:
    """Whether admins had a card within a day about a group that was left; who is blocked causes none."""
    if left is None or context.now >= left.since + ANSWER_SECONDS:
        return False
    return context.deps.access.get_role(left.added_by or 0) != "blocked"


async def announce_group(update: ParsedUpdate, sees_all: bool | None, context: ActionContext) -> ActionResult:
    """Meet a group that the bot is in, of which it was never told that it was added; then answer there.

    Where the bot is open to all, it is let in, and else admins are asked.
    """
    message = update.message
    assert message is not None
    title = message.chat_title or str(message.chat)
    group = Group(message.chat, title, "asked", context.now, hears_all=sees_all)
    return replace(await _join_group(context, group), goes_on=True)


async def handle_card_button(context: ActionContext) -> ActionResult:
    """A button of a card; `context.args` is the decision and the chat, such as `in:-1001`.

    An admin who taps after another one sees what that one did.
    """
    match = context.match_args(_BUTTON)
    group = context.deps.groups.directory.find(int(match[2]))
    if group is None:
        raise ButtonExpired
    if group.state != "asked":
        outcome = (await describe_decision(context.tx, group))(context.translate)
        return ActionResult(toast=outcome, replacement=build_part(outcome))
    changes = GroupChanges(context.deps)
    change = changes.let_in if match[1] == "in" else changes.leave
    made = await change(context.tx, context.actor, group.chat, now=context.now)
    return redraw_change(context, made)


def redraw_change(context: ActionContext, change: AdminChange) -> ActionResult:
    """Say in the place of the tapped message what holds after a change."""
    outcome = change.text(context.translate)
    return replace(reply_change(context, change), parts=(), toast=outcome, replacement=build_part(outcome))


@dataclass(frozen=True, slots=True)
class LeaveGroupsTask:
    """The system job that leaves groups about which no admin has answered within a day.

    It also leaves those again that were left within a day, for Telegram may not have answered then. What was
    read along in others is deleted as soon.
    """

    database: Database
    directory: GroupDirectory
    best_effort_calls: BestEffortCalls
    clock: Callable[[], float] = time.time

    async def __call__(self) -> None:
        now = self.clock()
        async with self.database.transaction() as tx:
            left_before = await groups.list_left(tx, since=now - ANSWER_SECONDS)
            unanswered = await groups.list_unanswered(tx, before=now - ANSWER_SECONDS)
            left = [replace(group, state="left", since=now) for group in unanswered]
            for group in left:
                await groups.put(tx, group)
            await group_texts.delete_old(tx, now=now)
        for group in left:
            self.directory.remember(group)
        for group in (*left, *left_before):
            if not self.directory.is_in(group.chat):  # or somebody has just added the bot again
                await self.best_effort_calls.leave_chat(group.chat)


async def _join_group(context: ActionContext, group: Group, *, has_card: bool = False) -> ActionResult:
    """Let the group in if the one who added the bot may do so, else ask the admins, once a day."""
    is_admin = group.added_by is not None and context.deps.access.get_role(group.added_by) == "admin"
    if is_admin or context.deps.access.mode == "open":
        # Not `context.role`: where the bot was just added, nobody has a role yet.
        is_asked_by_admin = context.deps.access.get_role(context.person) == "admin"
        actor = context.actor if is_asked_by_admin else None
        changes = GroupChanges(context.deps)
        after_commit = await changes.admit(context.tx, group, context.translate, actor=actor, now=context.now)
        return ActionResult(after_commit=after_commit)
    stored = await store_group(context, group)
    build_card = partial(_build_card, group=group, added_by=context.name)
    if not has_card and await send_cards(context, build_card):
        log.info("group %d asks to be let in", group.chat, extra={"action": "groups.asked"})
    return stored


def _build_card(translate: Translator, group: Group, added_by: str) -> Part:
    title = to_plain_name(group.title, MAX_TITLE_CHARS)  # a stranger's: no link, no mark of direction
    if group.added_by is None:
        text = translate(
            "I'm in the group “{title}”, and somebody there has asked me something.", title=title
        )
    else:
        text = translate("{name} added me to the group “{title}”.", name=added_by, title=title)
    buttons = (
        Button(translate("Give access"), f"group:in:{group.chat}"),
        Button(translate("Leave"), f"group:leave:{group.chat}"),
    )
    if group.hears_all is False:
        text = f"{text}\n{translate(HEARING_HINT)}"
    return build_part(text, buttons)


async def _note_removal(context: ActionContext, group: Group | None) -> ActionResult:
    """Note that the bot was removed from a group: nothing can be sent there, so nothing goes on for it."""
    if group is None or group.state == "left":
        return ActionResult()
    after_commit = await GroupChanges(context.deps).end(context.tx, group, now=context.now)
    return ActionResult(after_commit=after_commit)


async def _move_group(chat: int, new_chat: int, context: ActionContext) -> ActionResult:
    """Note that a group has become a supergroup, which has another number at Telegram."""
    if not await groups.move(context.tx, chat, new_chat):
        return ActionResult()
    follow = partial(context.deps.groups.directory.move, chat, new_chat)
    return ActionResult(after_commit=(follow,), changes_tools=True)  # its grants, too


async def store_group(context: ActionContext, group: Group) -> ActionResult:
    """Store a group, and note it in memory once that is committed."""
    await groups.put(context.tx, group)
    return ActionResult(after_commit=(partial(context.deps.groups.directory.remember, group),))
