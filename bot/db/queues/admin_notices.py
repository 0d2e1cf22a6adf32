"""The one silent feed to all admins: a subject is told again only when what there is to say about it has
changed.
"""

from collections.abc import Iterable

from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.people import people
from bot.db.queues import outbox
from bot.db.tables import notices
from bot.domain import Lane, Part

MAX_CHARACTERS = 3500


class AdminNotices:
    """Tells admins; `always` are those the settings name (ADMIN_IDS), who need not have written yet."""

    def __init__(self, configured_admins: Iterable[int] = ()) -> None:
        self._configured_admins = frozenset(configured_admins)

    async def list_admins(self, tx: AsyncConnection) -> list[int]:
        """Every admin whom messages reach, as far as is known."""
        return sorted(
            (self._configured_admins - await people.list_unreachable(tx))
            | set(await people.list_admins(tx, reachable_only=True))
        )

    async def notify(
        self, tx: AsyncConnection, subject: str, text: str, *, now: float, excluded_admin: int | None = None
    ) -> tuple[Lane, ...]:
        """Write a notice to every admin (`besides` the one it is about) down, unless they were told just that
        last.

        Returns the lanes to wake the sender for, once `tx` is committed; empty when there is no news.
        """
        if not await record_if_changed(tx, subject, text, now=now):
            return ()
        return await self.send(
            tx, Part(text[:MAX_CHARACTERS], silent=True), now=now, excluded_admin=excluded_admin
        )

    async def send(
        self, tx: AsyncConnection, part: Part, *, now: float, excluded_admin: int | None = None
    ) -> tuple[Lane, ...]:
        """Write a message to every admin down, whatever they were told before; the lanes as above."""
        lanes = tuple(Lane(admin) for admin in await self.list_admins(tx) if admin != excluded_admin)
        for lane in lanes:
            await outbox.add(tx, item=None, lane=lane, parts=(part,), reply_to=None, now=now)
        return lanes


async def record_if_changed(tx: AsyncConnection, subject: str, text: str, *, now: float) -> bool:
    """Note what is said about a subject; False if the same was said last."""
    row = {"subject": subject, "text": text, "told_at": now}
    told = insert(notices).values(row)
    changed = told.on_conflict_do_update(
        index_elements=["subject"], set_={"text": text, "told_at": now}, where=notices.c.text != text
    )
    return (await tx.execute(changed)).rowcount == 1
