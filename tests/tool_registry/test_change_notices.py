"""What admins are told of tools that changed by themselves: little, and never the same twice."""

from bot.db.tools.sources import Source
from bot.db.tools.tools import StoredTool
from bot.tool_registry.assembly import RegistryState
from bot.tool_registry.change_notices import build_notices
from bot.tool_registry.loader import RegistryRows


def build_rows(*sources: Source, secrets_error: str | None = None) -> RegistryRows:
    return RegistryRows({}, sources, (), (), {}, secrets_error)


def test_a_hundred_new_tools_of_a_server_are_one_line() -> None:
    waiting = tuple(StoredTool(f"shop_{n:03}", "shop", pending={}) for n in range(100))
    [(subject, text)] = build_notices(build_rows(), RegistryState({}, {}, newly_pending=waiting))
    assert subject == "tools of shop"
    assert "shop_009 (new) and 90 more." in text
    assert "shop_010" not in text


def test_what_changed_and_what_is_flagged_are_told_apart() -> None:
    changed = StoredTool("rain", "weather", {"name": "rain"}, pending={}, flagged="it instructs")
    other = StoredTool("buy", "shop", pending={})
    told = dict(build_notices(build_rows(), RegistryState({}, {}, newly_pending=(changed, other))))
    assert "rain (changed, its words want a second look)." in told["tools of weather"]
    assert "buy (new)." in told["tools of shop"]


def test_a_server_that_is_away_is_told_once_whatever_it_says_of_itself() -> None:
    away = RegistryState({}, {}, trouble_changes={"shop": "it is away", "greet.py": "line 3", "web": None})
    known = build_rows(
        Source("shop", "mcp_http", "https://s.example", trouble="it hangs"),
        Source("greet.py", "file", "", trouble="x"),
    )
    assert list(build_notices(known, away)) == [("source greet.py", "Of the tools of greet.py: line 3.")]
    first = dict(
        build_notices(
            build_rows(
                Source("shop", "mcp_http", "https://s.example"), secrets_error="SECRETS_KEY is missing"
            ),
            away,
        )
    )
    assert first["source shop"] == "Of the tools of shop: it is away."
    assert first["secrets"] == "SECRETS_KEY is missing"
