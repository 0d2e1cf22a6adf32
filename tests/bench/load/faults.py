"""What happens to a message when something breaks: one trial for each fault.

The process is killed, a reply of Telegram is lost, the model writes its tool markup as text.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from bot.bench.harness.gateway_process import BenchFailed
from bot.sim.vllm.server import Brain, ChatRequest
from tests.bench.harness import workload
from tests.bench.harness.figures import BotName, FigureRow, FigureValue, limit_to, require_answer
from tests.bench.harness.stage import FIRST_CHAT_ID, PATIENCE_SECONDS, Stage, open_stage
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.telegram.server import BotApiFault

BOTS: tuple[BotName, ...] = ("memory", "ours")
RAW_CALL = 'call:clock{place:<|"|>Europe/Paris<|"|>}'
ANSWER_ENDING = workload.reply_ending(1)
SPOKEN_ANSWER = "It is nine in the morning."

_MARKUP_SIGNS = ("call:", "<|", "|>")


@dataclass(frozen=True, slots=True)
class FaultOutcome:
    """What a person sees after a fault.

    `copies`: how often the answer is in the chat; `asks_person`: whether they are asked about it;
    `shows_markup`: whether tool markup can be read there.
    """

    copies: int
    asks_person: bool
    shows_markup: bool


Trial = Callable[[Stage], Awaitable[None]]


async def measure_faults(folder: Path, wait_seconds: float) -> list[FigureRow]:
    """Every fault for the memory loop and for ours, both at the same time."""
    brain = workload.ProseBrain()
    killed = await _run_trials(folder / "killed", _try_kill, brain, ANSWER_ENDING, wait_seconds)
    lost = await _run_trials(folder / "lost", _try_lost_reply, brain, ANSWER_ENDING, wait_seconds)
    markup = await _run_trials(folder / "markup", _try_leaked_markup, _leak_call, SPOKEN_ANSWER, wait_seconds)
    answered: dict[BotName, FigureValue] = {name: outcome.copies == 1 for name, outcome in killed.items()}
    copies: dict[BotName, FigureValue] = {name: outcome.copies for name, outcome in lost.items()}
    asks: dict[BotName, FigureValue] = {name: outcome.asks_person for name, outcome in lost.items()}
    shows_markup: dict[BotName, FigureValue] = {
        name: outcome.shows_markup for name, outcome in markup.items()
    }
    return [
        FigureRow(
            "killed",
            "killed just after the update was fetched: answered once",
            "",
            answered,
            require_answer(value=True),
        ),
        FigureRow(
            "copies",
            "Telegram took the answer, its reply was lost: copies",
            "",
            copies,
            limit_to(1),
            digits=0,
        ),
        FigureRow("unknown", "and said to be unknown", "", asks, require_answer(value=True)),
        FigureRow(
            "markup", "raw tool markup reaches the person", "", shows_markup, require_answer(value=False)
        ),
    ]


async def _run_trials(
    folder: Path, trial: Trial, brain: Brain, ending: str, wait_seconds: float
) -> dict[BotName, FaultOutcome]:
    """Run a trial; both bots have as long as ours needs until its answer is seen, and `wait_seconds` more."""
    ours_answered = asyncio.Event()

    async def run_trial(name: BotName) -> FaultOutcome:
        async with open_stage(name, folder, ScriptedEndpoint(brain=brain)) as stage:
            await stage.start()
            await trial(stage)
            if name == "ours":
                with contextlib.suppress(TimeoutError):
                    await stage.api.wait_until(lambda: _count_copies(stage, ending), PATIENCE_SECONDS)
                ours_answered.set()
            await ours_answered.wait()
            await asyncio.sleep(wait_seconds)
            return _read_outcome(stage, ending)

    async with asyncio.TaskGroup() as tasks:
        trial_tasks = {name: tasks.create_task(run_trial(name)) for name in BOTS}
    return {name: task.result() for name, task in trial_tasks.items()}


async def _try_kill(stage: Stage) -> None:
    """Kill the bot once its poll has confirmed the update, which will not come again; then restart it."""
    stage.endpoint.hold()
    update = stage.write_question(1, chat_index=0)
    try:
        await stage.api.wait_until(lambda: update not in stage.api.updates.pending_ids, PATIENCE_SECONDS)
    except TimeoutError:
        raise BenchFailed("an update was never confirmed") from None
    await stage.process.kill()
    stage.endpoint.release()
    await stage.start()


async def _try_lost_reply(stage: Stage) -> None:
    stage.api.inject_fault(
        BotApiFault.accept_then_drop(), "sendMessage", when=lambda call: call.text.endswith(ANSWER_ENDING)
    )
    stage.write_question(1, chat_index=0)


async def _try_leaked_markup(stage: Stage) -> None:
    stage.write_question(1, chat_index=0)


def _read_outcome(stage: Stage, ending: str) -> FaultOutcome:
    messages = stage.api.chat(FIRST_CHAT_ID).bot_messages
    return FaultOutcome(
        copies=_count_copies(stage, ending),
        asks_person=any(message.buttons and not message.text.endswith(ending) for message in messages),
        shows_markup=any(mark in message.text for message in messages for mark in _MARKUP_SIGNS),
    )


def _count_copies(stage: Stage, ending: str) -> int:
    return sum(message.text.endswith(ending) for message in stage.api.chat(FIRST_CHAT_ID).bot_messages)


def _leak_call(request: ChatRequest) -> str:
    """A call without its opening token, which the server passes on as text; after its result, an answer."""
    if request.step:
        return SPOKEN_ANSWER
    return RAW_CALL
