"""The gateway without limits of its own on calls to Telegram; a process that only the bench starts.

With them one bot makes 25 calls a second, and the throughput of the process is not seen.
"""

import asyncio
import functools
import gc

from bot import logs
from bot.app import factory
from bot.settings import Settings, load_settings
from bot.telegram.delivery.rate_budget import CallRate, RateLimits
from bot.terminal import Work, run_until_signal

_ANY_RATE = CallRate(interval_seconds=0.0, burst=1)


def main() -> None:
    """Run it with the settings of the environment until a signal stops it."""
    settings = load_settings(None)
    logs.configure(settings.log_level, settings.log_format, settings.list_secrets())
    gc.freeze()  # as `canvasgram run` does
    asyncio.run(run_until_signal(build_work(settings)))


def build_work(settings: Settings) -> Work:
    """The gateway as the work of a process."""
    limits = RateLimits(overall=_ANY_RATE, private=_ANY_RATE)
    return functools.partial(factory.run, settings, options=factory.RunOptions(rate_limits=limits))


if __name__ == "__main__":
    main()
