"""/usage: what the last turn, the day and 30 days took, with the turn's details and a picture behind buttons.

For admins `/usage all` ranks people and chats. In a group it is what was taken there, by everybody. What is
answered is imported with the first answer: reports would take each start a while.
"""

from bot.chat.actions import ActionContext, ActionResult, ButtonExpired, reply_hint
from bot.errors import ChangeRefused
from bot.translations.translator import translatable

_HELP = translatable("/usage shows what you've used; `/usage chart` draws it.")
_ADMIN_HELP = translatable(
    "/usage shows what you've used, `/usage all` what everybody has; `/usage chart` and `/usage chart all` "
    "draw it."
)


async def handle_usage(context: ActionContext) -> ActionResult:
    """/usage, with the words all or chart, or both."""
    words = set(context.args.lower().split())
    is_admin = context.role == "admin"
    for_everybody = "all" in words
    if for_everybody and context.is_group:
        raise ChangeRefused("That works only in our private chat.")
    if words - {"all", "chart"}:
        return reply_hint(context.translate(_ADMIN_HELP if is_admin else _HELP))
    if for_everybody and not is_admin:
        raise ChangeRefused("{command} is for admins.", command="/usage all")
    from bot.chat.commands import usage_answers

    if "chart" in words:
        return await usage_answers.build_chart(context, for_everybody=for_everybody)
    return ActionResult(parts=(await usage_answers.build_figures(context, for_everybody=for_everybody),))


async def handle_summary_button(context: ActionContext) -> ActionResult:
    """The button that goes back from the details; the figures are as of now."""
    from bot.chat.commands import usage_answers

    return ActionResult(replacement=await usage_answers.build_summary(context))


async def handle_details_button(context: ActionContext, turn: int) -> ActionResult:
    """The button that shows the details of a turn."""
    from bot.chat.commands import usage_answers

    return await usage_answers.build_details(context, turn)


async def handle_chart_button(context: ActionContext) -> ActionResult:
    """The button that draws one's own 30 days, or, below figures for admins, everybody's."""
    everybody = context.args == "all"
    if everybody and (context.is_group or context.role != "admin"):
        raise ButtonExpired
    from bot.chat.commands import usage_answers

    result = await usage_answers.build_chart(context, for_everybody=everybody)
    if not result.files:
        return ActionResult(toast=result.parts[-1].text)
    return ActionResult(toast=context.translate("I'm drawing the chart."), files=result.files)
