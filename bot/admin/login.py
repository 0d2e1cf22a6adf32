"""Sessions: a single-use link begins one, and the role of its person is read again at each request.

Opening a link only asks, since previews and scanners open links, too; the form's POST uses it up.
"""

import hashlib
import hmac
from zoneinfo import ZoneInfo

from bot.admin.error_pages import PageRefused
from bot.admin.page_request import PageDependencies, Viewer
from bot.db.people import page_sessions, people
from bot.db.people.page_sessions import TokenHolder
from bot.db.tools import audit
from bot.db.tools.audit import Actor
from bot.db.transaction import Transaction

OWNER_NAME = "the owner of this machine"


async def find_invited(dependencies: PageDependencies, link: str, *, now: float) -> str | None:
    """The name of the admin whom a link lets in; None: it cannot be used. It stays unused."""
    async with dependencies.database.read_transaction() as tx:
        holder = await page_sessions.find_link(tx, link, now=now)
        if holder is None:
            return None
        return await _find_admin_name(tx, dependencies, holder)


async def log_in(dependencies: PageDependencies, link: str, *, now: float) -> str | None:
    """Use a link up and begin a session; returns its token, None if the link cannot be used.

    What strangers send is only read, so that they take no turn among those who write.
    """
    if await find_invited(dependencies, link, now=now) is None:
        return None
    async with dependencies.database.transaction() as tx:
        holder = await page_sessions.use_link(tx, link, now=now)
        if holder is None or await _find_admin_name(tx, dependencies, holder) is None:
            return None
        actor = Actor(holder.person, "page")
        await audit.record(tx, actor, "logged in", "page", change=(None, None), now=now)
        return await page_sessions.insert_session(tx, holder.person, now=now)


async def log_out(dependencies: PageDependencies, session: str, viewer: Viewer, *, now: float) -> None:
    """End a session."""
    async with dependencies.database.transaction() as tx:
        await page_sessions.end_session(tx, session)
        actor = Actor(viewer.person, "page")
        await audit.record(tx, actor, "logged out", "page", change=(None, None), now=now)


async def find_viewer(dependencies: PageDependencies, session: str, *, now: float) -> Viewer | None:
    """Whose session this is; None if it is over, or its person no admin any more."""
    default_zone = dependencies.settings.time_zone
    async with dependencies.database.read_transaction() as tx:
        holder = await page_sessions.find_session(tx, session, now=now)
        name = await _find_admin_name(tx, dependencies, holder) if holder else None
        if holder is None or name is None:
            return None
        zone = ZoneInfo(default_zone)
        if holder.person is not None:
            zone = await people.load_zone(tx, holder.person, default_zone)
    return Viewer(holder.person, name, zone, build_csrf_token(session))


async def check_session(tx: Transaction, *, dependencies: PageDependencies, session: str, now: float) -> None:
    """Raise PageRefused if the session is over by now, or its person no admin any more."""
    holder = await page_sessions.find_session(tx, session, now=now)
    if holder is None or await _find_admin_name(tx, dependencies, holder) is None:
        raise PageRefused("You are logged out. Write /admin to the bot to log in again.", status=401)


def build_csrf_token(session: str) -> str:
    """The token that forms of a session carry: it follows from the session's, which only its browser has."""
    return hmac.new(session.encode(), b"form", hashlib.sha256).hexdigest()


async def _find_admin_name(
    tx: Transaction, dependencies: PageDependencies, holder: TokenHolder
) -> str | None:
    """The name of an admin; None for somebody who is none."""
    if holder.person is None:
        return OWNER_NAME
    if await people.load_role(tx, holder.person, dependencies.settings.admin_ids) != "admin":
        return None
    person = await people.find(tx, holder.person)
    return person.name if person else f"Person {holder.person}"
