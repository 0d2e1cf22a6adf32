"""Brave Search, by its web search API.

Small, and a module of its own: an engine more is one such module.
"""

from dataclasses import dataclass

from tools.search.engine import EngineAnswer, fetch_json, read_hits

ADDRESS = "https://api.search.brave.com/res/v1/web/search"


@dataclass(frozen=True, slots=True)
class BraveEngine:
    """Brave's API with the subscription of `key`."""

    key: str
    address: str = ADDRESS

    async def search(self, question: str, *, newest: bool) -> EngineAnswer:
        """Search the web; with `newest`, pages of the last month."""
        params = {"q": question, "count": "20", "text_decorations": "false"}
        if newest:
            params["freshness"] = "pm"
        content = await fetch_json(self.address, params, {"X-Subscription-Token": self.key})
        web = content.get("web")
        results = web.get("results") if isinstance(web, dict) else None
        return EngineAnswer(read_hits(results, ("title", "url", "description", "page_age")))
