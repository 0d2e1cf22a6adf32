"""SearXNG, by its JSON API, which asks other engines and says which of them did not respond."""

from collections.abc import Sequence
from dataclasses import dataclass

from tools.search.engine import EngineAnswer, fetch_json, read_hits, to_text

ENOUGH_HITS = 6
MAX_LEFT_OUT = 20  # engines that a second request can name


@dataclass(frozen=True, slots=True)
class SearxngEngine:
    """The instance at `url`; its settings must allow the format json."""

    url: str

    async def search(self, question: str, *, newest: bool) -> EngineAnswer:
        """Search; once more without the engines that did not respond, where little was found."""
        answer, unresponsive = await self._request(question, newest, ())
        if unresponsive and len(answer.hits) < ENOUGH_HITS:
            second, still_unresponsive = await self._request(question, newest, unresponsive)
            is_partial = answer.is_partial or bool(still_unresponsive)
            if len(second.hits) > len(answer.hits):
                return EngineAnswer(second.hits, is_partial)
        return answer

    async def _request(
        self, question: str, newest: bool, left_out: Sequence[str]
    ) -> tuple[EngineAnswer, tuple[str, ...]]:
        """The answer, and the names of the engines that did not respond."""
        params = {"q": question, "format": "json"}
        if newest:
            params["time_range"] = "month"
        if left_out:
            params["disabled_engines"] = ",".join(f"{name}__general" for name in left_out)
        content = await fetch_json(f"{self.url}/search", params)
        hits = read_hits(content.get("results"), ("title", "url", "content", "publishedDate"))
        unresponsive = _list_unresponsive(content.get("unresponsive_engines"))
        return EngineAnswer(hits, bool(unresponsive)), unresponsive


def _list_unresponsive(value: object) -> tuple[str, ...]:
    """The first of each pair of a name and a reason."""
    if not isinstance(value, list):
        return ()
    pairs = [pair for pair in value if isinstance(pair, list) and pair]
    return tuple(to_text(pair[0]) for pair in pairs)[:MAX_LEFT_OUT]
