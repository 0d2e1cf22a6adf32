"""Says which links of an answer are real: by the record of a turn's tool calls, not by the model. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from bot.agent.taint import TaintState
from bot.agent.urls import normalize_url
from bot.domain import AnswerLinks, FilePage, ToolResult
from tools.base import Tool
from tools.builtin.fetch_page import fetch_page, parse_page_address
from tools.builtin.look_back import look_back, parse_pages
from tools.search.hits import parse_hits
from tools.search.tool import SEARCH_TOOL_NAME


@dataclass(frozen=True, slots=True)
class EarlierResults:
    """What tools returned to earlier turns of the conversation, as it is stored.

    `continued`: to the answer that the turn continues, which it goes on to cite.
    `shortened`: to turns that are not whole in its prompt; people still see the links of their answers.
    """

    continued: tuple[ToolResult, ...] = ()
    shortened: tuple[ToolResult, ...] = ()


def build_answer_links(
    read: TaintState,
    results: Iterable[ToolResult],
    tools: Mapping[str, Tool],
    admin_texts: Iterable[str],
    earlier_results: EarlierResults,
) -> AnswerLinks:
    """The links that an answer may have.

    `read` is all that the turn has read; `results` are those of its own calls, of `tools`. Of pages and hits
    only the addresses are returned, not those in their texts, which strangers wrote. An address in a text of
    the admins is one that a person wrote. One that only an earlier answer has was returned by no tool.
    """
    cited: dict[int, str] = {}
    has_searched = False
    opened: list[str] = []
    file_pages: list[FilePage] = []
    returned = TaintState()
    for result in (*earlier_results.continued, *results):
        has_searched |= result.call.name == SEARCH_TOOL_NAME
        if result.outcome != "ok":
            continue
        if result.call.name == SEARCH_TOOL_NAME:
            cited |= parse_hits(result.text)
        elif result.call.name == fetch_page.name:
            opened += parse_page_address(result.text)
        else:
            if result.call.name == look_back.name:
                file_pages += (FilePage(*page) for page in parse_pages(result.text))
            returned.add_result(tools.get(result.call.name), result)
    pages = {normalize_url(address) for address in (*cited.values(), *opened)}
    written = TaintState(texts=list(admin_texts))
    earlier = TaintState()
    for result in (*earlier_results.continued, *earlier_results.shortened):
        earlier.add_result(tools.get(result.call.name), result)

    def find_known(addresses: Collection[str]) -> set[str]:
        known = read.find_known(addresses) | written.find_known(addresses)
        return known | earlier.find_known({*addresses} - known)

    def find_returned(addresses: Collection[str]) -> set[str]:
        shown = {address for address in addresses if normalize_url(address) in pages}
        return shown | returned.find_known(addresses)

    return AnswerLinks(
        find_known,
        find_returned,
        cited if has_searched else None,
        tuple(dict.fromkeys(opened)),
        tuple(dict.fromkeys(file_pages)),
    )
