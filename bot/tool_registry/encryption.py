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
from bot.db.tools.secrets import Sealed
from bot.errors import SettingsRefused
from bot.settings import example

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet


_HOW = f"Make one with `openssl rand -base64 32`. Example: {example('secrets_key')}"


class Sealer:
    """Seals with the first of the keys and opens with all. Without keys it can do neither, and says so."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = tuple(keys)

    async def keep(self, tx: Transaction, name: str, value: str) -> None:
        """Keep a secret, in place of one of the same name. Raises SettingsRefused without a key."""
        sealed = self._fernet().encrypt(f"{name}\n{value}".encode()).decode()
        logs.hide([value])
        await secrets.put(tx, Sealed(name, sealed, time.time()))

    async def opened(self, tx: Transaction) -> Mapping[str, str]:
        """Every secret by its name. Raises SettingsRefused when there are some that no key opens."""
        sealed = await secrets.all_of(tx)
        values = {one.name: self._value(one) for one in sealed}
        logs.hide(values.values())
        return values

    async def again(self, tx: Transaction) -> int:
        """Seal every secret anew, so that it needs the first key only; how many there were. Raises as
        `opened`.
        """
        self._fernet()
        values = await self.opened(tx)
        for name, value in values.items():
            await self.keep(tx, name, value)
        return len(values)

    def _value(self, one: Sealed) -> str:
        from cryptography.fernet import InvalidToken

        try:
            name, _, value = self._fernet().decrypt(one.sealed.encode()).decode().partition("\n")
        except InvalidToken:
            name = value = ""
        if name != one.name:
            why = f"SECRETS_KEY does not open the secret {one.name}: put the key it was sealed with behind a comma"
            raise SettingsRefused(f"{why}, or enter the secret again.")
        return value

    def _fernet(self) -> "MultiFernet":
        from cryptography.fernet import Fernet, MultiFernet

        if not self._keys:
            raise SettingsRefused(f"SECRETS_KEY is missing, and secrets are kept sealed only. {_HOW}")
        return MultiFernet([Fernet(key) for key in self._keys])
