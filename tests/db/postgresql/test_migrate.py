"""What is wrong with a server or its database is said in one sentence, which shows no password."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from bot.db.migrate import has_schema, migrate
from bot.db.postgresql.migrate import refuse_old_server
from bot.db.readonly import check_readable
from bot.errors import CanvasgramError, SchemaUnknown, SettingsRefused, StoreUnavailable
from tests.support.postgresql import PostgresServer

PASSWORD = "hush-hush"


@pytest.mark.parametrize(
    ("address", "kind", "words"),
    [
        ("ann:hush-hush-wrong@/test", SettingsRefused, "does not let this user in .*password"),
        ("ann:hush-hush@/nowhere", SettingsRefused, "no such database .*createdb"),
        (
            "ann:hush-hush@nowhere.invalid/test",
            StoreUnavailable,
            "cannot be reached.*nowhere.invalid",
        ),
        ("ann:hush-hush@127.0.0.1:1/test", StoreUnavailable, "cannot be reached; start it, .*refused"),
        ("ann:hush-hush@127.0.0.1:port/test", SettingsRefused, "no address of a server"),
        ("ann:hush-hush@/test?colour=red", SettingsRefused, "colour"),
    ],
)
def test_a_server_that_cannot_be_used_is_described_without_its_password(
    postgresql_server: PostgresServer, address: str, kind: type[CanvasgramError], words: str
):
    url = f"postgresql+psycopg://{address}"
    if "@/" in url:
        url += f"{'&' if '?' in url else '?'}host={postgresql_server.folder}"
        postgresql_server.execute(f"DROP ROLE IF EXISTS ann; CREATE ROLE ann LOGIN PASSWORD '{PASSWORD}'")
    with pytest.raises(kind) as refused:
        migrate(url)
    assert re.search(words, str(refused.value))
    assert PASSWORD not in str(refused.value)


def test_a_database_that_stores_no_utf_8_is_refused(postgresql_server: PostgresServer):
    options = "ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
    with (
        postgresql_server.open_bare_database(options) as url,
        pytest.raises(SettingsRefused, match=r"as LATIN1.*createdb --encoding=UTF8"),
    ):
        migrate(url)


def test_processes_that_start_together_migrate_once(server_url: str, postgresql_server: PostgresServer):
    assert not has_schema(server_url)
    with pytest.raises(StoreUnavailable, match=r"empty.*canvasgram migrate"):
        check_readable(server_url)
    with ThreadPoolExecutor() as threads:
        assert list(threads.map(migrate, [server_url] * 3)) == [None] * 3
    check_readable(server_url)
    name = re.search(r"/(\w+)\?", server_url)
    assert name is not None
    postgresql_server.execute("UPDATE alembic_version SET version_num = '9999'", database=name[1])
    with pytest.raises(SchemaUnknown, match=r"schema 9999.*newer version"):
        migrate(server_url)
    with pytest.raises(SchemaUnknown, match="Use the newer version"):
        check_readable(server_url)


def test_a_server_that_is_too_old_is_refused():
    refuse_old_server("160000")
    with pytest.raises(SettingsRefused, match="is PostgreSQL 15; 16 or newer"):
        refuse_old_server("150012")
