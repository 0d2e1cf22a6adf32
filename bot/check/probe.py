"""The check of an endpoint, from the options of the command to the report.

Takes the steps one by one and keeps the observations; an endpoint that goes away ends the check.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import httpx

from bot.attachments.speech import SpeechSynthesizer, build_synthesizer
from bot.attachments.transcription import Transcriber, build_transcriber
from bot.check.client import CallBudgetSpent, CallLost, CheckLimits, ProbeClient
from bot.check.findings import CheckReport, Verdict, fail_verdict, pass_verdict
from bot.check.observations import Observations
from bot.check.report import build_report
from bot.check.search_probe import probe_search
from bot.check.steps import STEPS, ProbeStep, ProbeSteps
from bot.check.telegram_probe import judge_open_documents, probe_telegram
from bot.check.voice_probe import probe_voice
from bot.errors import SettingsRefused
from bot.llm.server_api import parse_models
from bot.settings import NO_BOT_TOKEN, build_settings, load_settings, reveal
from tools.search.engine import SearchEngine
from tools.search.tool import choose_engine

MAX_LOST_CALLS: Final = 3  # calls in a row that may fail
CHECK_HINT: Final = "canvasgram check says more"
CALLS_PER_SERVER: Final = 10  # that a check may make more for each server named

CheckProgress = Callable[[int, int, str], None]
"""Called before each step with the steps done, all steps, and the name of the next."""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Which endpoint to check, and what the gateway needs of it: `tokens` of context, `seats`.

    `servers`: the addresses of all servers behind it; empty: it is the only one.
    `image_tokens`: what a picture is to take; None: what the endpoint takes.
    `includes_search`: `search_engine` is checked as well; None: the settings name none.
    `synthesizer`, `transcriber`: the services for sound, if the settings name them.
    `bot_url`: where Telegram is asked about the bot, with its token (None: nobody is asked).
    `guest_mode`: it is to answer in chats that it is no member of.
    `has_open_documents`: there is a folder of documents, and anybody may write to the bot.
    """

    url: str
    key: str | None = None
    model: str | None = None
    tokens: int | None = None
    seats: int | None = None
    servers: tuple[str, ...] = ()
    image_tokens: int | None = None
    includes_search: bool = False
    search_engine: SearchEngine | None = None
    synthesizer: SpeechSynthesizer | None = None
    transcriber: Transcriber | None = None
    bot_url: str | None = field(default=None, repr=False)
    telegram_proxy: str | None = field(default=None, repr=False)
    guest_mode: bool = False
    has_open_documents: bool = False
    limits: CheckLimits = field(default_factory=CheckLimits)

    @property
    def all_limits(self) -> CheckLimits:
        """The limits, with more calls for each server named."""
        max_calls = self.limits.max_calls + CALLS_PER_SERVER * len(self.servers)
        return replace(self.limits, max_calls=max_calls)


def resolve_options(endpoint: str | None, key: str | None, env_file: Path) -> CheckOptions:
    """The endpoint given, with the key given or none, else that of the settings.

    A key of the settings is never sent to another endpoint. Raises SettingsRefused.
    """
    if endpoint is not None:
        settings = build_settings(telegram_token=NO_BOT_TOKEN, model_url=endpoint, model_api_key=key or None)
        return CheckOptions(
            settings.model_url, reveal(settings.model_api_key), tokens=settings.max_context_tokens
        )
    given_key = {"model_api_key": key} if key else {}
    settings = load_settings(env_file, telegram_token=NO_BOT_TOKEN, **given_key)
    return CheckOptions(
        settings.model_url,
        reveal(settings.model_api_key),
        settings.model_name,
        settings.max_context_tokens,
        settings.model_seats,
        settings.model_metrics_urls,
        image_tokens=settings.fixed_image_tokens,
        includes_search=True,
        search_engine=choose_engine(settings.search_url, reveal(settings.search_key)),
        synthesizer=build_synthesizer(settings),
        transcriber=build_transcriber(settings),
        bot_url=_find_bot_url(env_file),
        telegram_proxy=settings.telegram_proxy,
        guest_mode=settings.guest_mode == "on",
        has_open_documents=settings.access == "open" and settings.documents_dir is not None,
    )


def _find_bot_url(env_file: Path) -> str | None:
    try:
        settings = load_settings(env_file)
    except SettingsRefused:  # an endpoint is checked before there is a bot, too
        return None
    return f"{settings.telegram_api_url}/bot{settings.telegram_token.get_secret_value()}"


async def run_check(
    options: CheckOptions, on_progress: CheckProgress, stop: asyncio.Event | None = None
) -> CheckReport:
    """Probe the endpoint until `stop` and judge it; a fault of the endpoint is a finding, no exception."""
    observations = await observe_endpoint(options, on_progress, stop)
    report = build_report(observations, options.all_limits.max_calls)
    findings = [*report.findings]
    if options.includes_search:
        findings.append(await probe_search(options.search_engine))
    findings += await probe_voice(options.synthesizer, options.transcriber)
    if options.bot_url is not None:
        findings += await probe_telegram(
            options.bot_url, guest_mode=options.guest_mode, proxy=options.telegram_proxy
        )
    if options.has_open_documents:
        findings.append(judge_open_documents())
    return replace(report, findings=tuple(findings))


