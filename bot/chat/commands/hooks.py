"""/hooks: what other programs may post to, made, listed, limited and removed by admins in private.

The secret is shown once, in the answer that makes a hook, which is stored without it once it was sent.
"""

import re
from dataclasses import replace

from bot.chat.actions import (
    ActionContext,
    ActionResult,
    build_hint,
    build_rows,
    expire_button,
    reply_hint,
    reply_text,
)
from bot.db.people import people
from bot.db.queues import hooks
from bot.db.queues.hooks import Hook
from bot.domain import Button, Lane, Part
from bot.jobs.user_jobs import MAX_TEXT_CHARS, shorten_text
from bot.translations.formats import format_number, format_size
from bot.translations.translator import isolate, translatable

LIMITS = (5, 20, 60, 300)  # posts a minute; Telegram takes 20 messages a minute in a group
SIZES = (4_096, 16_384, 65_536)  # bytes
BUTTONS_PER_ROW = 4
MAX_LISTED_CHARS = 30  # of a name or a title in the list
MAX_CARD_CHARS = 300  # of the task on a card
HOW_TO = translatable(
    "With a hook, another program writes to a chat. `/hooks add bell Family` makes one that says in the "
    "group Family what is posted to it. Write a task on a second line, and I'll do that with each post "
    "instead. Without a group it writes here."
)
NO_PORT = translatable("Hooks need a port: set `HTTP_PORT=8080`, then restart me.")
MADE = translatable("🔔 {name} · {chat}\nThe secret is shown only here, only now:\n`{secret}`\nTry it:")
NAME_REFUSED = translatable(
    "A hook's name has at most 32 letters from a to z, digits, - and _, as in `/hooks add bell Family`."
)
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_BUTTON = re.compile(r"(?P<verb>[a-z]+):(?P<hook>[0-9]{1,18})(?::(?P<value>[0-9]{1,6}))?")


async def handle_hooks(context: ActionContext) -> ActionResult:
    """/hooks, `/hooks add NAME GROUP` with a task on further lines, or `/hooks remove NAME`."""
    if context.deps.settings.hooks_url is None:
        return reply_hint(context.translate(NO_PORT))
    first_line, _, task = context.args.partition("\n")
    verb, _, rest = first_line.strip().partition(" ")
    name, _, title = rest.strip().partition(" ")
    if not verb:
        return ActionResult(parts=(await _build_list(context),))
    if verb == "add" and name:
        return await _add_hook(context, name, " ".join(title.split()), task.strip())
    if verb == "remove" and name:
        for hook in await hooks.list_hooks(context.tx):
            if hook.name == name:
                await _remove_hook(context, hook)
                return reply_text(context.translate("The hook {name} is removed.", name=name))
        return reply_text(context.translate("There is no hook called {name}. /hooks lists them.", name=name))
    return reply_hint(context.translate(HOW_TO))


async def handle_hooks_button(context: ActionContext) -> ActionResult:
    """A button of the list or of a card; `context.args` is such as `limit:12:60`."""
    if context.args == "list":
        return ActionResult(replacement=await _build_list(context))
    button = _BUTTON.fullmatch(context.args)
    hook = await hooks.find(context.tx, int(button["hook"])) if button else None
    if button is None or hook is None:
        return expire_button(context)
    value = int(button["value"] or 0)
    if button["verb"] == "remove":
        await _remove_hook(context, hook)
        toast = context.translate("The hook {name} is removed.", name=hook.name)
        return ActionResult(toast=toast, replacement=await _build_list(context))
    changed = hook
    if button["verb"] == "limit" and value in LIMITS:
        changed = replace(hook, posts_a_minute=value)
    if button["verb"] == "size" and value in SIZES:
        changed = replace(hook, max_bytes=value)
    if changed != hook:
        await hooks.set_limits(context.tx, changed)
        await context.record_audit(
            "limited a hook", f"hook {hook.name}", _describe_limits(hook), _describe_limits(changed)
        )
    return ActionResult(replacement=await _build_card(context, changed))


