"""Says which links of an answer are real: by the record of a turn's tool calls, not by the model. Pure."""

from collections.abc import Collection, Iterable

from bot.agent.taint import TaintState
from bot.domain import AnswerLinks, ToolResult
from tools.builtin.fetch_page import fetch_page, parse_page_address
from tools.search.hits import parse_hits
from tools.search.tool import SEARCH_TOOL_NAME


def build_answer_links(
    read: TaintState, returned: TaintState, results: Iterable[ToolResult], admin_texts: Iterable[str]
) -> AnswerLinks:
    """The links that an answer may have.

    `read` is all that the turn has read, `returned` what its own tools have; `results` are those of calls
    that succeeded. An address in a text of the admins is one that a person wrote.
    """
    cited: dict[int, str] = {}
    opened: list[str] = []
    for result in results:
        if result.call.name == SEARCH_TOOL_NAME:
            cited |= parse_hits(result.text)
        elif result.call.name == fetch_page.name:
            opened += parse_page_address(result.text)
    written = TaintState(texts=list(admin_texts))

    def find_known(addresses: Collection[str]) -> set[str]:
        return read.find_known(addresses) | written.find_known(addresses)

    return AnswerLinks(find_known, returned.find_known, cited, tuple(dict.fromkeys(opened)))
