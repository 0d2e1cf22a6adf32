"""Notices about tools that changed without an admin are few, and never the same twice."""

from bot.db.tools.sources import Source
from bot.db.tools.tools import StoredTool
from bot.tool_registry.assembly import RegistryState
from bot.tool_registry.changes import build_notices
from bot.tool_registry.loader import RegistryRows
from bot.translations.translator import ENGLISH


def build_rows(*sources: Source, secrets_error: str | None = None) -> RegistryRows:
    return RegistryRows({}, sources, (), (), {}, secrets_error)


def list_notices(rows: RegistryRows, state: RegistryState) -> list[tuple[str, str]]:
    """The notices in English."""
    return [(subject, text(ENGLISH)) for subject, text in build_notices(rows, state)]


def test_a_hundred_new_tools_of_a_server_are_one_line() -> None:
    pending = tuple(StoredTool(f"shop_{n:03}", "shop", pending={}) for n in range(100))
    [(subject, text)] = list_notices(build_rows(), RegistryState({}, {}, newly_pending=pending))
    assert subject == "tools of shop"
    assert "shop_009 (new) and 90 more." in text
    assert "shop_010" not in text


def test_changed_and_flagged_tools_are_named_as_such() -> None:
    changed = StoredTool("rain", "weather", {"name": "rain"}, pending={}, flagged="it instructs")
    new = StoredTool("buy", "shop", pending={})
    notices = dict(list_notices(build_rows(), RegistryState({}, {}, newly_pending=(changed, new))))
    assert "rain (changed, please read its description closely)." in notices["tools of weather"]
    assert "buy (new)." in notices["tools of shop"]


def test_a_server_that_is_away_is_reported_once_however_it_words_its_trouble() -> None:
    state = RegistryState({}, {}, trouble_changes={"shop": "it is away", "greet.py": "line 3", "web": None})
    reported = build_rows(
        Source("shop", "mcp_http", "https://s.example", trouble="it hangs"),
        Source("greet.py", "file", "", trouble="x"),
    )
    assert list_notices(reported, state) == [("files of tools", "Tools of greet.py: line 3.")]
    unreported = build_rows(
        Source("shop", "mcp_http", "https://s.example"), secrets_error="SECRETS_KEY is missing"
    )
    notices = dict(list_notices(unreported, state))
    assert notices["source shop"] == "Tools of shop: it is away."
    assert notices["secrets"] == "SECRETS_KEY is missing"


def test_a_dozen_broken_files_are_one_notice() -> None:
    troubles = {f"f{number:02}.py": "line 4" for number in range(12)}
    [(_, text)] = list_notices(build_rows(), RegistryState({}, {}, trouble_changes=troubles))
    lines = text.splitlines()
    assert lines[9:] == ["Tools of f09.py: line 4.", "… and 2 more: /tools show NAME"]
