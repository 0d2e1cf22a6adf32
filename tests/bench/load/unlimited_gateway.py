"""The gateway without limits of its own on calls to Telegram; a process that only the bench starts.

With them one bot makes 25 calls a second, and the throughput of the process is not seen.
"""

import asyncio
import functools
import gc

from bot import logs
from bot.app import process
from bot.app.factory import RunOptions
from bot.settings import load_settings
from bot.telegram.delivery.rate_budget import CallRate, RateLimits
from bot.terminal import run_until_signal

_ANY_RATE = CallRate(interval_seconds=0.0, burst=1)


def main() -> None:
    """Run it with the settings of the environment until a signal stops it."""
    settings = load_settings(None)
    logs.configure(settings.log_level, settings.log_format, settings.list_secrets())
    gc.freeze()  # as `canvasgram run` does
    options = RunOptions(rate_limits=RateLimits(overall=_ANY_RATE, private=_ANY_RATE))
    asyncio.run(run_until_signal(functools.partial(process.run, settings, options=options)))


if __name__ == "__main__":
    main()
