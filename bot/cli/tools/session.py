"""The basis of every `canvasgram tools …`: the settings, the database, and one transaction an action.

A running gateway notices changes within two seconds.
"""

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bot.db.engine import Database, open_database
from bot.db.migrate import migrate_new
from bot.db.people import people
from bot.db.readonly import check_readable
from bot.db.tools.audit import MACHINE
from bot.settings import NO_BOT_TOKEN, load_settings
from bot.tool_registry.admin_actions import AdminAction, begin_action
from bot.tool_registry.formatting import NameLookup
from bot.tool_registry.loader import ToolSettings, build_builtin_tools, build_tool_settings
from bot.tool_registry.secrets import SecretBox
from bot.tool_registry.tool_info import BuiltinTools
from bot.translations.translator import ENGLISH, Translator
from tools.threads import run_in_thread

SettingChange = Callable[[AdminAction, Translator, str, str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class ToolsSession:
    """An open database, the settings of tools, and the built-in tools."""

    database: Database
    tool_settings: ToolSettings
    builtin_tools: BuiltinTools

    @property
    def secret_box(self) -> SecretBox:
        return SecretBox(self.tool_settings.secret_keys)

    @contextlib.asynccontextmanager
    async def open_action(self) -> AsyncIterator[AdminAction]:
        """Open an action of the person at the machine; it is committed when the block ends."""
        async with self.database.transaction() as tx:
            yield await begin_action(tx, MACHINE, time.time(), self.builtin_tools)

    async def change_setting(self, change: SettingChange, name: str, words: str) -> str:
        """Change a setting of a tool, or of a source's tools; return what holds now."""
        async with self.open_action() as action:
            return await change(action, ENGLISH, name, words)

    async def load_secrets(self) -> Mapping[str, str]:
        """Return every secret, decrypted."""
        async with self.database.read_transaction() as tx:
            return await self.secret_box.decrypt_all(tx)

    async def load_name_lookup(self) -> NameLookup:
        """Return a function that names people in lists."""
        async with self.database.read_transaction() as tx:
            names = {person.id: person.name for person in await people.list_people(tx)}
        return lambda number: f"{names.get(number, 'person')} ({number})"


@contextlib.asynccontextmanager
async def open_session(env_file: Path, *, can_create: bool = False) -> AsyncIterator[ToolsSession]:
    """Open a session by the settings.

    `can_create`: a database that does not exist is made, for what comes before the first run.
    Raises what is wrong with the settings, or that there is no database of this version.
    """
    settings = load_settings(env_file, telegram_token=NO_BOT_TOKEN)
    if can_create:
        await run_in_thread(migrate_new, settings.database_url)
    check_readable(settings.database_url)
    async with open_database(settings.database_url) as database:
        yield ToolsSession(database, build_tool_settings(settings), build_builtin_tools(settings))
