"""Lanes and their conversations: turns, verdicts, messages, attachments, tool calls, notes, instructions."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    LargeBinary,
    Table,
    UniqueConstraint,
    false,
    text,
)

from bot.db.tables.base import Id, Integer, Text, metadata

# A lane's current conversation; /new continues with the next number.
lanes = Table(
    "lanes",
    metadata,
    Column("lane", Text, primary_key=True),
    Column("conversation", Integer, nullable=False, server_default=text("1")),
    Column("notes", Text),  # the chat's notes as they stood when the conversation began; NULL: not begun
    # The chat's instructions as they stood then; empty: there were none; NULL: not begun.
    Column("instructions", Text),
    # Names of the files kept for the chat, as they stood then; empty: there were none; NULL: not begun.
    Column("files", Text),
    Column("think", Text),  # auto, on or off, as the chat has set it; NULL: as the settings say
    Column("tools", Text),  # JSON: names its prompt offers, fixed between cuts; NULL: not begun
    # A host and what may go to that endpoint (text notes files images, no, or asked); NULL: not asked.
    Column("consent", Text),
    # The same for sound, with the hosts of the services that hear and speak (speech, no, or asked).
    Column("speech_consent", Text),
    # Of the whole chat: whether answers are spoken (on, off), or that Telegram refuses voice messages there
    # (refused); NULL: those to a voice message are.
    Column("voice", Text),
    # The first conversation that may be searched; NULL: all, for the chat knows that they are.
    Column("searchable_from", Integer),
    # Of this conversation; a /new clears them.
    Column("cut", Id),  # the newest turn that has left the prompt
    Column("shortened", Id),  # the newest turn whose tool results are short and whose images are left out
    # The chat was notified that something has left.
    Column("told_cut", Boolean, nullable=False, server_default=false()),
    Column("summary", Text),  # of what has left, as it stands in the prompt
    Column("summary_ahead", Text),  # of what leaves next, made in advance
    Column("summary_upto", Id),  # the newest turn that summary_ahead covers
    # Text of strangers was in the prompts that the summaries were made of.
    Column("summary_outside", Boolean, nullable=False, server_default=false()),
    Column("summary_ahead_outside", Boolean, nullable=False, server_default=false()),
)

# running → ended, or failed: it has no answer. parked: it waits for a person. replaced: a /retry or an edit
# replaced it, it is left out of the history. forgotten: its texts were deleted.
turns = Table(
    "turns",
    metadata,
    Column("id", Id, primary_key=True),
    Column("item", Id, nullable=False, unique=True),  # its first inbox item
    Column("lane", Text, nullable=False),
    Column("person", BigInteger, nullable=False),
    Column("conversation", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("ending", Text),  # answered, cut, steps, seconds, stopped, …
    Column("tools", Text, nullable=False),  # names offered, a JSON list
    Column("thinking", Boolean, nullable=False),
    Column("thinking_why", Text, nullable=False),
    Column("endpoint", Text, nullable=False, server_default="main"),  # main or fallback
    Column("endpoint_why", Text),  # why it is there; NULL: there is no other
    Column("prompt", Integer),  # estimated tokens of its first prompt, to compare with `counted`
    Column("size", Integer, nullable=False, server_default=text("0")),  # estimated tokens of the whole turn
    Column("short", Integer, nullable=False, server_default=text("0")),  # the same, tool results shortened
    Column("counted", Integer),  # tokens the server counted for its first prompt
    Column("used", Text, nullable=False, server_default="[]"),  # names of the tools it called, a JSON list
    Column("received_at", Float, nullable=False),
    Column("preface", Text, nullable=False, server_default=text("''")),  # put before its answer; then ""
    Column("began_at", Float, nullable=False),
    Column("ended_at", Float),
    Index("ix_turns_lane_conversation_state", "lane", "conversation", "state", "ended_at"),
    Index("ix_turns_person_ended_at", "person", "ended_at"),
    Index("ix_turns_received_at", "received_at", "person", "lane", "thinking", "ending"),
    sqlite_autoincrement=True,
)

messages = Table(
    "messages",
    metadata,
    Column("id", Id, primary_key=True),
    Column("turn", Id, ForeignKey("turns.id"), nullable=False),
    Column("role", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("calls", Text),  # JSON: [{id, name, arguments}]
    Column("call_id", Text),
    Column("reasoning", Text),
    Column("made_at", Float, nullable=False),
    Index("ix_messages_turn", "turn", "id"),
    sqlite_autoincrement=True,
)

# What came with a message. An image is stored as the model gets it, a document and a voice as their text.
attachments = Table(
    "attachments",
    metadata,
    Column("id", Id, primary_key=True),
    Column("message", Id, ForeignKey("messages.id"), nullable=False),
    Column("kind", Text, nullable=False),  # image, document or sound
    Column("name", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("data", LargeBinary),  # of an image
    Column("text", Text),  # of a document or a voice: all that was read, also what the prompt leaves out
    Column("person", BigInteger, nullable=False, server_default=text("0")),  # who sent it
    Column("size", Integer, nullable=False, server_default=text("0")),  # of data and text, in bytes
    Index("ix_attachments_message", "message"),
    Index("ix_attachments_person", "person", "size"),
    sqlite_autoincrement=True,
)

# Files that outlive their conversation, each with the text that was read of it.
kept_files = Table(
    "kept_files",
    metadata,
    Column("id", Id, primary_key=True),
    Column("chat", BigInteger, nullable=False),  # 0: of the owner's folder, for everybody with access
    Column("person", BigInteger, nullable=False),  # who sent it; 0: the owner
    Column("turn", Id),  # below whose answer it was kept; NULL: of the owner's folder
    Column("name", Text, nullable=False),
    Column("hash", Text, nullable=False),  # of its text, or of a file of the folder: its name and bytes
    Column("pages", Integer),  # NULL: it has none
    Column("size", Integer, nullable=False),  # of its text, in bytes
    Column("kept_at", Float, nullable=False),
    Column("used_at", Float, nullable=False),
    Column("text", Text, nullable=False),  # last: SQLite reads it to come to what stands behind it
    UniqueConstraint("chat", "hash"),
    Index("ix_kept_files_person", "person", "size"),
    sqlite_autoincrement=True,
)

# What their texts are searched by; a file without rows here has no index yet. See agent/word_index.
kept_words = Table(
    "kept_words",
    metadata,
    Column(
        "file", Id, ForeignKey("kept_files.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    ),
    Column("bucket", Integer, primary_key=True, autoincrement=False),
    Column("words", LargeBinary, nullable=False),
)

# wanted (waits for approval) → running → done. `running` without a result after a crash: outcome unknown.
tool_calls = Table(
    "tool_calls",
    metadata,
    Column("id", Id, primary_key=True),
    Column("turn", Id, ForeignKey("turns.id"), nullable=False),
    Column("step", Integer, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("outcome", Text),
    # Of a refused call: why, a bot.domain.RefusalReason; NULL: it is older than this column.
    Column("refusal", Text),
    Column("result", Text),
    # Characters of the result before it was cut; NULL: there is no result, or it is older than this column.
    Column("size", Integer),
    Column("whole", Text),  # the full text of a result that was cut, up to a limit
    Column("approval", Id),  # the question a person was asked about it; NULL: none
    Column("began_at", Float),
    Column("ended_at", Float),
    UniqueConstraint("turn", "step", "call_id"),
    Index("ix_tool_calls_turn_name", "turn", "name", "outcome", "refusal", "began_at", "ended_at"),
    Index("ix_tool_calls_name_turn", "name", "turn"),
    sqlite_autoincrement=True,
)

# Pictures that tools found, as the model gets them.
tool_images = Table(
    "tool_images",
    metadata,
    Column("id", Id, primary_key=True),
    Column("turn", Id, ForeignKey("turns.id"), nullable=False),
    Column("call_id", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("ix_tool_images_turn_call_id", "turn", "call_id"),
    sqlite_autoincrement=True,
)

notes = Table(
    "notes",
    metadata,
    Column("id", Id, primary_key=True),
    Column("lane", Text, nullable=False),
    Column("number", Integer, nullable=False),  # as people see it: 1, 2, 3 in its lane
    Column("text", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("person", BigInteger, nullable=False),
    Column("made_at", Float, nullable=False),
    UniqueConstraint("lane", "number"),
    sqlite_autoincrement=True,
)

# What a chat wants of every answer; its topics inherit it unless they have their own.
instructions = Table(
    "instructions",
    metadata,
    Column("lane", Text, primary_key=True),
    Column("text", Text, nullable=False),
    Column("person", BigInteger, nullable=False),  # who set it
    Column("set_at", Float, nullable=False),
    Column("persona", Id),  # what is followed in place of the text
)

# Instructions that admins have named; they belong to no chat.
personas = Table(
    "personas",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("text", Text, nullable=False),
    sqlite_autoincrement=True,
)

# What people think of an answer, by their reaction to one of its messages.
verdicts = Table(
    "verdicts",
    metadata,
    Column("outbox", Id, ForeignKey("outbox.id"), primary_key=True, autoincrement=False),
    Column("person", BigInteger, primary_key=True, autoincrement=False),
    Column("turn", Id, ForeignKey("turns.id"), nullable=False),
    Column("value", Text),  # good or bad; NULL: taken back
    Column("item", Id, nullable=False),  # the inbox item that said so last
    Column("at", Float, nullable=False),
    Index("ix_verdicts_turn", "turn"),
)
