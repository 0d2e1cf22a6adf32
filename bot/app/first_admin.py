"""The link by which somebody becomes the first admin: shown until there is one, a new one every hour."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from bot.chat.access import Access
from bot.db.engine import Database
from bot.db.people import people
from bot.db.retry import retry_until_available

LOOK_SECONDS = 60.0  # between looks at the clock, which may be moved


class FirstAdminLink:
    """Runs until somebody is admin. `announce` gets what to show the owner.

    One link is valid at a time: while one of `canvasgram setup` or of an earlier start is, no other is made.
    """

    def __init__(
        self,
        database: Database,
        access: Access,
        bot_name: str,
        announce: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.time,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._database = database
        self._access = access
        self._bot_name = bot_name
        self._announce = announce
        self._clock = clock
        self._look_seconds = look_seconds
        self._expires_at = 0.0  # of the newest link, epoch seconds; 0: none is known

    async def run(self) -> None:
        """Look now and then, until somebody is admin."""
        while not self._access.list_admins():
            await self.show_if_due()
            await asyncio.sleep(self._look_seconds)

    async def show_if_due(self) -> None:
        """Show a link if nobody is admin and the last one has expired."""
        now = self._clock()
        if self._access.list_admins() or now < self._expires_at:
            return
        self._expires_at = await retry_until_available(partial(self._show, now))

    async def _show(self, now: float) -> float:
        """Show a new link, or say that there is a valid one; returns when it expires."""
        async with self._database.transaction() as tx:
            valid_until = await people.find_first_admin_invite_expiry(tx, now=now)
            if valid_until is None:
                code = await people.insert_first_admin_invite(tx, now=now)
        if valid_until is None:
            self._announce(self._format_link(code))
            return now + people.FIRST_ADMIN_MINUTES * 60
        minutes = max(1, round((valid_until - now) / 60))
        self._announce(
            f"Nobody is admin yet. The link shown earlier works for {minutes} more minutes; "
            "then a new one is shown here. `canvasgram setup` shows a new one at once."
        )
        return valid_until

    def _format_link(self, code: str) -> str:
        return (
            "Nobody is admin yet. Whoever opens this link first, within "
            f"{people.FIRST_ADMIN_MINUTES} minutes, becomes admin:\n  https://t.me/{self._bot_name}?start={code}"
        )
