"""/tools for admins: what may follow it, and what each word changes about a tool.

What must go out into the network, or run a tool, is left to errands: nothing here waits for anything.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from bot.db.tools import call_log as called
from bot.db.tools import sources
from bot.errors import ChangeRefused
from bot.telegram.actions import Answer, Call, pages, say
from bot.telegram.commands import operation_picker as picking
from bot.telegram.commands import tool_cards as toolcards
from bot.telegram.commands import tool_tasks as errands
from bot.telegram.commands.long_text import parts
from bot.telegram.commands.tool_names import act_of, named
from bot.tool_registry import admin_actions as registering
from bot.tool_registry import formatting as words
from bot.tool_registry import rule_parser as ruling
from bot.tool_registry.tool_info import card

CALLS = 20  # of a log
HOW_TO = """\
/tools lists them, with buttons.
/tools add URL NAME – the tools of an OpenAPI document; then you pick some, by buttons or /tools pick NAME 1 3
/tools add mcp URL NAME – those of an MCP server
/tools add endpoint NAME METHOD URL, in the next lines what it does and its parameters
/tools show, enable, disable, remove or accept NAME
/tools try NAME {"city": "Rome"} – run it once
/tools rule NAME never, once or always [asker or admins] [when {…}]
/tools log [NAME] – the last calls
/tools reload – look at all sources anew
/grant NAME everyone, @name, a number or chat; /revoke takes it back
Programs, files and secrets are entered on the machine: canvasgram tools --help"""


async def show(call: Call) -> Answer:
    """/tools, and what may follow it."""
    verb, rest = _first(call.words)
    if not verb:
        return Answer(parts=(await toolcards.page(call, 0),))
    word = _WORDS.get(verb.lower())
    if word is None or not (rest or verb.lower() in _ALONE):
        return say(HOW_TO)
    try:
        answer = await word(call, rest)
        return replace(answer, renews=verb.lower() in _CHANGES)
    except ChangeRefused as refused:
        return say(str(refused))


async def _show(call: Call, name: str) -> Answer:
    source = await sources.find(call.tx, name)
    if source is not None and source.kind != "endpoint":
        lists = (picking.page(source, 0),) if source.kind == "openapi" else ()
        return Answer(parts=(*parts(list(words.shown_source(source))), *lists))
    found = await card(call.tx, call.reach.own, name)
    lines = list(words.shown(found, await named(call)))
    return Answer(parts=parts(lines, toolcards.buttons(found)))


async def _enable(call: Call, name: str, *, enabled: bool) -> Answer:
    what = await registering.enable(act_of(call), name, enabled=enabled)
    also = " with all its tools" if what == "source" else ""
    return say(f"{name} is {'on' if enabled else 'off'}{also}.")


async def _remove(call: Call, name: str) -> Answer:
    """Ask first: the second tap removes."""
    return Answer(parts=(await toolcards.removing(call, name),))


async def _accept(call: Call, name: str) -> Answer:
    return Answer(parts=await toolcards.accepting(call, name))


async def _rule(call: Call, rest: str) -> Answer:
    name, rule = _first(rest)
    after = await registering.rule(act_of(call), name, ruling.read(rule))
    return say(f"{after.name}: {words.asks(after)}.")


async def _log(call: Call, tool: str) -> Answer:
    """The last calls, or those of one tool, the newest first."""
    found = await called.newest(call.tx, name=tool or None, most=CALLS)
    if not found:
        return say(words.uncalled(tool))
    name = await named(call)
    entries = [(words.called(one, name), ()) for one in found]
    return Answer(parts=pages("The last calls, the newest first:", entries, in_a_row=1))


def _first(text: str) -> tuple[str, str]:
    """The first word, and what follows it."""
    word, *rest = text.split(maxsplit=1) or [""]
    return word, rest[0] if rest else ""


_CHANGES = {"enable", "disable", "rule"}
_ALONE = {"log", "reload"}
_WORDS: dict[str, Callable[[Call, str], Awaitable[Answer]]] = {
    "show": _show,
    "enable": partial(_enable, enabled=True),
    "disable": partial(_enable, enabled=False),
    "remove": _remove,
    "accept": _accept,
    "rule": _rule,
    "log": _log,
    "add": partial(errands.send, do="add"),
    "pick": partial(errands.send, do="pick"),
    "try": partial(errands.send, do="try"),
    "reload": partial(errands.send, do="reload"),
}
