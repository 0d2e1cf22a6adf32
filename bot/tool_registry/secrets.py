"""Secrets of tools: encrypted with SECRETS_KEY, decrypted only to be used.

The only user of cryptography.

Decrypted values are registered with the logs, so that no line shows them. An encrypted secret holds its name,
so that none can be put in another's place. Admins at the machine store, remove, list and re-encrypt secrets;
they see names only.
"""

import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bot import logs
from bot.db.tools import secrets as secret_rows
from bot.db.tools import sources
from bot.db.tools.secrets import SealedSecret
from bot.db.tools.sources import Source
from bot.db.transaction import Transaction
from bot.errors import ChangeRefused, SettingsRefused
from bot.settings import format_example
from bot.tool_registry.admin_actions import AdminAction
from bot.tool_registry.secret_references import find_secret_names
from bot.translations.translator import translatable

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

SECRET_NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_KEY_HINT = f"Make one with `openssl rand -base64 32`. Example: {format_example('secrets_key')}"


class SecretBox:
    """Encrypts with the first of the keys and decrypts with all; without keys both raise SettingsRefused."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = tuple(keys)

    async def store(self, tx: Transaction, name: str, value: str) -> None:
        """Store a secret, replacing one of the same name. Raises SettingsRefused without a key."""
        sealed = self._build_fernet().encrypt(f"{name}\n{value}".encode()).decode()
        logs.hide_secrets([value])
        await secret_rows.put(tx, SealedSecret(name, sealed, time.time()))

    async def find(self, tx: Transaction, name: str) -> str | None:
        """Return one secret. Raises SettingsRefused if no key decrypts it."""
        stored = await secret_rows.find(tx, name)
        if stored is None:
            return None
        return self._decrypt(stored)

    def check_key(self) -> None:
        """Raise SettingsRefused if nothing can be stored."""
        self._build_fernet()

    async def decrypt_all(self, tx: Transaction) -> Mapping[str, str]:
        """Return every secret by its name. Raises SettingsRefused if no key decrypts one of them."""
        stored = await secret_rows.list_all(tx)
        values = {secret.name: self._decrypt(secret) for secret in stored}
        logs.hide_secrets(values.values())
        return values

    async def reencrypt_all(self, tx: Transaction) -> int:
        """Encrypt every secret again, so that it needs the first key only; return how many there are.

        Raises SettingsRefused as `decrypt_all` does.
        """
        self._build_fernet()
        values = await self.decrypt_all(tx)
        for name, value in values.items():
            await self.store(tx, name, value)
        return len(values)

    def _decrypt(self, stored: SealedSecret) -> str:
        from cryptography.fernet import InvalidToken

        try:
            name, _, value = self._build_fernet().decrypt(stored.sealed.encode()).decode().partition("\n")
        except InvalidToken:
            name = value = ""
        if name != stored.name:
            raise SettingsRefused(
                translatable(
                    "SECRETS_KEY doesn't open the secret {name}: add the key it was encrypted with after a "
                    "comma, or enter the secret again."
                ),
                name=stored.name,
            )
        return value

    def _build_fernet(self) -> "MultiFernet":
        from cryptography.fernet import Fernet, MultiFernet

        if not self._keys:
            raise SettingsRefused(
                translatable("SECRETS_KEY is missing, and I only store secrets encrypted. {hint}"),
                hint=_KEY_HINT,
            )
        return MultiFernet([Fernet(key) for key in self._keys])


async def store_secret(action: AdminAction, secret_box: SecretBox, name: str, value: str) -> None:
    """Store a secret, replacing one of the same name.

    Raises ChangeRefused, or SettingsRefused without SECRETS_KEY.
    """
    if not SECRET_NAME_PATTERN.fullmatch(name):
        raise ChangeRefused(
            "{name} isn't a valid name for a secret: use letters, digits, - and _, and start with a letter.",
            name=repr(name[:60]),
        )
    if not value or not value.isprintable():
        raise ChangeRefused("A secret is one line of printable characters, and not empty.")
    before = {"set": True} if name in await list_secret_names(action.tx) else None
    await secret_box.store(action.tx, name, value)
    await action.record_change("set a secret", f"secret {name}", before, {"set": True})


async def remove_secret(action: AdminAction, name: str) -> tuple[str, ...]:
    """Delete a secret; return the sources that still name it. Raises ChangeRefused if there is none."""
    if not SECRET_NAME_PATTERN.fullmatch(name) or not await secret_rows.remove(action.tx, name):
        raise ChangeRefused("There is no secret called {name}.", name=name[:60])
    await action.record_change("removed a secret", f"secret {name}", {"set": True}, None)
    all_sources = await sources.list_all(action.tx)
    return tuple(source.name for source in all_sources if name in list_referenced_secrets(source))


async def list_secret_names(tx: Transaction) -> list[str]:
    """Return the names of all secrets that admins entered."""
    names = (secret.name for secret in await secret_rows.list_all(tx))
    return [name for name in names if SECRET_NAME_PATTERN.fullmatch(name)]


async def rotate_secrets(action: AdminAction, secret_box: SecretBox) -> int:
    """Encrypt all secrets with the first key of SECRETS_KEY; return how many there are.

    Raises SettingsRefused if one cannot be decrypted.
    """
    count = await secret_box.reencrypt_all(action.tx)
    await action.record_change("sealed the secrets anew", "secrets", None, {"count": count})
    return count


def list_referenced_secrets(source: Source) -> set[str]:
    """Return the names of the secrets a source needs."""
    parts = ("headers", "environment", "secrets", "fixed", "server", "sign_in")
    return set(find_secret_names(str(source.options.get(part)) for part in parts))
