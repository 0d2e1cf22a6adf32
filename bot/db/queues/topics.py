"""What is known of a topic of a private chat: whether an app has named it, and nobody else since.

Functions work inside the caller's transaction `tx`.
"""

from sqlalchemy import and_, select

from bot.db.tables import inbox
from bot.db.transaction import Transaction
from bot.domain import Lane

# As updates are stored: what begins a topic that its person gave no name, and what says that they have.
_IMPLICIT_NAME = inbox.c.body.like('%"is_name_implicit":true%')
_OTHER_NAME = inbox.c.body.like('%"forum_topic_edited":%')


async def find_untitled(tx: Transaction, lane: Lane) -> int | None:
    """The inbox item that began a topic whose name is still the app's; None: it is to keep its name.

    Once the body of that item is deleted, this is None.
    """
    is_root = and_(inbox.c.lane == lane.key, inbox.c.message_id == lane.topic)
    roots = (await tx.execute(select(inbox.c.id).where(is_root, _IMPLICIT_NAME))).scalars().all()
    if len(roots) != 1:
        return None
    # Only until the topic has its name: this reads all that was written in it.
    is_renaming = and_(inbox.c.lane == lane.key, inbox.c.message_id.is_not(None), _OTHER_NAME)
    is_renamed = (await tx.execute(select(inbox.c.id).where(is_renaming).limit(1))).first() is not None
    return None if is_renamed else roots[0]
