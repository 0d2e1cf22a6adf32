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

LONGEST = 3500


class Notices:
    """Tells admins; `always` are those the settings name (ADMIN_IDS), who need not have written yet."""

    def __init__(self, always: Iterable[int] = ()) -> None:
        self._always = frozenset(always)

    async def admins(self, tx: AsyncConnection) -> list[int]:
        """Every admin whom messages reach, as far as is known."""
        return sorted(
            (self._always - await people.unreachable(tx)) | set(await people.admins(tx, reachable=True))
        )

    async def tell(
        self, tx: AsyncConnection, subject: str, text: str, *, now: float, besides: int | None = None
    ) -> tuple[Lane, ...]:
        """Write a notice to every admin (`besides` the one it is about) down, unless they were told just that
        last.

        Returns the lanes to wake the sender for, once `tx` is committed; empty when there is no news.
        """
        if not await news(tx, subject, text, now=now):
            return ()
        return await self.send(tx, Part(text[:LONGEST], silent=True), now=now, besides=besides)

    async def send(
        self, tx: AsyncConnection, part: Part, *, now: float, besides: int | None = None
    ) -> tuple[Lane, ...]:
        """Write a message to every admin down, whatever they were told before; the lanes as above."""
        lanes = tuple(Lane(admin) for admin in await self.admins(tx) if admin != besides)
        for lane in lanes:
            await outbox.add(tx, item=None, lane=lane, parts=(part,), reply_to=None, now=now)
        return lanes


async def news(tx: AsyncConnection, subject: str, text: str, *, now: float) -> bool:
    """Note what is said about a subject; False if the same was said last."""
    row = {"subject": subject, "text": text, "told_at": now}
    told = insert(notices).values(row)
    changed = told.on_conflict_do_update(
        index_elements=["subject"], set_={"text": text, "told_at": now}, where=notices.c.text != text
    )
    return (await tx.execute(changed)).rowcount == 1
