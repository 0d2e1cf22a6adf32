"""What Telegram says of a bot: whose token it is, asked by `setup`, and whether guest mode can work."""

from dataclasses import dataclass

from telegram import Bot
from telegram.error import InvalidToken, TelegramError
from telegram.request import HTTPXRequest

from bot.errors import TelegramAway, TelegramRefused
from bot.settings import describe_proxy
from bot.telegram.outcomes import describe_transport_error


@dataclass(frozen=True, slots=True)
class BotIdentity:
    """The bot behind a token; `username` is without the @. `has_topics`: private chats may have topics."""

    id: int
    username: str
    name: str
    has_topics: bool


async def check_token(token: str, api_url: str, proxy: str | None = None) -> BotIdentity:
    """Ask the Bot API at `api_url` (without `/bot`), through `proxy` if any, whose token this is.

    Raises TelegramRefused or TelegramAway.
    """
    # The library puts the token into its errors, so none of them is passed on or chained.
    request = HTTPXRequest(connect_timeout=5, read_timeout=10, proxy=proxy)
    try:
        async with Bot(token, base_url=f"{api_url}/bot", request=request) as bot:
            return BotIdentity(bot.id, bot.username, bot.first_name, bool(bot.bot.has_topics_enabled))
    except InvalidToken:
        raise TelegramRefused(
            "Telegram does not know this bot token; @BotFather shows the right one."
        ) from None
    except TelegramError as error:
        route = f"{api_url} through the proxy {describe_proxy(proxy)}" if proxy else api_url
        reason = describe_transport_error(error)
        raise TelegramAway(f"Telegram does not answer at {route}: {reason}.") from None


def list_guest_mode_problems(bot: Bot) -> list[str]:
    """Return what BotFather has to change before this bot answers in chats that it is no member of."""
    problems = []
    if not bot.bot.supports_guest_queries:
        problems.append(
            "GUEST_MODE is on, but Telegram does not let this bot be asked in other chats. Open @BotFather's "
            "Mini App, choose the bot, turn on guest mode, and start the gateway again."
        )
    if bot.bot.supports_inline_queries:
        problems.append(
            "GUEST_MODE is on, and so is the bot's inline mode: most apps then take @name for an inline "
            "query, and nobody can ask it in other chats. Send /setinline to @BotFather and turn it off."
        )
    return problems
