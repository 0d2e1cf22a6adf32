"""The baseline bot that does the least: aiohttp, getUpdates, one model call, one send; nothing is stored."""

import asyncio
import contextlib
import sys
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout

POLL_SECONDS = 20


async def run_bare_loop(token: str, telegram_url: str, model_url: str) -> None:
    """Poll forever; each message is answered in a task of its own."""
    api = f"{telegram_url}/bot{token}"
    offset = 0
    async with ClientSession(timeout=ClientTimeout(total=120)) as http, asyncio.TaskGroup() as tasks:
        while True:
            fetched = await _post(http, f"{api}/getUpdates", {"offset": offset, "timeout": POLL_SECONDS})
            for update in fetched["result"]:
                offset = update["update_id"] + 1
                if "text" in update.get("message", {}):
                    tasks.create_task(_answer_message(http, api, model_url, update["message"]))


async def _answer_message(http: ClientSession, api: str, model_url: str, message: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": message["text"]}]
    with contextlib.suppress(ClientError):
        body = {"model": "diffusiongemma", "messages": messages, "max_tokens": 1024}
        reply = await _post(http, f"{model_url}/chat/completions", body)
        text = reply["choices"][0]["message"]["content"]
        await _post(http, f"{api}/sendMessage", {"chat_id": message["chat"]["id"], "text": text})


async def _post(http: ClientSession, url: str, body: dict[str, Any]) -> dict[str, Any]:
    async with http.post(url, json=body) as response:
        answer: dict[str, Any] = await response.json()
        return answer


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run_bare_loop(*sys.argv[1:4]))
