"""Searches among the tools of real documents (tests/fixtures/openapi), beside two hundred others."""

from pathlib import Path

import pytest

from bot.agent.tool_search import MAX_FOUND_TOOLS, SearchableTools
from bot.sim.gemma.tokens import count_tokens
from tests.support.many_tools import make_many_tools
from tools.base import Tool, ToolContext
from tools.openapi.loader import load_document
from tools.openapi.operations import build_route
from tools.openapi.outline import Outline
from tools.openapi.servers import ServerSettings

FOLDER = Path(__file__).parents[2] / "fixtures" / "openapi"
BASE_URL = "https://documents.test"  # instead of their servers, of which some are examples
MAX_RESULT_TOKENS = 600

# What a model would search with, and the tools that do it.
SEARCHES = {
    "create task": {"asana_create_task"},
    "add todo to project": {"asana_add_project_for_task"},
    "find tasks": {"asana_search_tasks_for_workspace", "asana_typeahead_for_workspace"},
    "mark task as done": {"asana_update_task"},
    "add dns record": {"digitalocean_domains_create_record"},
    "start a new server": {"digitalocean_droplets_create"},
    "list servers": {"digitalocean_droplets_list"},
    "open issue on github": {"github_issues_create"},
    "open pull request": {"github_pulls_create"},
    "commit file to repository": {"github_repos_create_or_update_file_contents"},
    "search issues": {"github_search_issues_and_pull_requests", "jira_search_for_issues_using_jql"},
    "comment on jira ticket": {"jira_add_comment"},
    "assign ticket to person": {"jira_assign_issue"},
    "read pod logs": {"kubernetes_read_core_v1_namespaced_pod_log"},
    "register device": {"netbox_dcim_devices_create"},
    "pets that are available": {"petstore_find_pets_by_status"},
    "send an invoice": {"square_create_invoice"},
    "refund payment": {"stripe_post_refunds"},
    "new customer": {"square_create_customer", "stripe_post_customers"},
    "send sms": {"twilio_create_message"},
    "make a phone call": {"twilio_create_call"},
}


async def _do_nothing(arguments: object, context: ToolContext) -> None:
    """No tool is run here."""


@pytest.fixture(scope="module")
def searchable() -> SearchableTools:
    tools = list(make_many_tools())
    for path in sorted(FOLDER.glob("*.json")):
        outline = Outline(load_document(path.read_bytes()), BASE_URL, ServerSettings(BASE_URL))
        for operation in outline.list_operations():
            route = build_route(outline, operation, f"{path.stem}_")
            tools.append(
                Tool(route.name, route.description, dict(route.checked), _do_nothing, source=path.stem)
            )
    return SearchableTools(tools)


def test_what_a_model_searches_for_is_among_the_first_five(searchable: SearchableTools) -> None:
    found = {words: {tool.name for tool in searchable.search(words)} for words in SEARCHES}
    missed = {words: found[words] for words, needed in SEARCHES.items() if found[words].isdisjoint(needed)}
    assert len(missed) <= len(SEARCHES) // 20, missed
    assert all(len(names) <= MAX_FOUND_TOOLS for names in found.values())


def test_a_search_result_takes_at_most_six_hundred_tokens(searchable: SearchableTools) -> None:
    results = [searchable.find(words) for words in (*SEARCHES, *searchable.tools)]
    assert max(map(count_tokens, results)) <= MAX_RESULT_TOKENS