async def observe_endpoint(
    options: CheckOptions, on_progress: CheckProgress, stop: asyncio.Event | None = None
) -> Observations:
    """Make all calls of a check, or those until `stop`; never raises for what the endpoint does."""
    async with _open_client(options) as client:
        check_run = _CheckRun(client, options)
        async with asyncio.TaskGroup() as tasks:
            check_task = tasks.create_task(check_run.run_steps(on_progress), name="check")
            stop_task = tasks.create_task(_cancel_on_stop(stop, check_task), name="stop")
            check_task.add_done_callback(lambda _: stop_task.cancel())
        return check_run.build_observations(was_interrupted=check_task.cancelled())


async def probe_briefly(options: CheckOptions) -> Verdict:
    """Ask the endpoint what it serves and what runs there: no model call."""
    async with _open_client(options) as client:
        try:
            route = await client.request_route("GET", "models")
        except CallLost as error:
            return fail_verdict(f"{options.url} does not answer: {error}", CHECK_HINT)
        if not route.ok:
            return fail_verdict(f"{options.url} answers HTTP {route.status}", CHECK_HINT)
        names = [model.name for model in parse_models(route.body)]
        if not names or (options.model and options.model not in names):
            return fail_verdict(f"{options.url} serves {', '.join(names) or 'no model'}", CHECK_HINT)
        gauges = await client.read_gauges()
    model = options.model or names[0]
    if gauges is None:
        return pass_verdict(f"{model} answers; what runs there is not said")
    return pass_verdict(f"{model} answers; {gauges.running} calls run there, {gauges.waiting} wait")


@asynccontextmanager
async def _open_client(options: CheckOptions) -> AsyncIterator[ProbeClient]:
    timeout = httpx.Timeout(options.limits.call_seconds)
    # vLLM drops idle connections after 5 s; a call on one it is just dropping would look like a fault.
    limits = httpx.Limits(max_connections=None, keepalive_expiry=3.0)
    addresses = (options.url, *options.servers)
    verify = not all(address.startswith("http://") for address in addresses)  # certificates take 20 ms
    async with httpx.AsyncClient(timeout=timeout, trust_env=False, limits=limits, verify=verify) as http:
        yield ProbeClient(http, options.url, options.key, options.all_limits, options.servers)


class _CheckRun:
    """One check while it runs."""

    def __init__(self, client: ProbeClient, options: CheckOptions) -> None:
        self._client = client
        self._steps = ProbeSteps(client, options.model)
        self._lost_in_a_row = 0
        self._began_at = time.monotonic()
        self.observations = Observations(
            options.url,
            has_key=options.key is not None,
            wanted_model=options.model,
            needs_tokens=options.tokens,
            needs_seats=options.seats,
            servers=options.servers,
            image_tokens=options.image_tokens,
        )

    async def run_steps(self, on_progress: CheckProgress) -> None:
        """Take all steps, or those until something ends the check."""
        for steps_done, (name, step) in enumerate(STEPS):
            if self.observations.stopped is not None:
                break
            on_progress(steps_done, len(STEPS), name)
            await self._run_step(name, step)
        on_progress(len(STEPS), len(STEPS), "done")

    def build_observations(self, *, was_interrupted: bool) -> Observations:
        """What was observed so far."""
        seconds = time.monotonic() - self._began_at
        observations = replace(self.observations, calls=self._client.calls, seconds=seconds)
        if was_interrupted:
            return replace(observations, stopped="the check was interrupted")
        return observations

    async def _run_step(self, name: str, step: ProbeStep) -> None:
        try:
            changes = await step(self._steps, self.observations)
            self.observations = replace(self.observations, **changes)
            self._lost_in_a_row = 0
        except CallBudgetSpent:
            reason = f"all {self._client.limits.max_calls} calls of a check were used up"
            self.observations = replace(self.observations, stopped=reason)
        except CallLost as error:
            lost = {**self.observations.lost, name: f"{error}, when asked for: {name}"}
            self.observations = replace(self.observations, lost=lost)
            self._lost_in_a_row += 1
            await self._end_if_gone(str(error))

    async def _end_if_gone(self, reason: str) -> None:
        """End the check if the endpoint is gone: a single lost call may be bad luck."""
        if self.observations.version is None and self.observations.models is None:
            if "models" in self.observations.lost:
                self._mark_gone(f"the endpoint cannot be reached: {reason}")
            return
        if self._lost_in_a_row >= MAX_LOST_CALLS:
            self._mark_gone(f"the endpoint stopped answering after {self._client.calls} calls: {reason}")
            return
        try:
            health = await self._client.request_route("GET", "/health")
            is_alive = health.status < 500
        except (CallLost, CallBudgetSpent):
            is_alive = False
        if not is_alive:
            self._mark_gone(f"the endpoint went away after {self._client.calls} calls: {reason}")

    def _mark_gone(self, reason: str) -> None:
        self.observations = replace(self.observations, stopped=reason, gone=True)


async def _cancel_on_stop(stop: asyncio.Event | None, check_task: asyncio.Task[None]) -> None:
    if stop is not None:
        await stop.wait()
        check_task.cancel()
