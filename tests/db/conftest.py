"""Tests of this folder that have a database run on SQLite and on PostgreSQL, but those marked `sqlite`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.empty_database import place_empty_database


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "database_url" in metafunc.fixturenames:
        is_sqlite_only = metafunc.definition.get_closest_marker("sqlite") is not None
        kinds = ("sqlite",) if is_sqlite_only else ("sqlite", "postgresql")
        metafunc.parametrize("database_url", kinds, indirect=True)


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A migrated database of its own."""
    if request.param == "sqlite":
        yield place_empty_database(tmp_path / "canvasgram.db")
        return
    with request.getfixturevalue("postgresql_server").open_database() as url:
        yield url
