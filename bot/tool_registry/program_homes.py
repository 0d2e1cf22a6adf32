"""The home folders of programs that are started here: one a source, beside the database, kept between runs.

What a program downloads and stores stays there, readable by the gateway's user alone, until its source is
removed. A folder that an admin named with --home is the admin's, and never deleted.
"""

import shutil
from pathlib import Path

from bot.db.database_url import build_side_name, find_data_folder
from bot.db.tools.sources import Source


def find_homes_folder(database_url: str) -> Path:
    """Return the folder that holds the homes, beside the database: `canvasgram.db-mcp`."""
    return find_data_folder(database_url).absolute() / build_side_name(database_url, "-mcp")


def find_home(source: Source, homes: Path | None, person: int | None = None) -> Path | None:
    """Return the home of a source's program, or of one person's there.

    None: it has none, or an empty one for a while.
    """
    if source.kind != "mcp_stdio":
        return None
    if source.options.get("home"):
        home = Path(source.options["home"])
        return home if person is None else home / str(person)
    if homes is None:
        return None
    return homes / (source.name if person is None else f"{source.name}-{person}")


def is_own_home(source: Source) -> bool:
    """Whether the home of this source's program is one of ours, to be deleted with the source."""
    return source.kind == "mcp_stdio" and not source.options.get("home")


def delete_home(home: Path) -> None:
    """Delete a home with all that a program has left there, and those of single persons.

    What cannot be deleted stays.
    """
    for folder in (home, *home.parent.glob(f"{home.name}-*")):
        shutil.rmtree(folder, ignore_errors=True)
