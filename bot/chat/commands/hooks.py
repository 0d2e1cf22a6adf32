"""/hooks: what other programs may post to, made, listed, limited and removed by admins in private.

The secret is shown once, in the answer that makes a hook, which is stored without it once it was sent.
"""

import re
from dataclasses import replace

from bot.chat.actions import (
    ActionContext,
    ActionResult,
    build_hint,
    build_pages,
    check_length,
    reply_hint,
    reply_text,
)
from bot.db.people import people
from bot.db.queues import hooks
from bot.db.queues.hooks import Hook
from bot.domain import Lane, Part
from bot.errors import ChangeRefused
from bot.jobs.user_jobs import MAX_TEXT_CHARS, shorten_text
from bot.translations.formats import format_number
from bot.translations.translator import isolate, translatable

POSTS_A_MINUTE = 20  # of a new hook; Telegram takes as many messages a minute in a group
MAX_POSTS_A_MINUTE = 300
MAX_POST_BYTES = 65_536
MAX_TITLE_CHARS = 30
MAX_TASK_CHARS = 200  # in the list
HOW_TO = translatable(
    "A hook lets another program write to a chat. With `/hooks add bell Family`, I show in the group "
    "Family what is posted to the hook. If you write a task on a second line, I do that with each post "
    "instead. Without a group, it all comes here."
)
HOW_TO_CHANGE = translatable(
    "`/hooks limit bell 60` lets a hook take 60 posts a minute, `/hooks remove bell` removes it."
)
NO_PORT = translatable("Hooks need a port: set `HTTP_PORT=8080`, then restart me.")
MADE = translatable("🔔 {name} · {chat}\nI show the secret only this once:\n`{secret}`\nTry it:")
NAME_REFUSED = translatable(
    "A hook's name has at most 32 letters from a to z, digits, - and _, as in `/hooks add bell Family`."
)
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


async def handle_hooks(context: ActionContext) -> ActionResult:
    """/hooks, `/hooks add NAME GROUP` with a task on further lines, `limit NAME COUNT`, or `remove NAME`."""
    if context.deps.settings.hooks_url is None:
        return reply_hint(context.translate(NO_PORT))
    first_line, _, task = context.args.partition("\n")
    verb, name, value = (*first_line.split(maxsplit=2), "", "", "")[:3]
    if not verb:
        return ActionResult(parts=await _build_list(context))
    if verb == "add" and name:
        return await _add_hook(context, name, value, task.strip())
    is_limit = verb == "limit" and value.isdecimal() and 1 <= int(value) <= MAX_POSTS_A_MINUTE
    if not is_limit and (verb != "remove" or not name):
        return reply_hint(f"{context.translate(HOW_TO)} {context.translate(HOW_TO_CHANGE)}")
    hook = next((hook for hook in await hooks.list_hooks(context.tx) if hook.name == name), None)
    if hook is None:
        raise ChangeRefused("There is no hook called {name}. /hooks lists them.", name=name)
    if is_limit:
        return await _limit_hook(context, hook, int(value))
    return await _remove_hook(context, hook)


async def _add_hook(context: ActionContext, name: str, title: str, task: str) -> ActionResult:
    translate = context.translate
    if not _NAME.fullmatch(name):
        return reply_hint(translate(NAME_REFUSED))
    check_length(task, MAX_TEXT_CHARS)
    lane = Lane(context.deps.groups.directory.find_named(title).chat) if title else context.lane
    new = Hook(0, name, context.person, lane, task or None, POSTS_A_MINUTE, MAX_POST_BYTES, context.now)
    secret = await hooks.add(context.tx, new)
    if secret is None:
        raise ChangeRefused("There is already a hook called {name}.", name=name)
    await context.record_audit("made a hook", f"hook {name}", None, _describe_hook(new))
    address = f"{context.deps.settings.hooks_url}/{name}"
    command = f"`curl -H 'Authorization: Bearer {secret}' -d Hello {address}`"
    made = translate(MADE, name=name, chat=title or translate("this chat"), secret=secret)
    return ActionResult(parts=(replace(build_hint(f"{made}\n{command}"), secret=secret),))


async def _limit_hook(context: ActionContext, hook: Hook, count: int) -> ActionResult:
    limited = replace(hook, posts_a_minute=count)
    await hooks.set_limit(context.tx, hook.id, count)
    await context.record_audit(
        "limited a hook", f"hook {hook.name}", _describe_hook(hook), _describe_hook(limited)
    )
    return reply_text(_format_hook(context, limited, await people.list_names(context.tx)))


async def _remove_hook(context: ActionContext, hook: Hook) -> ActionResult:
    await hooks.remove(context.tx, hook.id)
    await context.record_audit("removed a hook", f"hook {hook.name}", _describe_hook(hook), None)
    return reply_text(context.translate("The hook {name} is removed.", name=hook.name))


def _describe_hook(hook: Hook) -> dict[str, str | int]:
    return {"chat": hook.lane.key, "task": hook.task or "", "posts a minute": hook.posts_a_minute}


async def _build_list(context: ActionContext) -> tuple[Part, ...]:
    stored = await hooks.list_hooks(context.tx)
    if not stored:
        return (build_hint(context.translate(HOW_TO)),)
    names = await people.list_names(context.tx)
    entries = [(_format_hook(context, hook, names), ()) for hook in stored]
    pages = build_pages(context.translate("Hooks:"), entries, buttons_per_row=None)
    return (*pages, build_hint(context.translate(HOW_TO_CHANGE)))


def _format_hook(context: ActionContext, hook: Hook, names: dict[int, str]) -> str:
    translate = context.translate
    chat = isolate(shorten_text(names.get(hook.lane.chat, hook.lane.key), MAX_TITLE_CHARS))
    lines = [
        f"{'✗' if hook.why_ended else '🔔'} {hook.name} · {chat}",
        f"{context.deps.settings.hooks_url}/{hook.name}",
        translate("Made by {name}.", name=names.get(hook.person, str(hook.person))),
        translate("At most {count} posts a minute.", count=format_number(translate, hook.posts_a_minute)),
    ]
    if hook.task is not None:
        lines.append(translate("Task: {text}", text=shorten_text(hook.task, MAX_TASK_CHARS)))
    if hook.why_ended is not None:
        lines.append(translate("Ended: {reason}.", reason=translate(hook.why_ended)))
    return "\n".join(lines)
