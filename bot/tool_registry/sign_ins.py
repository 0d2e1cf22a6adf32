"""Sign-ins at MCP servers, sealed like secrets under names that no admin can give.

A sign-in is kept for one address: a source of the same name elsewhere gets nothing of it.
"""

from collections.abc import Mapping

from bot import logs
from bot.db.engine import Database
from bot.db.retry import retry_until_available
from bot.db.tools import sources
from bot.db.tools.secrets import name_sign_in
from bot.db.tools.sources import Source
from bot.errors import ChangeRefused, SettingsRefused
from bot.tool_registry.admin_actions import AdminAction
from bot.tool_registry.secrets import SecretBox
from tools.mcp.sign_in import SignIn, parse_sign_in


class SealedSignIn:
    """Where the sign-in at one source is kept, or that of one person there: the SignInStore of its server."""

    def __init__(
        self, database: Database, secret_box: SecretBox, source: Source, person: int | None = None
    ) -> None:
        self.secret_texts: frozenset[str] = frozenset()
        self._database = database
        self._secret_box = secret_box
        self._source = source
        self._person = person
        self._name = name_sign_in(source.name, person)

    async def load(self) -> SignIn | None:
        """Return the sign-in; None if there is none, or no key opens it."""

        async def read() -> str | None:
            async with self._database.read_transaction() as tx:
                return await self._secret_box.find(tx, self._name)

        try:
            sealed = await retry_until_available(read)
        except SettingsRefused:
            return None
        sign_in = read_sign_in(self._source, {self._name: sealed or ""}, self._person)
        if sign_in is not None:
            self._hide(sign_in)
        return sign_in

    async def save(self, sign_in: SignIn) -> None:
        """Keep a renewed sign-in, unless it was removed meanwhile, or replaced by a newer one."""
        self._hide(sign_in)

        async def write() -> None:
            async with self._database.transaction() as tx:
                text = await self._secret_box.find(tx, self._name)
                kept = read_sign_in(self._source, {self._name: text or ""}, self._person)
                if kept is not None and kept.signed_in_at == sign_in.signed_in_at:
                    await self._secret_box.store(tx, self._name, sign_in.as_text())

        await retry_until_available(write)

    def _hide(self, sign_in: SignIn) -> None:
        self.secret_texts |= frozenset(sign_in.list_secrets())
        logs.hide_secrets(sign_in.list_secrets())


class UnsealedSignIn:
    """Keeps a sign-in in memory: the SignInStore of a server that is looked at before it is added."""

    def __init__(self, sign_in: SignIn) -> None:
        self.sign_in = sign_in
        self.secret_texts = frozenset(sign_in.list_secrets())
        logs.hide_secrets(sign_in.list_secrets())

    async def load(self) -> SignIn | None:
        return self.sign_in

    async def save(self, sign_in: SignIn) -> None:
        self.sign_in = sign_in
        logs.hide_secrets(sign_in.list_secrets())


def read_sign_in(source: Source, secrets: Mapping[str, str], person: int | None = None) -> SignIn | None:
    """Return the sign-in of a source from decrypted secrets; None if it is for another address."""
    text = secrets.get(name_sign_in(source.name, person))
    if not text:
        return None
    try:
        sign_in = parse_sign_in(text)
    except (ValueError, TypeError):
        return None
    return sign_in if sign_in.url == source.address else None


async def store_sign_in(
    action: AdminAction, secret_box: SecretBox, name: str, sign_in: SignIn, person: int | None = None
) -> None:
    """Keep a new sign-in of a source, or of one person there.

    Where each person has one, that of the source is used for the calls of the admin who made it in a chat.
    Raises ChangeRefused if the source was removed, or moved elsewhere.
    """
    source = await sources.find(action.tx, name)
    if source is None or source.address != sign_in.url:
        raise ChangeRefused("There's no source {name} anymore.", name=name)
    logs.hide_secrets(sign_in.list_secrets())
    await secret_box.store(action.tx, name_sign_in(name, person), sign_in.as_text())
    if person is None and "personal" in source.options and action.actor.person is not None:
        await sources.put(action.tx, source.with_options(personal=action.actor.person))
    await action.record_change("signed in", f"source {name}", None, {"address": sign_in.url})
