"""Secrets as admins at the machine enter, list, remove and seal them anew. Only names are ever told."""

import re
from collections.abc import Sequence

from bot.db.engine import Transaction
from bot.db.tools import secrets, sources
from bot.db.tools.sources import Source
from bot.errors import ChangeRefused
from bot.tool_registry.admin_actions import AdminAction
from bot.tool_registry.encryption import SecretBox

SECRET_NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_SECRET_REFERENCE = re.compile(r"\{([A-Za-z0-9_-]+)\}")


async def store_secret(action: AdminAction, secret_box: SecretBox, name: str, value: str) -> None:
    """Keep a secret, in place of one of the same name. Raises ChangeRefused, or SettingsRefused without
    SECRETS_KEY.
    """
    if not SECRET_NAME_PATTERN.fullmatch(name):
        raise ChangeRefused(
            f"{name[:60]!r} is no name for a secret: letters, digits, - and _, a letter first."
        )
    if not value or not value.isprintable():
        raise ChangeRefused("A secret is one line of printable characters, and not empty.")
    there = name in await list_secret_names(action.tx)
    await secret_box.store(action.tx, name, value)
    await action.record_change(
        "set a secret", f"secret {name}", {"set": True} if there else None, {"set": True}
    )


async def remove_secret(action: AdminAction, name: str) -> tuple[str, ...]:
    """Forget a secret; returns the sources that name it. Raises ChangeRefused if there is none of this name."""
    if not await secrets.remove(action.tx, name):
        raise ChangeRefused(f"There is no secret called {name[:60]}.")
    await action.record_change("removed a secret", f"secret {name}", {"set": True}, None)
    return tuple(
        one.name for one in await sources.list_all(action.tx) if name in list_referenced_secrets(one)
    )


async def list_secret_names(tx: Transaction) -> list[str]:
    """The names of all secrets."""
    return [one.name for one in await secrets.list_all(tx)]


async def rotate_secrets(action: AdminAction, secret_box: SecretBox) -> int:
    """Seal all secrets with the first key of SECRETS_KEY; how many. Raises SettingsRefused if one cannot be
    opened.
    """
    count = await secret_box.reencrypt_all(action.tx)
    await action.record_change("sealed the secrets anew", "secrets", None, {"count": count})
    return count


def list_referenced_secrets(source: Source) -> set[str]:
    """The secrets a source needs."""
    options = source.options
    parts: Sequence[object] = [options.get("headers"), options.get("environment"), options.get("secrets")]
    return set(_SECRET_REFERENCE.findall(str(parts)))
