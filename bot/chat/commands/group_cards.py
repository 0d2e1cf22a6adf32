"""/groups: the groups that the bot is in, for admins in private; a card of each, with what holds there."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from bot.canvases import OutputUnit
from bot.chat.actions import (
    ActionContext,
    ActionResult,
    ButtonRows,
    build_hint,
    build_part,
    build_rows,
    reply_hint,
)
from bot.chat.commands import groups, limits
from bot.chat.commands.group_changes import GroupChanges
from bot.chat.unaddressed_messages import MAX_READS_A_MINUTE
from bot.db.people import groups as group_rows
from bot.db.people import limits as limit_rows
from bot.db.people.admin_changes import LIMIT_VALUE
from bot.db.people.groups import Group
from bot.db.queues import outbox
from bot.domain import Button, Lane, Part
from bot.errors import ChangeRefused
from bot.telegram.incoming.update import to_display_name
from bot.translations.formats import format_number
from bot.translations.translator import Translator, translatable

MAX_LISTED = 40
BUTTONS_PER_ROW = 2
HOW_TO = translatable(
    "/groups lists my groups. `/groups TITLE limit 200` sets a group's daily limit in canvases, `/groups "
    "TITLE name Robin` what people call me there; `none` removes either."
)
_HOW_TO_IN_TOKENS = translatable(
    "/groups lists my groups. `/groups TITLE limit 50000` sets a group's daily limit in tokens, `/groups "
    "TITLE name Robin` what people call me there; `none` removes either."
)
NO_GROUPS = translatable(
    "I'm not in any group yet. Add me as you would a person. If one of my admins adds me, I start right away."
)
READING_NOTICE = translatable(
    "From now on I also read what you write to each other here and keep recent messages for a day, so that "
    "I understand your questions."
)
NO_SIGHT = translatable("But I can't see what people write to each other there.")
READING_NOTICE_WITHOUT_SIGHT = translatable(
    "From now on I also read along here and keep recent messages for a day. Until I'm an administrator, I "
    "only see commands and replies to me."
)
JUDGING_NOTICE = translatable(
    "From now on I also look at messages here that don't name me, to see whether they're meant for me. I "
    "forget the others at once."
)
JUDGING_HINT = translatable(
    "Nobody has measured yet how well your model does this. Each check takes the server a moment and "
    "doesn't count towards a limit; I make at most {count} a minute per group. If unsure, I stay silent."
)
_BUTTON = re.compile(r"(show|everyone|members|along|apart|judge|wait|quit):(-[1-9][0-9]{0,17})", re.ASCII)


async def handle_groups(context: ActionContext) -> ActionResult:
    """/groups, and what may follow it: a group, and `limit` or `name` with a value."""
    if not context.args:
        return ActionResult(parts=(_build_list(context),))
    directory = context.deps.groups.directory
    for word, change in (("limit", _set_limit), ("name", _set_name)):
        title, found, value = context.args.rpartition(f" {word} ")
        if found:
            return await change(context, directory.find_named(title.strip()), value.strip())
    return ActionResult(parts=(await _build_card(context, directory.find_named(context.args)),))


async def handle_group_button(context: ActionContext) -> ActionResult:
    """A button of the list or of a card; `context.args` is what it does, and the group's chat."""
    if context.args == "list":
        return ActionResult(replacement=_build_list(context))
    match = _BUTTON.fullmatch(context.args)
    if match is None:
        return await groups.handle_card_button(context)
    group = context.deps.groups.directory.find(int(match[2]))
    if group is None or group.state != "in":
        return ActionResult(
            toast=context.translate("I'm not in this group."), replacement=_build_list(context)
        )
    return await _BUTTON_CHANGES[match[1]](context, group)


def _build_list(context: ActionContext) -> Part:
    translate = context.translate
    present = context.deps.groups.directory.list_present()
    if not present:
        return build_part(translate(NO_GROUPS))
    lines = [translate("Groups:"), *(_format_line(translate, group) for group in present[:MAX_LISTED])]
    if len(present) > MAX_LISTED:
        lines.append(translate("… and {count} more", count=len(present) - MAX_LISTED))
    open_groups = [group for group in present[:MAX_LISTED] if group.state == "in"]
    buttons = tuple(Button(group.title[:40], f"group:show:{group.chat}") for group in open_groups)
    asked = [group for group in present[:MAX_LISTED] if group.state == "asked"]
    rows = build_rows(buttons, BUTTONS_PER_ROW)
    rows += tuple(
        (
            Button(translate("Give access: {title}", title=group.title[:40]), f"group:in:{group.chat}"),
            Button(translate("Leave"), f"group:leave:{group.chat}"),
        )
        for group in asked
    )
    return build_part("\n".join(lines), *rows)


