"""Secrets of tools, stored encrypted. Functions work inside the caller's transaction `tx`."""

from dataclasses import asdict, dataclass

from sqlalchemy import delete, func, literal, select

from bot.db.portable_sql import JsonField, replace_row
from bot.db.tables import secrets, sources
from bot.db.transaction import Transaction

_SIGN_IN_PREFIX = "sign-in:"


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """An encrypted secret; only bot.tool_registry decrypts it."""

    name: str
    sealed: str
    made_at: float


def name_sign_in(source_name: str, person: int | None = None) -> str:
    """The name under which the sign-in of a source, or of one person there, is stored.

    No admin can give it to a secret.
    """
    name = f"{_SIGN_IN_PREFIX}{source_name}"
    return name if person is None else f"{name}:{person}"


async def list_all(tx: Transaction) -> list[SealedSecret]:
    """Every secret, by name."""
    rows = await tx.execute(select(secrets).order_by(secrets.c.name))
    return [SealedSecret(row.name, row.sealed, row.made_at) for row in rows]


async def find(tx: Transaction, name: str) -> SealedSecret | None:
    """The secret of this name."""
    row = (await tx.execute(select(secrets).where(secrets.c.name == name))).one_or_none()
    if row:
        return SealedSecret(row.name, row.sealed, row.made_at)
    return None


async def put(tx: Transaction, secret: SealedSecret) -> None:
    """Store a secret; replaces one of the same name."""
    await tx.execute(replace_row(secrets, asdict(secret)))


async def remove(tx: Transaction, name: str) -> bool:
    """Delete a secret; False if there is none of this name."""
    return bool((await tx.execute(delete(secrets).where(secrets.c.name == name))).rowcount)


async def remove_sign_ins(tx: Transaction, source_name: str) -> None:
    """Delete the sign-ins of everybody at a source."""
    name = name_sign_in(source_name)
    of_person = f"{name}:"
    is_of_person = func.substr(secrets.c.name, 1, len(of_person)) == of_person
    await tx.execute(delete(secrets).where((secrets.c.name == name) | is_of_person))


async def remove_sign_ins_of_person(tx: Transaction, person: int) -> None:
    """Delete the sign-ins of a person at all sources, also those that give the listing of a personal one."""
    is_sign_in = secrets.c.name.startswith(_SIGN_IN_PREFIX, autoescape=True)
    is_own = is_sign_in & secrets.c.name.endswith(f":{person}")
    listed_by_them = JsonField(sources.c.options, "personal") == str(person)
    listing_names = select(literal(_SIGN_IN_PREFIX) + sources.c.name).where(listed_by_them)
    await tx.execute(delete(secrets).where(is_own | secrets.c.name.in_(listing_names)))
