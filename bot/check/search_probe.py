"""Asks the search engine one question, and judges what it answers as one more finding of a check."""

import httpx

from bot.check.findings import Finding, Verdict, fail_verdict, pass_verdict, warn_verdict
from tools.search.engine import SearchEngine, SearchRefused
from tools.search.hits import format_hits
from tools.search.searxng import SearxngEngine
from tools.search.tool import search_in_time

NAME = "search"
MEANING = "people ask about what is newer than the model"
QUESTION = "weather"
JSON_IS_OFF = "in SearXNG's settings.yml: `search: {formats: [html, json]}`, then restart it"
LIMITER_IS_ON = "in SearXNG's settings.yml: `server: {limiter: false}`, where only the gateway reaches it"
KEY_REFUSED = "set SEARCH_KEY to a key of this provider that is valid"
OFF = "off; SEARCH_URL or SEARCH_KEY lets the model search the web"


async def probe_search(engine: SearchEngine | None) -> Finding:
    """Search once; without an engine the finding says what to set."""
    verdict = pass_verdict(OFF) if engine is None else await _judge(engine)
    return verdict.to_finding(NAME, MEANING)


async def _judge(engine: SearchEngine) -> Verdict:
    try:
        answer = await search_in_time(engine, QUESTION)
    except SearchRefused as error:
        return fail_verdict(error.reason, _find_fix(engine, error.status))
    if not answer.hits:
        return warn_verdict("it finds nothing", "look at the engines it asks, and whether they block it")
    seen = f"{len(answer.hits)} hits, {len(format_hits(answer.hits))} characters for the model"
    if answer.is_partial:
        return warn_verdict(f"{seen}; some of its engines did not respond", "turn those off in its settings")
    return pass_verdict(seen)


def _find_fix(engine: SearchEngine, status: int | None) -> str:
    if not isinstance(engine, SearxngEngine):
        return KEY_REFUSED
    if status == httpx.codes.FORBIDDEN:
        return JSON_IS_OFF
    if status == httpx.codes.TOO_MANY_REQUESTS:
        return LIMITER_IS_ON
    return "see that SEARCH_URL is the address of a SearXNG, without `/search`"
