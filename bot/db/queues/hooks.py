"""Hooks: what other programs may post to, and the posts, which become items of the inbox.

A hook ends with the right of the admin who made it; it keeps its row, for admins to see. Of its secret only
the hash is stored. Functions work inside the caller's transaction `tx`.
"""

import hashlib
import hmac
import math
import secrets
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Row, and_, bindparam, delete, func, insert, select, update

from bot.db.people import people
from bot.db.portable_sql import upsert
from bot.db.queues import inbox as inbox_queue
from bot.db.queues.item_bodies import HookPost
from bot.db.tables import hook_posts, hooks, inbox, outbox
from bot.db.transaction import Transaction
from bot.domain import DAY_SECONDS, HOOK_SECRET_PREFIX, Lane
from bot.translations.translator import translatable

MINUTE_SECONDS = 60.0
KEY_SECONDS = DAY_SECONDS  # a post with the same key is not done again for so long
MAX_WAITING = 100  # items and messages of a lane, beyond which its hooks take no more
ADMIN_LOST = translatable("the person who made it is no longer an admin")
_NO_HASH = "0" * 64  # what a secret is compared with where there is no hook

_SELECT_NAMED = select(hooks).where(hooks.c.name == bindparam("of_name"))
# Of the newest posts the one that has to be a minute old before there may be another.
_SELECT_OLDEST_COUNTED = (
    select(hook_posts.c.received_at)
    .where(hook_posts.c.hook == bindparam("of_hook"))
    .order_by(hook_posts.c.received_at.desc())
    .limit(1)
    .offset(bindparam("skipped"))
)
_SELECT_KEY = select(hook_posts.c.id).where(
    hook_posts.c.hook == bindparam("of_hook"),
    hook_posts.c.key_hash == bindparam("key"),
    hook_posts.c.received_at > bindparam("since"),
)
_WAITS_IN_INBOX = and_(inbox.c.state == "new", inbox.c.lane == bindparam("of_lane"))
_WAITS_IN_OUTBOX = and_(outbox.c.state == "new", outbox.c.lane == bindparam("of_lane"))
_COUNT_WAITING = select(
    select(func.count()).select_from(inbox).where(_WAITS_IN_INBOX).scalar_subquery()
    + select(func.count()).select_from(outbox).where(_WAITS_IN_OUTBOX).scalar_subquery()
)


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook. `task`: what is done with a post (None: it is said). `why_ended` None: it takes posts."""

    id: int
    name: str
    person: int
    lane: Lane
    task: str | None
    posts_a_minute: int
    max_bytes: int
    made_at: float
    why_ended: str | None = None


class LimitReached(Exception):
    """A hook takes no post now; it may after `retry_seconds`."""

    def __init__(self, retry_seconds: float) -> None:
        super().__init__("limit reached")
        self.retry_seconds = math.ceil(retry_seconds)


async def add(tx: Transaction, hook: Hook) -> str | None:
    """Store a new hook; returns its secret, or None while another one has its name.

    One of the same name that has ended is removed. The id is given by the database.
    """
    ended = select(hooks.c.id).where(hooks.c.name == hook.name, hooks.c.why_ended.is_not(None))
    for former in (await tx.execute(ended)).scalars().all():
        await remove(tx, former)
    secret = HOOK_SECRET_PREFIX + secrets.token_urlsafe(32)
    row = asdict(hook) | {"lane": hook.lane.key, "secret_hash": _hash(secret)}
    del row["id"]
    added = upsert(hooks).values(row).on_conflict_do_nothing(index_elements=["name"]).returning(hooks.c.id)
    return secret if (await tx.execute(added)).scalar_one_or_none() is not None else None


async def list_hooks(tx: Transaction) -> list[Hook]:
    """All hooks by name, also those that have ended."""
    return [_to_hook(row) for row in await tx.execute(select(hooks).order_by(hooks.c.name))]


async def find(tx: Transaction, hook: int) -> Hook | None:
    """The hook of this id, also one that has ended."""
    row = (await tx.execute(select(hooks).where(hooks.c.id == hook))).one_or_none()
    return None if row is None else _to_hook(row)


async def find_by_secret(tx: Transaction, name: str, secret: str, *, for_update: bool = False) -> Hook | None:
    """The hook of this name, if this is its secret and it has not ended; any other answer costs the same.

    `for_update`: other replicas wait with their posts to it until `tx` has ended.
    """
    query = _SELECT_NAMED.with_for_update() if for_update else _SELECT_NAMED
    row = (await tx.execute(query, {"of_name": name})).one_or_none()
    stored_hash = _NO_HASH if row is None else row.secret_hash
    is_right = hmac.compare_digest(_hash(secret), stored_hash)
    if row is None or not is_right or row.why_ended is not None:
        return None
    return _to_hook(row)


async def check_right(tx: Transaction, hook: Hook, configured_admins: Collection[int]) -> bool:
    """Whether a hook takes posts: it has not ended, and its admin still is one; if not, their hooks end now.

    `configured_admins` are those of the settings.
    """
    if await people.load_role(tx, hook.person, configured_admins) == "admin":
        return hook.why_ended is None
    await end_of_person(tx, hook.person)
    return False


async def end_of_person(tx: Transaction, person: int) -> None:
    """End the hooks of somebody who is no admin: they take no posts, and what they have taken is not done."""
    live = update(hooks).where(hooks.c.person == person, hooks.c.why_ended.is_(None))
    await tx.execute(live.values(why_ended=ADMIN_LOST))


async def remove(tx: Transaction, hook: int) -> None:
    """Delete a hook, and what is kept of its posts."""
    await tx.execute(delete(hook_posts).where(hook_posts.c.hook == hook))
    await tx.execute(delete(hooks).where(hooks.c.id == hook))


async def set_limit(tx: Transaction, hook: int, posts_a_minute: int) -> None:
    """Store how many posts a hook takes a minute."""
    await tx.execute(update(hooks).where(hooks.c.id == hook).values(posts_a_minute=posts_a_minute))


async def is_new(tx: Transaction, hook: Hook, key: str | None, *, now: float) -> bool:
    """Whether a post is taken, and was not before with this Idempotency-Key (None: without one); only reads.

    The limit of a minute counts the posts that all replicas have taken. Raises LimitReached.
    """
    if key is not None:
        known = {"of_hook": hook.id, "key": _hash(key), "since": now - KEY_SECONDS}
        if (await tx.execute(_SELECT_KEY, known)).first() is not None:
            return False
    counted = {"of_hook": hook.id, "skipped": hook.posts_a_minute - 1}
    oldest = (await tx.execute(_SELECT_OLDEST_COUNTED, counted)).scalar()
    if oldest is not None and oldest > now - MINUTE_SECONDS:
        raise LimitReached(oldest + MINUTE_SECONDS - now)
    waiting = (await tx.execute(_COUNT_WAITING, {"of_lane": hook.lane.key})).scalar_one()
    if waiting >= MAX_WAITING:
        raise LimitReached(MINUTE_SECONDS)
    return True


async def store_post(tx: Transaction, hook: Hook, text: str, key: str | None, *, now: float) -> bool:
    """Store a post as an item of the inbox if it is new. Raises LimitReached.

    `hook` was found in this transaction for an update: its posts are stored one after the other.
    """
    if not await is_new(tx, hook, key, now=now):
        return False
    is_old = hook_posts.c.received_at <= now - KEY_SECONDS
    await tx.execute(delete(hook_posts).where(hook_posts.c.hook == hook.id, is_old))
    row = {"hook": hook.id, "key_hash": None if key is None else _hash(key), "received_at": now}
    await tx.execute(insert(hook_posts).values(row))
    body = HookPost(hook.id, hook.name, text).serialize()
    await inbox_queue.add(tx, kind="hook", lane=hook.lane, sender=hook.person, body=body, now=now)
    return True


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _to_hook(row: Row[Any]) -> Hook:
    fields = row._asdict()
    del fields["secret_hash"]
    return Hook(**fields | {"lane": Lane.parse(row.lane)})
