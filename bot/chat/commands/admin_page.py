"""/admin: a link that logs in to the web page, once; and /admin off, which ends all sessions there."""

from bot.chat.actions import ActionContext, ActionResult, reply_hint, reply_text
from bot.db.people import page_sessions
from bot.translations.translator import translatable

_PAGE_OFF = translatable("The web page is off. Set `ADMIN_PAGE=on` and `HTTP_PORT=8080`, then restart me.")
_HOW_TO = translatable("/admin sends you a link to the web page; `/admin off` ends all sessions there.")
_LINK = translatable(
    "Sign in to the web page with this link. It works once, within {minutes} minutes:\n{link}"
)
_LOCAL_LINK = translatable(
    "Sign in to the web page with this link, on the server I run on. It works once, within {minutes} "
    "minutes. To open it elsewhere, set `ADMIN_URL`.\n"
    "{link}"
)


async def handle_admin(context: ActionContext) -> ActionResult:
    """/admin, or /admin off."""
    if context.args == "off":
        return await _end_sessions(context)
    if context.args:
        return reply_hint(context.translate(_HOW_TO))
    page_url = context.deps.settings.admin_page_url
    if page_url is None:
        return reply_hint(context.translate(_PAGE_OFF))
    token = await page_sessions.insert_link(context.tx, context.person, now=context.now)
    link = page_sessions.build_login_url(page_url, token)
    minutes = page_sessions.LINK_MINUTES
    if page_url.startswith("https:"):
        return reply_text(context.translate(_LINK, minutes=minutes, link=link))
    return reply_hint(context.translate(_LOCAL_LINK, minutes=minutes, link=f"`{link}`"))


async def _end_sessions(context: ActionContext) -> ActionResult:
    count = await page_sessions.end_all(context.tx, now=context.now)
    await context.record_audit("ended all sessions", "page", {"sessions": count}, None)
    text = context.translate.plural(
        "{count} session on the web page has been ended.",
        "{count} sessions on the web page have been ended.",
        count,
    )
    return reply_text(text)
