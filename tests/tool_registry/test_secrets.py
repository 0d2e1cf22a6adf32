"""Secrets of tools: nothing readable is stored or logged, and keys can be changed."""

import io
import logging
from dataclasses import replace

import pytest
from cryptography.fernet import Fernet

from bot import logs
from bot.db.engine import Database
from bot.db.tools import secrets
from bot.errors import SettingsRefused
from bot.tool_registry.secrets import SecretBox

OLD_KEY = Fernet.generate_key().decode()
NEW_KEY = Fernet.generate_key().decode()


async def test_a_secret_is_encrypted_and_never_logged(database: Database) -> None:
    lines = io.StringIO()
    logs.configure(stream=lines)
    async with database.transaction() as tx:
        await SecretBox([OLD_KEY]).store(tx, "weather", "s3cret/word")
        [stored] = await secrets.list_all(tx)
        assert "s3cret" not in stored.sealed
        assert await SecretBox([OLD_KEY]).decrypt_all(tx) == {"weather": "s3cret/word"}
    logging.getLogger("any").warning("called with s3cret/word and s3cret%2Fword")
    assert "s3cret" not in lines.getvalue()
    assert lines.getvalue().count(logs.HIDDEN) == 2


async def test_a_secret_of_another_process_is_hidden_in_logs_once_it_is_decrypted(database: Database) -> None:
    lines = io.StringIO()
    async with database.transaction() as tx:
        await SecretBox([OLD_KEY]).store(tx, "weather", "opened-word")
        logs.configure(stream=lines, format="json")
        logging.getLogger("any").warning("opened-word is read before")
        await SecretBox([OLD_KEY]).decrypt_all(tx)
    logging.getLogger("any").warning("opened-word is hidden after")
    assert lines.getvalue().count("opened-word") == 1


async def test_without_a_key_one_line_says_what_to_do(database: Database) -> None:
    async with database.transaction() as tx:
        assert await SecretBox([]).decrypt_all(tx) == {}
        with pytest.raises(
            SettingsRefused, match=r"SECRETS_KEY is missing.*openssl rand -base64 32"
        ) as refused:
            await SecretBox([]).store(tx, "weather", "word")
        assert "\n" not in str(refused.value)


async def test_rotation_encrypts_all_secrets_with_the_first_key(database: Database) -> None:
    async with database.transaction() as tx:
        for name in ("a", "b"):
            await SecretBox([OLD_KEY]).store(tx, name, f"value {name}")
        with pytest.raises(SettingsRefused, match="doesn't open the secret a"):
            await SecretBox([NEW_KEY]).decrypt_all(tx)
        assert await SecretBox([NEW_KEY, OLD_KEY]).reencrypt_all(tx) == 2
        assert await SecretBox([NEW_KEY]).decrypt_all(tx) == {"a": "value a", "b": "value b"}


async def test_an_encrypted_secret_under_another_name_is_not_decrypted(database: Database) -> None:
    async with database.transaction() as tx:
        await SecretBox([OLD_KEY]).store(tx, "mine", "value")
        [stored] = await secrets.list_all(tx)
        await secrets.put(tx, replace(stored, name="other"))
        with pytest.raises(SettingsRefused, match="the secret other"):
            await SecretBox([OLD_KEY]).decrypt_all(tx)
