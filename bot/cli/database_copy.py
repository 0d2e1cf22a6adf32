"""What `canvasgram copy` asks for, and what it, `backup` and `restore` say about what goes along."""

import sys
from collections.abc import Iterator
from pathlib import Path

import typer

from bot.db.maintenance.database_copy import copy_database
from bot.settings import Settings, build_settings
from bot.terminal import show_progress
from bot.tool_registry.program_homes import find_homes_folder


def read_target() -> str:
    """Ask for the other database, unseen, for its URL may hold a password; or read it from a pipe."""
    if sys.stdin.isatty():
        return str(typer.prompt("DATABASE_URL of the empty database", hide_input=True))
    return sys.stdin.readline().strip().removeprefix("DATABASE_URL=")


def describe_backup(settings: Settings, env_file: Path) -> Iterator[str]:
    """Yield what a backup holds and what it leaves out, in three sentences."""
    yield "A backup is the database: conversations, people, jobs, tools with their secrets, and kept files."
    others = [f"{env_file}, whose SECRETS_KEY alone opens these secrets"]
    others += [str(folder) for folder in (settings.tools_dir, settings.documents_dir) if folder is not None]
    homes = find_homes_folder(settings.database_url)
    others += [str(homes)] if homes.exists() else []
    yield f"It leaves out: {'; '.join(others)}."
    yield "Copy that too; bot/docs/moving.md says how a bot moves to another machine."


def copy_to(settings: Settings, target: str, env_file: Path, *, now: float) -> Iterator[str]:
    """Copy to the database that `target` names; yields what there is to do next. Raises as the copy does."""
    source_url = settings.database_url
    target_settings = build_settings(database_url=target, telegram_token=settings.telegram_token)
    target_url = target_settings.database_url
    sums = copy_database(source_url, target_url, show_progress, now=now)
    row_count = sum(table_sum.rows for table_sum in sums.values())
    yield f"Copied, and compared value by value: {row_count:,} rows of {len(sums)} tables."
    shown_url = target_settings.model_dump()["database_url"]
    password_note = ", with the password in the place of ***" if "***" in shown_url else ""
    yield f"Now set this in {env_file}{password_note}:"
    yield f"DATABASE_URL={shown_url}"
    if settings.backup_dir is not None:
        yield "Take BACKUP_DIR out there: pg_dump makes backups of PostgreSQL."
    homes = find_homes_folder(source_url)
    if homes.exists():
        yield f"Move the homes of MCP servers: mv {homes} {find_homes_folder(target_url)}"
    yield "The gateway starts on the old database only with `canvasgram run --here`: nothing is done twice."
