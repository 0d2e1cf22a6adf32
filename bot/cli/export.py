"""What `canvasgram export` does: writes what was said in a chat to files, beside a running gateway or not."""

from pathlib import Path

from bot.attachments.outgoing_files import MAX_FILE_BYTES
from bot.chat.export_runner import make_parts
from bot.chat.export_writer import ExportWriter
from bot.db.engine import open_database
from bot.db.maintenance import exports
from bot.db.people import groups
from bot.db.queues.item_bodies import ExportOrder
from bot.db.readonly import check_readable
from bot.db.tools import audit
from bot.domain import Lane
from bot.errors import NothingFound, QuestionRefused
from bot.jobs.times.rrules import load_zone
from bot.settings import Settings
from bot.translations.translator import ENGLISH
from bot.usage.query_args import CHAT_PATTERN


async def export_chat(
    settings: Settings, chat: str, folder: Path, *, with_files: bool, now: float
) -> list[Path]:
    """Write an export of a chat, or of `chat:topic`, to new files in a folder; returns them.

    That it was read is recorded in the audit log before. Raises QuestionRefused or NothingFound.
    """
    if not CHAT_PATTERN.fullmatch(chat):
        raise QuestionRefused("Name a chat by its number, or chat:topic. Example: canvasgram export 12345678")
    check_readable(settings.database_url)
    async with open_database(settings.database_url) as database:
        async with database.transaction() as tx:
            lane = await groups.find_lane(tx, Lane.parse(chat))
            last_turn = await exports.find_last_turn(tx, lane)
            await audit.record(
                tx, audit.MACHINE, "exported", f"chat {lane.key}", change=(None, None), now=now
            )
        order = ExportOrder(lane, 0, with_files, last_turn or 0)
        writer = ExportWriter(lane, load_zone(settings.time_zone), ENGLISH, now)
        paths = list[Path]()
        async for files, _ in make_parts(database, order, writer, MAX_FILE_BYTES):
            paths += [_write_file(folder / name, data) for name, data in files.items()]
    if not paths:
        raise NothingFound(
            f"Nothing is kept of chat {chat}. `canvasgram report --by chat` shows the numbers."
        )
    return paths


def _write_file(path: Path, data: bytes) -> Path:
    """Write a new file for its owner alone; what is there already stays."""
    try:
        path.touch(0o600, exist_ok=False)
        path.write_bytes(data)
    except OSError as error:
        raise QuestionRefused(f"{path} cannot be written: {error.strerror}.") from error
    return path
