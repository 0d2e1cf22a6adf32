"""Silent notices to all admins; a subject is reported again only when its text has changed."""

import logging
from collections.abc import Callable, Iterable

from sqlalchemy import select

from bot.db.people import people
from bot.db.portable_sql import upsert
from bot.db.queues import outbox
from bot.db.tables import notices
from bot.db.transaction import Transaction
from bot.domain import Lane, Part
from bot.translations.translator import ENGLISH, Translatable, Translator

MAX_CHARACTERS = 3500

log = logging.getLogger(__name__)


class AdminNotices:
    """Notifies admins; `configured_admins` are those of ADMIN_IDS, who need not have written yet."""

    def __init__(self, configured_admins: Iterable[int] = ()) -> None:
        self._configured_admins = frozenset(configured_admins)

    async def list_admins(self, tx: Transaction) -> list[int]:
        """Every admin who has not blocked the bot, as far as is known."""
        configured = self._configured_admins - await people.list_unreachable(tx)
        return sorted(configured | set(await people.list_admins(tx, reachable_only=True)))

    async def notify(
        self,
        tx: Transaction,
        subject: str,
        text: Translatable,
        *,
        now: float,
        excluded_admin: int | None = None,
    ) -> None:
        """Store a notice to every admin, unless the last one about the subject had the same text.

        Each admin reads it in their own language; `excluded_admin` is the one it is about.
        """
        if not await record_if_changed(tx, subject, text(ENGLISH), now=now):
            return

        def build_notice(translate: Translator) -> Part:
            return Part(text(translate)[:MAX_CHARACTERS], silent=True)

        count = await self.send(tx, build_notice, now=now, excluded_admin=excluded_admin)
        # Not the text: it may repeat what a person or a server wrote.
        log.info("%d admins are told about: %s", count, subject, extra={"action": "notices.sent"})

    async def send(
        self,
        tx: Transaction,
        build_part: Callable[[Translator], Part],
        *,
        now: float,
        excluded_admin: int | None = None,
    ) -> int:
        """Store a message to every admin, whatever they were sent before; returns how many these are.

        If it is unknown whether it arrived, it is sent again: rather twice than never.
        """
        lanes = tuple(Lane(admin) for admin in await self.list_admins(tx) if admin != excluded_admin)
        for lane in lanes:
            part = build_part(await people.find_translator(tx, lane.chat))
            rows = await outbox.add(tx, item=None, lane=lane, parts=(part,), now=now)
            await outbox.allow_repeat(tx, rows)
        return len(lanes)


async def record_if_changed(tx: Transaction, subject: str, text: str, *, now: float) -> bool:
    """Store the newest text about a subject; False if it was stored before."""
    statement = upsert(notices).values(subject=subject, text=text, told_at=now)
    if_changed = statement.on_conflict_do_update(
        index_elements=["subject"], set_={"text": text, "told_at": now}, where=notices.c.text != text
    )
    return (await tx.execute(if_changed.returning(notices.c.subject))).one_or_none() is not None


async def is_recorded(tx: Transaction, subject: str) -> bool:
    """Whether anything is stored about a subject."""
    query = select(notices.c.subject).where(notices.c.subject == subject)
    return (await tx.execute(query)).first() is not None


async def count_sending(
    tx: Transaction, subject: str, *, max_count: int, window_seconds: float, now: float
) -> bool:
    """Count that admins are told about a subject, by all replicas; False after `max_count` in the window.

    Each time has a row of its own, which is locked until `tx` ends.
    """
    for number in range(1, max_count + 1):
        statement = upsert(notices).values(subject=f"{subject} {number}", text=subject, told_at=now)
        if_over = statement.on_conflict_do_update(
            index_elements=["subject"],
            set_={"told_at": now},
            where=notices.c.told_at <= now - window_seconds,
        )
        if (await tx.execute(if_over.returning(notices.c.subject))).one_or_none() is not None:
            return True
    return False
