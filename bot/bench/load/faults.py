"""What happens to a message when something breaks: one trial for each fault.

The process is killed, a reply of Telegram is lost, the model writes its tool markup as text.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bot.bench.harness import workload
from bot.bench.harness.bots import BenchFailed
from bot.bench.harness.stage import FIRST_CHAT_ID, PATIENCE_SECONDS, Stage, open_stage
from bot.bench.harness.statistics import BotName, FigureRow, FigureValue, limit_to, limit_to_answer
from bot.sim.telegram.server import BotApiFault
from bot.sim.vllm.server import Brain, ChatRequest, SimulatedEndpoint

BOTS: tuple[BotName, ...] = ("memory", "ours")
RAW_CALL = 'call:clock{place:<|"|>Europe/Paris<|"|>}'
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


Trial = Callable[[Stage], Awaitable[FaultOutcome]]


async def measure_faults(folder: Path, wait_seconds: float) -> list[FigureRow]:
    """Every fault for the memory loop and for ours, concurrently; outcomes are read `wait_seconds` later."""
    killed = await _run_trials(folder / "killed", partial(_try_kill, wait_seconds), workload.ProseBrain())
    lost = await _run_trials(folder / "lost", partial(_try_lost_reply, wait_seconds), workload.ProseBrain())
    markup = await _run_trials(folder / "markup", partial(_try_leaked_markup, wait_seconds), _leak_call)
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
            limit_to_answer(value=True),
        ),
        FigureRow(
            "copies",
            "Telegram took the answer, its reply was lost: copies",
            "",
            copies,
            limit_to(1),
            digits=0,
        ),
        FigureRow("unknown", "and said to be unknown", "", asks, limit_to_answer(value=True)),
        FigureRow(
            "markup", "raw tool markup reaches the person", "", shows_markup, limit_to_answer(value=False)
        ),
    ]


async def _run_trials(folder: Path, trial: Trial, brain: Brain) -> dict[BotName, FaultOutcome]:
    async def run_trial(name: BotName) -> FaultOutcome:
        async with open_stage(name, folder, SimulatedEndpoint(brain=brain)) as stage:
            await stage.start()
            return await trial(stage)

    async with asyncio.TaskGroup() as tasks:
        trial_tasks = {name: tasks.create_task(run_trial(name)) for name in BOTS}
    return {name: task.result() for name, task in trial_tasks.items()}


async def _try_kill(wait_seconds: float, stage: Stage) -> FaultOutcome:
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
    return await _read_outcome(stage, workload.reply_ending(1), wait_seconds)


async def _try_lost_reply(wait_seconds: float, stage: Stage) -> FaultOutcome:
    ending = workload.reply_ending(1)
    stage.api.inject_fault(
        BotApiFault.accept_then_drop(), "sendMessage", when=lambda call: call.text.endswith(ending)
    )
    stage.write_question(1, chat_index=0)
    return await _read_outcome(stage, ending, wait_seconds)


async def _try_leaked_markup(wait_seconds: float, stage: Stage) -> FaultOutcome:
    stage.write_question(1, chat_index=0)
    return await _read_outcome(stage, SPOKEN_ANSWER, wait_seconds)


async def _read_outcome(stage: Stage, ending: str, wait_seconds: float) -> FaultOutcome:
    await asyncio.sleep(wait_seconds)
    messages = stage.api.chat(FIRST_CHAT_ID).bot_messages
    return FaultOutcome(
        copies=sum(message.text.endswith(ending) for message in messages),
        asks_person=any(message.buttons and not message.text.endswith(ending) for message in messages),
        shows_markup=any(mark in message.text for message in messages for mark in _MARKUP_SIGNS),
    )


def _leak_call(request: ChatRequest) -> str:
    """A call without its opening token, which the server passes on as text; after its result, an answer."""
    if request.step:
        return SPOKEN_ANSWER
    return RAW_CALL
