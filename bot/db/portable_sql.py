"""SQL that SQLite and PostgreSQL write differently, as constructs that compile for the database in use.

Statements are built of these without knowing which database they are for. PostgreSQL may evaluate any
condition of a WHERE first, also for rows that another one excludes: what is here raises for no row.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Dialect,
    Table,
    Text,
    TypeDecorator,
    bindparam,
    func,
    literal,
    literal_column,
)
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.dialects.sqlite.dml import Insert, OnConflictDoNothing, OnConflictDoUpdate
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from bot.db.postgresql.notifications import CHANNEL, NO_LIFE, build_payload

__all__ = [
    "JsonField",
    "ListMembership",
    "LockNumber",
    "Notification",
    "Position",
    "TransactionLock",
    "WholePart",
    "replace_row",
    "upsert",
]


def replace_row(table: Table, row: Mapping[str, Any]) -> Insert:
    """A statement that stores a row, or these values in the one that has its primary key."""
    return upsert(table).values(row).on_conflict_do_update(index_elements=table.primary_key, set_=row)


@compiles(OnConflictDoNothing, "postgresql")
def _compile_do_nothing(clause: Any, compiler: Any, **options: Any) -> str:
    clause.constraint_target = None  # PostgreSQL's own clause may name a constraint instead of columns
    sql: str = compiler.visit_on_conflict_do_nothing(clause, **options)
    return sql


@compiles(OnConflictDoUpdate, "postgresql")
def _compile_do_update(clause: Any, compiler: Any, **options: Any) -> str:
    clause.constraint_target = None
    sql: str = compiler.visit_on_conflict_do_update(clause, **options)
    return sql


# PostgreSQL refuses to look into JSON that has an escaped NUL, or half a surrogate pair, anywhere.
_REFUSED_ESCAPES = r"\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})"
_REPLACEMENT = r"\\ufffd"


class JsonField(FunctionElement[str]):
    """The number or the plain word at a path, such as `message.chat.id`, of stored JSON, as text: `12`.

    NULL if there is none, or the text is no JSON. A word is plain if JSON escapes nothing in it.
    """

    type = Text()
    inherit_cache = True

    def __init__(self, stored: ColumnElement[Any], path: str) -> None:
        super().__init__(stored, literal_column(path))


@compiles(JsonField, "sqlite")
def _compile_json_field_sqlite(field: JsonField, compiler: Any, **options: Any) -> str:
    stored, path = _process_json_field(field, compiler, options)
    return f"CASE WHEN json_valid({stored}) THEN CAST(json_extract({stored}, '$.{path}') AS TEXT) END"


@compiles(JsonField, "postgresql")
def _compile_json_field_postgresql(field: JsonField, compiler: Any, **options: Any) -> str:
    stored, path = _process_json_field(field, compiler, options)
    elements = path.replace(".", ",")
    readable = f"regexp_replace({stored}, '{_REFUSED_ESCAPES}', '{_REPLACEMENT}', 'g')"
    value = f"CAST(CAST({readable} AS json) #> '{{{elements}}}' AS TEXT)"
    return f"CASE WHEN {stored} IS JSON THEN nullif(trim(both '\"' from {value}), 'null') END"


def _process_json_field(field: JsonField, compiler: Any, options: dict[str, Any]) -> tuple[str, str]:
    stored, path = field.clauses
    return compiler.process(stored, **options), compiler.process(path, **options)


class WholePart(FunctionElement[int]):
    """A fraction without what follows its point: PostgreSQL rounds where it is asked for an integer."""

    type = BigInteger()
    inherit_cache = True


@compiles(WholePart, "sqlite")
def _compile_whole_part_sqlite(part: WholePart, compiler: Any, **options: Any) -> str:
    return f"CAST({compiler.process(part.clauses, **options)} AS INTEGER)"


@compiles(WholePart, "postgresql")
def _compile_whole_part_postgresql(part: WholePart, compiler: Any, **options: Any) -> str:
    return f"CAST(trunc({compiler.process(part.clauses, **options)}) AS BIGINT)"


class Position(FunctionElement[int]):
    """Where a text has another one in it, counted from 1; 0: nowhere."""

    type = BigInteger()
    inherit_cache = True


@compiles(Position, "sqlite")
def _compile_position_sqlite(position: Position, compiler: Any, **options: Any) -> str:
    return f"instr({compiler.process(position.clauses, **options)})"


@compiles(Position, "postgresql")
def _compile_position_postgresql(position: Position, compiler: Any, **options: Any) -> str:
    return f"strpos({compiler.process(position.clauses, **options)})"


class _NumberList(TypeDecorator[Iterable[int]]):
    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Iterable[int] | None, dialect: Dialect) -> str:
        return ",".join(map(str, value or ()))


class ListMembership(FunctionElement[Any]):
    """Whether an integer of a row is among those that are passed as the parameter `name`.

    They are one value. `in_` has one for each, and makes another statement of each length, which has to be
    prepared, and of which a connection keeps 128: 8 MiB, if they list hundreds of turns.
    """

    inherit_cache = True  # without a type: that of a boolean compiles to `… = 1` on SQLite, and uses no index

    def __init__(self, integer: ColumnElement[int], name: str) -> None:
        super().__init__(integer, bindparam(name, type_=_NumberList()))


@compiles(ListMembership, "sqlite")
def _compile_list_membership_sqlite(membership: ListMembership, compiler: Any, **options: Any) -> str:
    integer, numbers = (compiler.process(clause, **options) for clause in membership.clauses)
    listed = f"json_each('[' || {numbers} || ']')"
    return f"{integer} IN (SELECT value FROM {listed})"  # noqa: S608 - of compiled clauses


@compiles(ListMembership, "postgresql")
def _compile_list_membership_postgresql(membership: ListMembership, compiler: Any, **options: Any) -> str:
    integer, numbers = (compiler.process(clause, **options) for clause in membership.clauses)
    return f"{integer} = ANY (CAST(string_to_array({numbers}, ',') AS BIGINT[]))"


class Notification(FunctionElement[str]):
    """A message to all gateways on the database, sent once it is committed; on SQLite there is one: NULL."""

    type = Text()
    inherit_cache = True

    def __init__(self, topic: str, key: str) -> None:
        super().__init__(literal(build_payload(NO_LIFE, [(topic, key)])))


@compiles(Notification, "sqlite")
def _compile_notification_sqlite(_notification: Notification, _compiler: Any, **_options: Any) -> str:
    return "NULL"


@compiles(Notification, "postgresql")
def _compile_notification_postgresql(notification: Notification, compiler: Any, **options: Any) -> str:
    [payload] = notification.clauses
    sql: str = compiler.process(func.pg_notify(CHANNEL, payload), **options)
    return sql


_TRANSACTION_LOCKS = 1_667_329_650  # the first of a lock's two numbers: session_locks.py has those beside
_MAX_IDLE_MILLISECONDS = 2_000


class LockNumber(IntEnum):
    """What a TransactionLock is of."""

    SEAT_REQUESTS = 1
    TOOLS = 3  # and their sources


class TransactionLock(FunctionElement[str]):
    """Waits for the lock of this number, which one transaction has until it ends. Its value means nothing.

    The server ends the transaction, and its session, if nothing comes from it for two seconds: its process is
    paused, and others wait. SQLite has one write transaction at a time anyway.
    """

    type = Text()
    inherit_cache = True

    def __init__(self, number: LockNumber) -> None:
        super().__init__(literal_column(str(number.value)))


@compiles(TransactionLock, "sqlite")
def _compile_transaction_lock_sqlite(lock: TransactionLock, compiler: Any, **options: Any) -> str:
    return "NULL"


@compiles(TransactionLock, "postgresql")
def _compile_transaction_lock_postgresql(lock: TransactionLock, compiler: Any, **options: Any) -> str:
    number = compiler.process(lock.clauses, **options)
    limit = f"set_config('idle_in_transaction_session_timeout', '{_MAX_IDLE_MILLISECONDS}', true)"
    return f"{limit} || pg_advisory_xact_lock({_TRANSACTION_LOCKS}, {number})::text"
