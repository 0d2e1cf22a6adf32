"""Runs the migrations for Alembic, on the connection it is given or on the database named by `-x url=…`."""

from alembic import context
from sqlalchemy import create_engine
from sqlalchemy.engine import Connection

from bot.db.tables import metadata


def _run_migrations(connection: Connection) -> None:
    context.configure(
        connection=connection, target_metadata=metadata, render_as_batch=True, compare_server_default=True
    )
    with context.begin_transaction():
        context.run_migrations()


configured_connection = context.config.attributes.get("connection")
if configured_connection is not None:
    _run_migrations(configured_connection)
else:
    url = context.get_x_argument(as_dictionary=True).get("url", "sqlite:///canvasgram.db")
    with create_engine(url.replace("+aiosqlite", "")).connect() as own_connection:
        _run_migrations(own_connection)
