"""What is known of a topic of a private chat: whether an app has named it, and nobody else since.

Functions work inside the caller's transaction `tx`.
"""

from sqlalchemy import select

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
    is_root = inbox.c.message_id == lane.topic
    query = select(inbox.c.id, _OTHER_NAME.label("is_renamed")).where(
        inbox.c.lane == lane.key,
        inbox.c.message_id.is_not(None),
        (is_root & _IMPLICIT_NAME) | _OTHER_NAME,
    )
    rows = (await tx.execute(query)).all()
    return rows[0].id if len(rows) == 1 and not rows[0].is_renamed else None
