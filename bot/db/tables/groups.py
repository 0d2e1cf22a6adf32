"""Groups that the bot is in: who let them in, who may speak, what they are called, what is read along."""

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Table, UniqueConstraint, false, true

from bot.db.tables.base import Id, Text, metadata

# asked (waits for an admin) → in → left: the bot left, or was removed.
groups = Table(
    "groups",
    metadata,
    Column("chat", BigInteger, primary_key=True, autoincrement=False),
    Column("title", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("since", Float, nullable=False),  # when it got this state
    Column("added_by", BigInteger),  # who added the bot; NULL: nobody known
    Column("let_in_by", BigInteger),  # the admin; NULL: nobody yet, or the bot is open to all
    Column("speakers", Text, nullable=False, server_default="members"),  # members or everyone
    Column("name", Text),  # what its people call the assistant, beside the username
    Column("reads_along", Boolean, nullable=False, server_default=false()),
    Column("judges", Boolean, nullable=False, server_default=false()),  # asks whether a text is for it
    Column("hears_all", Boolean),  # NULL: it is not known whether Telegram sends it all messages
    Column("can_send", Boolean, nullable=False, server_default=true()),
    Column("other_chat", BigInteger),  # of a supergroup that was none, its other number
)

# Names as the prompts of a lane give them: two people of one name are told apart, and stay so.
group_speakers = Table(
    "group_speakers",
    metadata,
    Column("lane", Text, primary_key=True),
    Column("person", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    UniqueConstraint("lane", "name"),
)

# The last messages of a group that were for others, where it reads along.
group_texts = Table(
    "group_texts",
    metadata,
    Column("id", Id, primary_key=True),
    Column("lane", Text, nullable=False),
    Column("person", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("written_at", Float, nullable=False),
    Column("message_id", BigInteger),  # NULL: an earlier version moved it to a supergroup
    Index("ix_group_texts_lane", "lane", "id"),
    Index("ix_group_texts_lane_message_id", "lane", "message_id", unique=True),
    sqlite_autoincrement=True,
)
