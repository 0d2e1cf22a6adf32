"""Secrets as admins at the machine enter, list, remove and seal them anew. Only names are ever told."""

import re
from collections.abc import Sequence

from bot.db.engine import Transaction
from bot.db.tools import secrets, sources
from bot.db.tools.sources import Source
from bot.errors import ChangeRefused
from bot.tool_registry.admin_actions import Act
from bot.tool_registry.encryption import Sealer

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_NAMED = re.compile(r"\{([A-Za-z0-9_-]+)\}")


async def keep(act: Act, sealer: Sealer, name: str, value: str) -> None:
    """Keep a secret, in place of one of the same name. Raises ChangeRefused, or SettingsRefused without
    SECRETS_KEY.
    """
    if not NAME.fullmatch(name):
        raise ChangeRefused(
            f"{name[:60]!r} is no name for a secret: letters, digits, - and _, a letter first."
        )
    if not value or not value.isprintable():
        raise ChangeRefused("A secret is one line of printable characters, and not empty.")
    there = name in await names(act.tx)
    await sealer.keep(act.tx, name, value)
    await act.note("set a secret", f"secret {name}", {"set": True} if there else None, {"set": True})


async def remove(act: Act, name: str) -> tuple[str, ...]:
    """Forget a secret; returns the sources that name it. Raises ChangeRefused if there is none of this name."""
    if not await secrets.remove(act.tx, name):
        raise ChangeRefused(f"There is no secret called {name[:60]}.")
    await act.note("removed a secret", f"secret {name}", {"set": True}, None)
    return tuple(one.name for one in await sources.all_of(act.tx) if name in named_by(one))


async def names(tx: Transaction) -> list[str]:
    """The names of all secrets."""
    return [one.name for one in await secrets.all_of(tx)]


async def rotate(act: Act, sealer: Sealer) -> int:
    """Seal all secrets with the first key of SECRETS_KEY; how many. Raises SettingsRefused if one cannot be
    opened.
    """
    count = await sealer.again(act.tx)
    await act.note("sealed the secrets anew", "secrets", None, {"count": count})
    return count


def named_by(source: Source) -> set[str]:
    """The secrets a source needs."""
    options = source.options
    parts: Sequence[object] = [options.get("headers"), options.get("environment"), options.get("secrets")]
    return set(_NAMED.findall(str(parts)))
