"""What becomes of a message when something breaks: one trial each.

The process is killed, a reply of Telegram is lost, the model writes its tool markup as text.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bot.bench.harness import workload as talk
from bot.bench.harness.bots import BenchFailed
from bot.bench.harness.stage import FIRST_CHAT_ID, PATIENCE, Stage, open_stage
from bot.bench.harness.statistics import BotName, FigureRow, FigureValue, limit_to, limit_to_answer
from bot.sim.telegram.server import BotApiFault
from bot.sim.vllm.server import Brain, ChatRequest, SimulatedEndpoint

BOTS: tuple[BotName, ...] = ("memory", "ours")
RAW_CALL = 'call:clock{place:<|"|>Europe/Paris<|"|>}'
SPOKEN_ANSWER = "It is nine in the morning."

_MARKUP_SIGNS = ("call:", "<|", "|>")


@dataclass(frozen=True, slots=True)
class FaultOutcome:
    """How often the answer is in the chat, whether a person is asked about it, and whether markup can be read
    there.
    """

    copies: int
    asks_person: bool
    shows_markup: bool


Trial = Callable[[Stage], Awaitable[FaultOutcome]]


async def measure_faults(folder: Path, wait_seconds: float) -> list[FigureRow]:
    """Every fault for the memory loop and for ours, side by side; its outcome is what is seen `patience` s
    later.
    """
    killed = await _run_trials(folder / "killed", partial(_try_kill, wait_seconds), talk.ProseBrain())
    lost = await _run_trials(folder / "lost", partial(_try_lost_reply, wait_seconds), talk.ProseBrain())
    markup = await _run_trials(folder / "markup", partial(_try_leaked_markup, wait_seconds), _leak_call)
    answered: dict[BotName, FigureValue] = {name: it.copies == 1 for name, it in killed.items()}
    copies: dict[BotName, FigureValue] = {name: it.copies for name, it in lost.items()}
    asked: dict[BotName, FigureValue] = {name: it.asks_person for name, it in lost.items()}
    raw: dict[BotName, FigureValue] = {name: it.shows_markup for name, it in markup.items()}
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
        FigureRow("unknown", "and said to be unknown", "", asked, limit_to_answer(value=True)),
        FigureRow("markup", "raw tool markup reaches the person", "", raw, limit_to_answer(value=False)),
    ]


async def _run_trials(folder: Path, trial: Trial, brain: Brain) -> dict[BotName, FaultOutcome]:
    async def one(name: BotName) -> FaultOutcome:
        async with open_stage(name, folder, SimulatedEndpoint(brain=brain)) as stage:
            await stage.start()
            return await trial(stage)

    async with asyncio.TaskGroup() as tasks:
        trying = {name: tasks.create_task(one(name)) for name in BOTS}
    return {name: task.result() for name, task in trying.items()}


async def _try_kill(wait_seconds: float, stage: Stage) -> FaultOutcome:
    """Killed once Telegram holds the update as confirmed, so that it will not come again; then started anew."""
    stage.endpoint.hold()
    update = stage.write_question(1, chat_index=0)
    try:
        await stage.api.wait_until(lambda: update not in stage.api.updates.pending_ids, PATIENCE)
    except TimeoutError:
        raise BenchFailed("an update was never confirmed") from None
    await stage.process.kill()
    stage.endpoint.release()
    await stage.start()
    return await _read_outcome(stage, talk.reply_ending(1), wait_seconds)


async def _try_lost_reply(wait_seconds: float, stage: Stage) -> FaultOutcome:
    ending = talk.reply_ending(1)
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
    shown = stage.api.chat(FIRST_CHAT_ID).bot_messages
    return FaultOutcome(
        copies=sum(message.text.endswith(ending) for message in shown),
        asks_person=any(message.buttons and not message.text.endswith(ending) for message in shown),
        shows_markup=any(mark in message.text for message in shown for mark in _MARKUP_SIGNS),
    )


def _leak_call(request: ChatRequest) -> str:
    """A call without its opening token, which the server gives as text; told its result, the model speaks."""
    if request.step:
        return SPOKEN_ANSWER
    return RAW_CALL