def _format_line(translate: Translator, group: Group) -> str:
    if group.state == "asked":
        return translate("{title}: waiting for your OK", title=group.title)
    if group.speakers == "everyone":
        return translate("{title}: everybody may ask", title=group.title)
    return translate("{title}: people with access may ask", title=group.title)


async def _choose_how_to(context: ActionContext) -> str:
    return HOW_TO if (await context.find_output_unit()).has_canvases else _HOW_TO_IN_TOKENS


def _choose_example(unit: OutputUnit) -> int:
    """A limit that commands are shown with."""
    return 200 if unit.has_canvases else 50_000


async def _show_card(context: ActionContext, group: Group) -> ActionResult:
    """Show the card, and find out meanwhile whether the endpoint can judge messages."""
    learn_support = context.deps.groups.unaddressed_messages.judge.learn_support
    return ActionResult(replacement=await _build_card(context, group), best_effort_calls=(learn_support,))


async def _build_card(context: ActionContext, group: Group) -> Part:
    translate = context.translate
    own_limit, _ = await limit_rows.find_rules(context.tx, group.chat)
    unit = await context.find_output_unit()
    lines = [_format_line(translate, group)]
    if own_limit is None or own_limit.canvases is None:
        lines.append(translate("No limit for the group"))
    elif not unit.has_canvases:
        tokens = unit.convert(own_limit.canvases)
        shown = format_number(translate, tokens)
        lines.append(
            translate.plural(
                "{shown} token a day for the group",
                "{shown} tokens a day for the group",
                tokens,
                shown=shown,
            )
        )
    else:
        lines.append(
            translate.plural(
                "{count} canvas a day for the group",
                "{count} canvases a day for the group",
                own_limit.canvases,
            )
        )
    if group.name is not None:
        lines.append(translate("People there also call me {name}", name=group.name))
    if group.reads_along:
        lines.append(translate("I read along and keep recent messages for a day"))
    elif not group.judges:
        lines.append(translate("I read only what is meant for me"))
    if group.judges:
        lines.append(translate("I also answer messages that seem meant for me but don't name me"))
    if group.hears_all is False:
        lines.append(translate(groups.HEARING_HINT))
    elif group.hears_all:
        lines.append(translate("I see every message there"))
    if not group.can_send:
        lines.append(translate("I can't write there right now: a group administrator has to allow it."))
    lines += [
        "",
        translate(
            "To change more: `/groups {chat} limit {limit}`, `/groups {chat} name Robin`",
            chat=group.number,
            limit=_choose_example(unit),
        ),
    ]
    return build_hint("\n".join(lines), *_build_card_buttons(translate, group))


def _build_card_buttons(translate: Translator, group: Group) -> ButtonRows:
    speakers = Button(translate("Let everybody ask"), f"group:everyone:{group.chat}")
    if group.speakers == "everyone":
        speakers = Button(translate("Only with access"), f"group:members:{group.chat}")
    reading = Button(translate("Read along"), f"group:along:{group.chat}")
    if group.reads_along:
        reading = Button(translate("Don't read along"), f"group:apart:{group.chat}")
    judging = Button(translate("Even when not named"), f"group:judge:{group.chat}")
    if group.judges:
        judging = Button(translate("Only when named"), f"group:wait:{group.chat}")
    last_row = (
        Button(translate("Leave the group"), f"group:quit:{group.chat}"),
        Button(translate("Back"), "group:list"),
    )
    return ((speakers, reading), (judging,), last_row)


