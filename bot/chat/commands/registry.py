"""The list of all commands: name, line of help, who may use it, whether menus show it, and what it does.

/help, the menus and the runner of updates all use this list. Short commands are implemented here.
"""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from bot.chat.actions import (
    Action,
    ActionContext,
    ActionResult,
    ReadOnlyAction,
    reply_hint,
    reply_text,
)
from bot.chat.commands import (
    admin_page,
    approvals,
    consent,
    conversation,
    export,
    files,
    find,
    forget,
    grants,
    group_cards,
    group_changes,
    hooks,
    instructions,
    job_cards,
    jobs,
    language,
    limits,
    onboarding,
    people,
    prompt_context,
    retries,
    secret_guard,
    sign_in,
    strangers,
    think,
    tools,
    usage,
    voice,
    welcome,
)
from bot.db.people.people import RoleOrBlocked
from bot.errors import ChangeRefused
from bot.telegram.best_effort_calls import CommandMenu
from bot.translations.translator import Translator, load_translator, translatable
from tools.search.tool import SEARCH_TOOL_NAME

MAX_NAME_CHARS = 32  # of a command's name, as Telegram has it
MAX_OFFERED_CHARS = 200  # of what stands behind a mistyped command
NEAR_SHARE = 0.7  # of letters that a mistyped command has in common with the one that is meant
_COMMAND_PATTERN = re.compile(r"/(\w+)(?:@\w+)?\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    `help`: what it does, in a few words.
    `group`: the heading of /help below which it stands.
    `example`: the command as somebody might write it.
    `in_groups`: whether it works in a group; others are for the private chat alone.
    `concerns_others`: in a group it may be about what others asked, so it matters who moderates there.
    """

    name: str
    help: str
    action: Action
    group: str
    min_role: Literal["anyone", "member", "admin"] = "member"
    in_groups: bool = False
    concerns_others: bool = False
    example: str = ""


def find_command(name: str) -> Command | None:
    """Return the command of this name, without its slash."""
    return next((command for command in COMMANDS if command.name == name), None)


def choose_command_action(
    text: str, role: RoleOrBlocked | None, *, in_group: bool = False
) -> tuple[Action, str]:
    """Return what a message that begins with a slash does, and the arguments after the command."""
    name, args = parse_command(text)
    command = find_command(name)
    if role in {"admin", "member"} and sign_in.is_answer(text):
        return sign_in.take_answer, text
    if name == "tools" and role in {"admin", "member"} and secret_guard.has_secret(args):
        return secret_guard.delete_secret_message, args
    if command is not None and in_group and not command.in_groups:
        return reply_privately_only, name
    if command is not None and can_use(command, role):
        return command.action, args
    if role is None:
        return strangers.reject_stranger, ""
    if command is None:
        return reply_unknown, text
    return reply_admins_only, name


def choose_edit_action(text: str, role: RoleOrBlocked | None, otherwise: Action) -> tuple[Action, str]:
    """Return what is done about an edited message; `otherwise` unless it is /tools with a secret now."""
    name, args = parse_command(text)
    if name == "tools" and role and secret_guard.has_secret(args):
        return choose_command_action(text, role)
    return otherwise, ""


def parse_command(text: str) -> tuple[str, str]:
    """Split a message that begins with a slash into the command's name and its arguments."""
    match = _COMMAND_PATTERN.match(text)
    if match is None:
        return "", ""
    return match[1].lower(), match[2].strip()


def can_use(command: Command, role: RoleOrBlocked | None) -> bool:
    """Whether somebody of this role may use the command."""
    if command.min_role == "anyone" or role == "admin":
        return True
    return command.min_role == "member" and role == "member"


def build_menu(role: RoleOrBlocked, language: str, *, has_fallback: bool = False) -> CommandMenu:
    """Return what Telegram shows beside the text field in one of LANGUAGES, as (name, line of help)."""
    translate = load_translator(language)
    commands = list_commands(role, has_fallback=has_fallback)
    return [(command.name, translate(command.help)) for command in commands if command.name in MENU]


def build_group_menu(language: str) -> CommandMenu:
    """Return what Telegram shows in groups in one of LANGUAGES: few, for other bots are there, too."""
    translate = load_translator(language)
    return [(command.name, translate(command.help)) for command in COMMANDS if command.name in GROUP_MENU]


def list_commands(
    role: RoleOrBlocked | None, *, has_fallback: bool, has_outside_speech: bool = False
) -> list[Command]:
    """Return the commands of somebody of this role, without those about what is not set up."""
    hidden = {"deep": not has_fallback, "consent": not (has_fallback or has_outside_speech)}
    usable = [command for command in COMMANDS if can_use(command, role)]
    return [command for command in usable if not hidden.get(command.name)]


def find_near_command(name: str, role: RoleOrBlocked | None, *, in_group: bool) -> str | None:
    """Return the name of the command that somebody who may use it there has probably mistyped."""
    usable = [
        command.name for command in COMMANDS if can_use(command, role) and (command.in_groups or not in_group)
    ]
    return next(iter(get_close_matches(name, usable, n=1, cutoff=NEAR_SHARE)), None)


async def reply_unknown(context: ActionContext) -> ActionResult:
    """Offer the nearest command: Telegram's apps send it by a tap; one with words is copied by a tap."""
    name, args = parse_command(context.args)
    command = f"/{name[:MAX_NAME_CHARS]}"
    near_name = find_near_command(name[:MAX_NAME_CHARS], context.role, in_group=context.is_group)
    if near_name is None:
        raise ChangeRefused("I don't know {command}. /help shows what I can do.", command=command)
    offer = f"/{near_name}"
    if args and len(args) <= MAX_OFFERED_CHARS:
        offer = f"{offer} {args}"
    text = context.translate(
        "I don't know {command}. Did you mean {near_command}?", command=command, near_command=offer
    )
    return reply_text(text, code=offer if " " in offer else "")


async def reply_privately_only(context: ActionContext) -> ActionResult:
    raise ChangeRefused(
        "{command} works only in our private chat: @{name}",
        command=f"/{context.args}",
        name=context.deps.settings.bot_name,
    )


async def reply_admins_only(context: ActionContext) -> ActionResult:
    raise ChangeRefused("{command} is for admins.", command=f"/{context.args}")


async def handle_start(context: ActionContext) -> ActionResult:
    if context.args:
        return await onboarding.join_by_link(context)
    if context.role is None:
        return await strangers.reject_stranger(context)
    return welcome.build_welcome(context, context.role)


async def handle_help(context: ActionContext) -> ActionResult:
    translate = context.translate
    if context.is_group:
        chat_group = context.deps.groups.directory.find(context.lane.chat)
        hears_all = chat_group.hears_all if chat_group else None
        greeting = group_changes.build_greeting(
            translate, context.deps.settings.bot_name, hears_all=hears_all
        )
        lines = [_format_command(translate, command) for command in COMMANDS if command.in_groups]
        return reply_hint("\n".join([greeting, *lines]))
    intro = translate(
        "Just write to me. You can send me photos, PDFs and other files too. I can look things up on web "
        "pages, calculate, keep notes, and remind you of things. For example:"
    )
    paragraphs = ["\n".join([intro, *(f"`{translate(example)}`" for example in HELP_EXAMPLES)])]
    commands = list_commands(
        context.role,
        has_fallback=context.deps.turns.fallback_endpoint is not None,
        has_outside_speech=context.deps.turns.outside_speech.hosts != "",
    )
    for group in HELP_GROUPS:
        lines = [_format_command(translate, command) for command in commands if command.group == group]
        if lines:
            paragraphs.append("\n".join([translate(group), *lines]))
    paragraphs += _describe_search(context)
    paragraphs.append(translate("If this chat has topics, each is a conversation of its own."))
    return reply_hint("\n\n".join(paragraphs))


def _describe_search(context: ActionContext) -> list[str]:
    """What to know of searching the web; where it is off, only admins read how to turn it on."""
    if SEARCH_TOOL_NAME in context.deps.tools.builtin:
        return [context.translate("Ask me what's new: I can search the web.")]
    if context.role == "admin":
        return [context.translate("I can't search the web yet: set SEARCH_URL or SEARCH_KEY.")]
    return []


def _format_command(translate: Translator, command: Command) -> str:
    line = f"/{command.name} – {translate(command.help)}"
    if command.example:
        return f"{line}: `{translate(command.example)}`"
    return line


async def handle_ask(context: ActionContext) -> ActionResult:
    """/ask without a question; with one it is a message as any other."""
    return reply_hint(
        context.translate("Write your question after the command, such as `/ask what is a tide?`")
    )


async def handle_id(context: ActionContext) -> ActionResult:
    text = context.translate("Your Telegram ID is {number}.", number=context.person)
    return reply_text(text, code=str(context.person))


CHAT = translatable("Talk with me")
LATER = translatable("Reminders and tasks")
SETTINGS = translatable("You and this chat")
ADMINS = translatable("For admins")
HELP_GROUPS = (CHAT, LATER, SETTINGS, ADMINS)
HELP_EXAMPLES = (
    translatable("Remind me tomorrow at 9 to call Anna"),
    translatable("Summarise https://en.wikipedia.org/wiki/Tide in five sentences"),
)

MENU = (
    "new",
    "stop",
    "retry",
    "deep",
    "find",
    "files",
    "notes",
    "remind",
    "jobs",
    "usage",
    "language",
    "help",
    "invite",
    "people",
    "tools",
)
GROUP_MENU = ("ask", "new", "stop", "usage", "help")
COMMANDS = (
    Command(
        "new",
        translatable("start a new conversation"),
        conversation.handle_new,
        CHAT,
        in_groups=True,
        concerns_others=True,
    ),
    Command(
        "stop",
        translatable("stop what I'm doing"),
        conversation.handle_stop,
        CHAT,
        in_groups=True,
        concerns_others=True,
    ),
    Command(
        "retry",
        translatable("answer the last message again"),
        retries.handle_retry,
        CHAT,
        in_groups=True,
    ),
    Command(
        "ask",
        translatable("ask me something, in a group"),
        handle_ask,
        CHAT,
        in_groups=True,
        example=translatable("/ask what is a tide?"),
    ),
    Command(
        "deep",
        translatable("let the second model answer"),
        consent.handle_deep,
        CHAT,
        example=translatable("/deep compare these two contracts"),
    ),
    Command(
        "find",
        translatable("look up what was said in this chat"),
        ReadOnlyAction(find.handle_find),
        CHAT,
        in_groups=True,
        example=translatable("/find plumber in May"),
    ),
    Command(
        "files",
        translatable("the files I keep for this chat"),
        files.handle_files,
        CHAT,
        in_groups=True,
    ),
    Command(
        "notes",
        translatable("my notes on this chat"),
        conversation.handle_notes,
        CHAT,
        in_groups=True,
    ),
    Command(
        "instructions",
        translatable("instructions for every answer in this chat"),
        instructions.handle_instructions,
        CHAT,
        in_groups=True,
        concerns_others=True,
        example=translatable("/instructions answer in two sentences"),
    ),
    Command(
        "think",
        translatable("whether I think before I answer"),
        think.handle_think,
        CHAT,
        in_groups=True,
        concerns_others=True,
    ),
    Command(
        "voice",
        translatable("whether I speak my answers"),
        voice.handle_voice,
        CHAT,
        in_groups=True,
        concerns_others=True,
    ),
    Command(
        "context",
        translatable("what I currently see of our conversation"),
        prompt_context.handle_context,
        CHAT,
        in_groups=True,
    ),
    Command(
        "remind",
        translatable("set a reminder"),
        jobs.handle_remind,
        LATER,
        in_groups=True,
        example=translatable("/remind tomorrow at 9 call Anna"),
    ),
    Command("jobs", translatable("your reminders and tasks"), job_cards.handle_jobs, LATER, in_groups=True),
    Command(
        "zone",
        translatable("your time zone"),
        jobs.handle_zone,
        LATER,
        example=translatable("/zone Berlin"),
    ),
    Command(
        "usage",
        translatable("how much you have used"),
        ReadOnlyAction(usage.handle_usage),
        SETTINGS,
        in_groups=True,
    ),
    Command("limits", translatable("your daily limit"), limits.handle_limits, SETTINGS),
    Command("language", translatable("the language of my own messages"), language.handle_language, SETTINGS),
    Command(
        "approvals",
        translatable("what I may do without asking, and what needs approval"),
        approvals.handle_approvals,
        SETTINGS,
    ),
    Command(
        "consent",
        translatable("what may be sent to services outside our network"),
        consent.handle_consent,
        SETTINGS,
        in_groups=True,
    ),
    Command(
        "forget",
        translatable("delete what I keep from this chat"),
        forget.handle_forget,
        SETTINGS,
        in_groups=True,
        concerns_others=True,
    ),
    Command(
        "export",
        translatable("get what was said here as files"),
        export.handle_export,
        SETTINGS,
        in_groups=True,
        concerns_others=True,
    ),
    Command("id", translatable("your Telegram ID"), handle_id, SETTINGS, min_role="anyone"),
    Command(
        "start",
        translatable("the greeting, with examples"),
        handle_start,
        SETTINGS,
        min_role="anyone",
    ),
    Command("help", translatable("what I can do"), handle_help, SETTINGS, in_groups=True),
    Command(
        "invite",
        translatable("make an invite link for one person"),
        people.handle_invite,
        ADMINS,
        min_role="admin",
        example="/invite admin",
    ),
    Command(
        "admin",
        translatable("the web page with usage, answers and people"),
        admin_page.handle_admin,
        ADMINS,
        min_role="admin",
    ),
    Command("people", translatable("members and requests"), people.handle_people, ADMINS, min_role="admin"),
    Command(
        "groups",
        translatable("my groups and their rules"),
        group_cards.handle_groups,
        ADMINS,
        min_role="admin",
    ),
    Command(
        "hooks",
        translatable("what other programs may post to my chats"),
        hooks.handle_hooks,
        ADMINS,
        min_role="admin",
        example=translatable("/hooks add bell Family"),
    ),
    Command(
        "tools", translatable("my tools, and how to add some"), tools.handle_tools, ADMINS, min_role="admin"
    ),
    Command(
        "grant",
        translatable("give access to a tool"),
        grants.handle_grant,
        ADMINS,
        min_role="admin",
        example=translatable("/grant weather everyone"),
    ),
    Command(
        "revoke",
        translatable("take away access to a tool"),
        grants.handle_revoke,
        ADMINS,
        min_role="admin",
        example=translatable("/revoke weather everyone"),
    ),
)
