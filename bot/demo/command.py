"""`canvasgram demo`: serves the chat page until it is stopped, or sends one question and ends."""

import asyncio

import typer

from bot import logs
from bot.demo import exchange
from bot.demo.environment import Demo, RealModel, open_demo
from bot.demo.exchange import Echo
from bot.demo.page import serve_page
from bot.errors import SettingsRefused


async def run(
    stop: asyncio.Event,
    *,
    model_url: str | None = None,
    model_key: str | None = None,
    say: str | None = None,
    port: int = 0,
    echo: Echo = typer.echo,
) -> int:
    """Serve the chat page until `stop`, or send `say` and end; returns the exit code.

    Raises a CanvasgramError if the port is taken, an option is wrong, or no endpoint answers at `model_url`.
    """
    logs.configure("WARNING", secrets=[model_key] if model_key else [])
    if say is not None and not say.strip():
        raise SettingsRefused('--say must be a text. Example: canvasgram demo --say "What is 19 % of 84.50?"')
    real_model = None
    if model_url is not None:
        real_model = RealModel(model_url, model_key)
    async with open_demo(real_model) as demo:
        if say is not None:
            return await exchange.run_exchange(demo, say, stop, echo)
        async with serve_page(demo, port) as address:
            echo(_format_greeting(demo, address))
            await stop.wait()
    echo("\nStopped. The temporary database is deleted.")
    return 0


def _format_greeting(demo: Demo, address: str) -> str:
    model = f"the model ({demo.model.description})"
    gateway = "the gateway, its tools, its database (a temporary one)"
    simulated = "Telegram"
    real = gateway
    real_use = "canvasgram setup"
    if demo.model.simulated is None:
        real = f"{gateway}, and {model}"
    else:
        simulated = f"Telegram, and {model}"
        real_use = "canvasgram setup (or a real model here: --model-url URL)"
    rows = (
        ("Open", address),
        ("Simulated", simulated),
        ("Real", real),
        ("Real use", real_use),
        ("Stop", "Ctrl-C"),
    )
    return "Canvasgram demo\n\n" + "\n".join(f"  {name:<10} {text}" for name, text in rows)