async def _let_everybody_ask(context: ActionContext, group: Group) -> ActionResult:
    """What strangers take counts for the group alone, so it needs a limit first."""
    own_limit, _ = await limit_rows.find_rules(context.tx, group.chat)
    if own_limit is None or own_limit.canvases is None:
        hint = context.translate(
            "First set a daily limit for the group, such as `/groups {chat} limit {limit}`.",
            chat=group.number,
            limit=_choose_example(await context.find_output_unit()),
        )
        return replace(reply_hint(hint), toast=context.translate("The group needs a limit first."))
    return await _change_group(context, group, speakers="everyone")


async def _read_along(context: ActionContext, group: Group) -> ActionResult:
    """Read along from now on, and say so in the group."""
    changed = await _change_group(context, group, reads_along=True)
    if group.reads_along:
        return changed
    notice = build_part(context.translate(READING_NOTICE))
    if group.hears_all is False:
        notice = build_part(context.translate(READING_NOTICE_WITHOUT_SIGHT))
        changed = replace(changed, toast=context.translate(NO_SIGHT))
    await _tell_group(context, group, notice)
    return changed


async def _tell_group(context: ActionContext, group: Group, notice: Part) -> None:
    lane = Lane(group.chat)
    await outbox.add(context.tx, item=None, lane=lane, parts=(notice,), now=context.now)


async def _stop_reading_along(context: ActionContext, group: Group) -> ActionResult:
    await group_rows.delete_texts(context.tx, group.chat)
    return await _change_group(context, group, reads_along=False)


async def _judge_messages(context: ActionContext, group: Group) -> ActionResult:
    """Have messages judged that name nobody, if the endpoint can do that, and say so in the group."""
    translate = context.translate
    judge = context.deps.groups.unaddressed_messages.judge
    if judge.is_supported is False:
        raise ChangeRefused("Your model server can't do that: canvasgram check says why.")
    if judge.is_supported is None:
        toast = translate("I'm asking the model server whether it can do that. Tap again in a moment.")
        return ActionResult(toast=toast, best_effort_calls=(judge.learn_support,))
    changed = await _change_group(context, group, judges=True)
    if group.judges:
        return changed
    await _tell_group(context, group, build_part(translate(JUDGING_NOTICE)))
    hint = build_hint(translate(JUDGING_HINT, count=MAX_READS_A_MINUTE))
    changed = replace(changed, parts=(hint,))
    if group.hears_all is False:
        changed = replace(changed, toast=translate(NO_SIGHT))
    return changed


async def _quit_group(context: ActionContext, group: Group) -> ActionResult:
    change = await GroupChanges(context.deps).leave(context.tx, context.actor, group.chat, now=context.now)
    return groups.redraw_change(context, change)


async def _change_group(context: ActionContext, before: Group, **settings: Any) -> ActionResult:
    """Store a group with other settings, and show its card as it is then."""
    after = replace(before, **settings)
    stored = await groups.store_group(context, after)
    replaced = {name: getattr(before, name) for name in settings}
    if replaced != settings:
        await context.record_audit("changed", f"group {before.number}", replaced, settings)
    return replace(stored, replacement=await _build_card(context, after))


async def _set_limit(context: ActionContext, group: Group, value: str) -> ActionResult:
    if not LIMIT_VALUE.fullmatch(value):
        return reply_hint(context.translate(await _choose_how_to(context)))
    return await limits.set_limit(context, group.chat, value)


async def _set_name(context: ActionContext, group: Group, value: str) -> ActionResult:
    if value == "none":
        changed = await _change_group(context, group, name=None)
        text = context.translate("I don't have another name in “{title}”.", title=group.title)
    elif value != to_display_name(value, 0):
        raise ChangeRefused("Names use letters and digits, and have at most 32 characters.")
    else:
        changed = await _change_group(context, group, name=value)
        text = context.translate("People in “{title}” can call me {name}.", title=group.title, name=value)
        if group.hears_all is False:
            text = f"{text} {context.translate(groups.HEARING_HINT)}"
    return replace(changed, replacement=None, parts=(build_part(text),))


_BUTTON_CHANGES: dict[str, Callable[[ActionContext, Group], Awaitable[ActionResult]]] = {
    "show": _show_card,
    "everyone": _let_everybody_ask,
    "members": partial(_change_group, speakers="members"),
    "along": _read_along,
    "apart": _stop_reading_along,
    "judge": _judge_messages,
    "wait": partial(_change_group, judges=False),
    "quit": _quit_group,
}
