"""Secrets of tools: sealed with SECRETS_KEY, opened only to be used. The one room that speaks cryptography.

What is opened is told to the logs, so that no line shows it. A seal holds its name, so that none can be put
in another's place.
"""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bot import logs
from bot.db.engine import Transaction
from bot.db.tools import secrets
from bot.db.tools.secrets import SealedSecret
from bot.errors import SettingsRefused
from bot.settings import format_example

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet


_KEY_HINT = f"Make one with `openssl rand -base64 32`. Example: {format_example('secrets_key')}"


class SecretBox:
    """Seals with the first of the keys and opens with all. Without keys it can do neither, and says so."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = tuple(keys)

    async def store(self, tx: Transaction, name: str, value: str) -> None:
        """Keep a secret, in place of one of the same name. Raises SettingsRefused without a key."""
        sealed = self._build_fernet().encrypt(f"{name}\n{value}".encode()).decode()
        logs.hide_secrets([value])
        await secrets.put(tx, SealedSecret(name, sealed, time.time()))

    async def decrypt_all(self, tx: Transaction) -> Mapping[str, str]:
        """Every secret by its name. Raises SettingsRefused when there are some that no key opens."""
        sealed = await secrets.list_all(tx)
        values = {one.name: self._decrypt(one) for one in sealed}
        logs.hide_secrets(values.values())
        return values

    async def reencrypt_all(self, tx: Transaction) -> int:
        """Seal every secret anew, so that it needs the first key only; how many there were. Raises as
        `opened`.
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
            why = f"SECRETS_KEY does not open the secret {stored.name}: put the key it was sealed with behind a comma"
            raise SettingsRefused(f"{why}, or enter the secret again.")
        return value

    def _build_fernet(self) -> "MultiFernet":
        from cryptography.fernet import Fernet, MultiFernet

        if not self._keys:
            raise SettingsRefused(f"SECRETS_KEY is missing, and secrets are kept sealed only. {_KEY_HINT}")
        return MultiFernet([Fernet(key) for key in self._keys])
