"""What the other commands do, each in one transaction, and the lines they print. Raises ChangeRefused."""

import asyncio
import json
from dataclasses import asdict

from bot.cli.tools.session import Desk
from bot.db import revisions
from bot.db.tools import call_log as called
from bot.db.tools import sources
from bot.db.tools.audit import MACHINE
from bot.domain import Lane
from bot.errors import ChangeRefused
from bot.tool_registry import admin_actions as registering
from bot.tool_registry import formatting as words
from bot.tool_registry import grant_actions as permitting
from bot.tool_registry import grantees as whom
from bot.tool_registry import refresh as refreshing
from bot.tool_registry import rule_parser as ruling
from bot.tool_registry import secret_actions as safekeeping
from bot.tool_registry import try_tool as trying
from bot.tool_registry.registry import Catalogue
from bot.tool_registry.secret_scanner import masked
from bot.tool_registry.tool_info import Card, card, cards
from bot.tool_registry.try_tool import Trial
from bot.usage.plain_text import plain

NOBODY = 0  # who tries a tool on the machine
SEEN = 12  # letters of a hash that name a definition


async def listed(desk: Desk, *, as_json: bool) -> list[str]:
    """Every tool and every source."""
    name = await desk.named()
    async with desk.database.reading() as tx:
        found = await cards(tx, desk.own)
        came = await sources.all_of(tx)
    if as_json:
        return [json.dumps([_record(one) for one in found], indent=1)]
    return [
        *(words.brief(one, name) for one in found),
        *(["", "Sources:"] if came else []),
        *map(words.source, came),
    ]


async def shown(desk: Desk, name: str, *, as_json: bool) -> list[str]:
    """All there is to know about a tool, or else a source."""
    async with desk.database.reading() as tx:
        source = await sources.find(tx, name)
        if source is not None and source.kind != "endpoint":
            record = {
                key: getattr(source, key)
                for key in ("name", "kind", "address", "enabled", "trouble", "added_by")
            }
            if as_json:
                return [json.dumps(record, indent=1)]
            return list(words.shown_source(source))
        found = await card(tx, desk.own, name)
    if as_json:
        return [json.dumps(_record(found) | {"definition": dict(found.told)}, indent=1)]
    return list(words.shown(found, await desk.named()))


async def enable(desk: Desk, name: str, *, enabled: bool) -> str:
    async with desk.acting() as act:
        what = await registering.enable(act, name, enabled=enabled)
    also = " with all its tools" if what == "source" else ""
    return f"{name} is {'on' if enabled else 'off'}{also}."


async def remove(desk: Desk, name: str) -> str:
    async with desk.acting() as act:
        went = await registering.remove(act, name)
    return f"Removed: {', '.join(went) or name}."


async def accept(desk: Desk, name: str, seen: str | None, *, flagged: bool) -> list[str]:
    """Show what waits; with its hash as `seen`, accept just that."""
    async with desk.acting() as act:
        waits = await registering.difference(act, name)
        if seen is None:
            also = " --flagged" if waits.flags else ""
            how = f"To accept just this: canvasgram tools accept {name} --seen {waits.hash[:SEEN]}{also}"
            return [*words.difference(waits), how]
        if len(seen) < SEEN or not waits.hash.startswith(seen):
            raise ChangeRefused(f"{name} has changed again since it was shown. Look at it anew.")
        await registering.accept(act, name, seen=waits.hash, confirmed=flagged)
    return [f"{name} is accepted."]


async def rule(desk: Desk, name: str, wanted: str) -> str:
    async with desk.acting() as act:
        after = await registering.rule(act, name, ruling.read(wanted))
    return f"{after.name}: {words.asks(after)}."


async def permit(desk: Desk, name: str, holder: str, *, granted: bool) -> str:
    change = permitting.grant if granted else permitting.revoke
    async with desk.acting() as act:
        after = await change(act, name, await whom.read(act.tx, holder))
    then = words.FROM_WHEN if granted else ""
    return f"{after.name} may be used by: {words.whom(after, await desk.named())}.{then}"


async def tried(desk: Desk, name: str, arguments: str) -> tuple[list[str], bool]:
    """Run a tool once, with connections of this process; the lines, and whether it went well."""
    catalogue = _catalogue(desk)
    await catalogue.load()
    tool = catalogue.get(name)
    if tool is None:
        raise ChangeRefused(f"{name[:80]} cannot be used now; `canvasgram tools list` shows how it stands.")
    trial = Trial(tool, arguments, NOBODY, "Admin", Lane(NOBODY))
    trying.meant(tool, arguments)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(catalogue.run(), name="tools")
        try:
            came = await trying.run(desk.database, trial)
        finally:
            running.cancel()
    async with desk.acting() as act:
        await trying.note(act.tx, MACHINE, came, now=act.now)
    return [plain(line) for line in trying.told(came)], came.result.outcome == "ok"


async def reload(desk: Desk) -> list[str]:
    """Look at documents and files anew, and have a running gateway do the same with its files."""
    troubles = await refreshing.refresh(desk.database, desk.where)
    troubles += await _catalogue(desk).reload()
    async with desk.acting() as act:
        await revisions.bump(act.tx, revisions.FILES)
    return [*map(plain, troubles), "A running gateway takes this over within two seconds."]


async def log(desk: Desk, name: str | None, most: int, *, as_json: bool) -> list[str]:
    """The last calls, the newest first."""
    async with desk.database.reading() as tx:
        found = await called.newest(tx, name=name, most=most)
    if as_json:
        return [json.dumps([asdict(one) | {"arguments": masked(one.arguments)} for one in found], indent=1)]
    person = await desk.named()
    return [words.called(one, person) for one in found] or [words.uncalled(name)]


async def keep_secret(desk: Desk, name: str, value: str) -> str:
    async with desk.acting() as act:
        await safekeeping.keep(act, desk.sealer, name, value)
    return f"{name} is kept. Name it as {{{name}}} in a header or the environment of a source."


async def remove_secret(desk: Desk, name: str) -> str:
    async with desk.acting() as act:
        needed = await safekeeping.remove(act, name)
    return f"{name} is gone." + (f" Still named by: {', '.join(needed)}." if needed else "")


async def secrets(desk: Desk, *, as_json: bool) -> list[str]:
    """The names of all secrets."""
    async with desk.database.reading() as tx:
        names = await safekeeping.names(tx)
    if as_json:
        return [json.dumps(names)]
    return names or ["There are no secrets."]


async def rotate(desk: Desk) -> str:
    async with desk.acting() as act:
        count = await safekeeping.rotate(act, desk.sealer)
    return f"{count} secrets are sealed with the first key of SECRETS_KEY now; the others are not needed any more."


def _catalogue(desk: Desk) -> Catalogue:
    return Catalogue(desk.database, desk.own.values(), lambda person: True, desk.where)


def _record(found: Card) -> dict[str, object]:
    """A tool for machines."""
    return {
        "name": found.name,
        "source": found.source.name if found.source else None,
        "state": found.state,
        "trouble": found.source.trouble if found.source else None,
        "flagged": found.flagged,
        "rule": asdict(found.rule) if found.rule else None,
        "may_use": [str(one) for one in permitting.holders(found)],
        "tokens_estimated": found.cost,
        "hash": found.hash,
    }
