"""The baseline bot as people write it, with PTB's Application and the openai client; nothing is stored.

Chats are answered concurrently, typing is shown first, text is streamed into one message, and a failed call
is tried again.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from openai import AsyncOpenAI
from telegram import Message, Update
from telegram.constants import ChatAction
from telegram.error import NetworkError
from telegram.ext import Application, ApplicationBuilder, ContextTypes, MessageHandler, filters

SYSTEM_PROMPT = (
    "You are a helpful assistant in a Telegram chat. "
    "Answer in the language you are written to, briefly, plainly."
)
EDIT_SECONDS = 1.0
MAX_TRIES = 3

T = TypeVar("T")


class MemoryLoop:
    """Answers messages from a history in memory."""

    def __init__(self, model_url: str) -> None:
        self._client = AsyncOpenAI(base_url=model_url, api_key="none")
        self._history: dict[int, list[dict[str, str]]] = defaultdict(list)

    async def close(self) -> None:
        """Close the connections to the model."""
        await self._client.close()

    async def answer(self, update: Update, context: ContextTypes.DEFAULT_TYPE) -> None:
        """Handle one message."""
        message = update.effective_message
        if message is None or message.text is None:
            return
        await _retry_network_errors(lambda: context.bot.send_chat_action(message.chat_id, ChatAction.TYPING))
        history = self._history[message.chat_id]
        history.append({"role": "user", "content": message.text})
        history.append({"role": "assistant", "content": await self._stream_reply(message, history)})

    async def _stream_reply(self, message: Message, history: list[dict[str, str]]) -> str:
        """Show the reply as it grows: one message, edited at most once a second."""
        messages: Any = [{"role": "system", "content": SYSTEM_PROMPT}, *history]
        stream = await self._client.chat.completions.create(
            model="diffusiongemma", messages=messages, max_tokens=1024, stream=True
        )
        text = ""
        shown_text = ""
        edited_at = 0.0
        sent_message: Message | None = None
        async for chunk in stream:
            if chunk.choices:
                text += chunk.choices[0].delta.content or ""
            if sent_message is None and text:
                sent_message = await _retry_network_errors(partial(message.reply_text, text))
                shown_text = text
                edited_at = time.monotonic()
            elif sent_message and text != shown_text and time.monotonic() - edited_at >= EDIT_SECONDS:
                await _retry_network_errors(partial(sent_message.edit_text, text))
                shown_text = text
                edited_at = time.monotonic()
        if sent_message and text != shown_text:
            await _retry_network_errors(partial(sent_message.edit_text, text))
        return text


async def _retry_network_errors(call: Callable[[], Awaitable[T]]) -> T:
    """Try again when the network fails, without knowing whether the call had arrived."""
    for _ in range(MAX_TRIES - 1):
        try:
            return await call()
        except NetworkError:
            continue
    return await call()


def build_application(
    token: str, telegram_url: str, loop: MemoryLoop
) -> Application[Any, Any, Any, Any, Any, Any]:
    """The bot, ready to poll."""
    builder = ApplicationBuilder().token(token).base_url(f"{telegram_url}/bot").concurrent_updates(True)
    application = builder.build()
    application.add_handler(MessageHandler(filters.TEXT & ~filters.COMMAND, loop.answer))
    return application


if __name__ == "__main__":
    build_application(sys.argv[1], sys.argv[2], MemoryLoop(sys.argv[3])).run_polling()