async def _add_hook(context: ActionContext, name: str, title: str, task: str) -> ActionResult:
    translate = context.translate
    if not _NAME.fullmatch(name):
        return reply_hint(translate(NAME_REFUSED))
    if len(task) > MAX_TEXT_CHARS:
        return reply_text(
            translate(
                "That's {count} characters; the limit is {limit}. Please shorten it.",
                count=format_number(translate, len(task)),
                limit=format_number(translate, MAX_TEXT_CHARS),
            )
        )
    lane = _find_lane(context, title)
    if lane is None:
        return reply_text(
            translate("I'm not in a group called {title}. /groups lists my groups.", title=title)
        )
    if len(await hooks.list_hooks(context.tx)) >= hooks.MAX_HOOKS:
        return reply_text(translate("There are too many hooks. Remove one with /hooks first."))
    new = Hook(0, name, context.person, lane, task or None, LIMITS[1], SIZES[-1], context.now)
    secret = await hooks.add(context.tx, new)
    if secret is None:
        return reply_text(translate("There is already a hook called {name}.", name=name))
    chat = title or translate("this chat")
    after = {"chat": lane.key, "task": task} | _describe_limits(new)
    await context.record_audit("made a hook", f"hook {name}", None, after)
    address = f"{context.deps.settings.hooks_url}/{name}"
    command = f"`curl -H 'Authorization: Bearer {secret}' -d Hello {address}`"
    part = build_hint(f"{translate(MADE, name=name, chat=chat, secret=secret)}\n{command}")
    return ActionResult(parts=(replace(part, secret=secret),))


def _find_lane(context: ActionContext, title: str) -> Lane | None:
    """Find the lane of the group of this title or number that is let in, or of this chat without a title."""
    if not title:
        return context.lane
    wanted = title.casefold()
    chats = [
        group.chat
        for group in context.deps.groups.directory.list_present()
        if group.state == "in"
        and (" ".join(group.title.split()).casefold() == wanted or str(group.number) == title)
    ]
    return Lane(chats[0]) if len(chats) == 1 else None


async def _remove_hook(context: ActionContext, hook: Hook) -> None:
    await hooks.remove(context.tx, hook.id)
    before = {"chat": hook.lane.key, "task": hook.task or ""}
    await context.record_audit("removed a hook", f"hook {hook.name}", before, None)


def _describe_limits(hook: Hook) -> dict[str, int]:
    return {"posts a minute": hook.posts_a_minute, "bytes": hook.max_bytes}


async def _build_list(context: ActionContext) -> Part:
    stored = await hooks.list_hooks(context.tx)
    if not stored:
        return build_hint(context.translate(HOW_TO))
    names = await people.list_names(context.tx)
    lines = [context.translate("Hooks:")]
    lines += [
        f"{'✗' if hook.why_ended else '🔔'} {hook.name} · {_format_chat(hook, names)}" for hook in stored
    ]
    buttons = [Button(hook.name, f"hooks:show:{hook.id}") for hook in stored]
    return Part("\n".join(lines), buttons=build_rows(buttons, BUTTONS_PER_ROW))


def _format_chat(hook: Hook, names: dict[int, str]) -> str:
    return isolate(shorten_text(names.get(hook.lane.chat, hook.lane.key), MAX_LISTED_CHARS))


async def _build_card(context: ActionContext, hook: Hook) -> Part:
    translate = context.translate
    names = await people.list_names(context.tx)
    maker = names.get(hook.person, str(hook.person))
    lines = [
        f"🔔 {hook.name} · {_format_chat(hook, names)}",
        f"{context.deps.settings.hooks_url}/{hook.name}",
        translate("Made by {name}.", name=maker),
        translate(
            "At most {count} posts a minute, of {size} each.",
            count=format_number(translate, hook.posts_a_minute),
            size=format_size(translate, hook.max_bytes),
        ),
    ]
    if hook.task is not None:
        lines.append(translate("Task: {text}", text=shorten_text(hook.task, MAX_CARD_CHARS)))
    if hook.why_ended is not None:
        lines.append(translate("Ended: {reason}.", reason=translate(hook.why_ended)))
    limits = [
        _build_choice(
            translate("{count} a minute", count=count),
            f"limit:{hook.id}:{count}",
            count == hook.posts_a_minute,
        )
        for count in LIMITS
    ]
    sizes = [
        _build_choice(format_size(translate, size), f"size:{hook.id}:{size}", size == hook.max_bytes)
        for size in SIZES
    ]
    last_row = (
        Button(translate("Remove"), f"hooks:remove:{hook.id}"),
        Button(translate("Back"), "hooks:list"),
    )
    rows = (*build_rows(limits, 2), tuple(sizes), last_row)
    return Part("\n".join(lines), buttons=rows)


def _build_choice(label: str, data: str, is_set: bool) -> Button:
    return Button(f"✓ {label}" if is_set else label, f"hooks:{data}")
