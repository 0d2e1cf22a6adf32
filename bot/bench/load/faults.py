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
from bot.bench.harness.stage import FIRST_CHAT, PATIENCE, Stage, staged
from bot.bench.harness.statistics import Name, Row, Value, at_most, wanted
from bot.sim.telegram.server import Fault
from bot.sim.vllm.server import Brain, ChatRequest, Endpoint

BOTS: tuple[Name, ...] = ("memory", "ours")
RAW = 'call:clock{place:<|"|>Europe/Paris<|"|>}'
SPOKEN = "It is nine in the morning."

_MARKUP = ("call:", "<|", "|>")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How often the answer is in the chat, whether a person is asked about it, and whether markup can be read
    there.
    """

    copies: int
    asked: bool
    raw: bool


Trial = Callable[[Stage], Awaitable[Outcome]]


async def measure(folder: Path, patience: float) -> list[Row]:
    """Every fault for the memory loop and for ours, side by side; its outcome is what is seen `patience` s
    later.
    """
    killed = await _tried(folder / "killed", partial(_killed, patience), talk.Model())
    lost = await _tried(folder / "lost", partial(_reply_lost, patience), talk.Model())
    markup = await _tried(folder / "markup", partial(_markup, patience), _leaking)
    answered: dict[Name, Value] = {name: it.copies == 1 for name, it in killed.items()}
    copies: dict[Name, Value] = {name: it.copies for name, it in lost.items()}
    asked: dict[Name, Value] = {name: it.asked for name, it in lost.items()}
    raw: dict[Name, Value] = {name: it.raw for name, it in markup.items()}
    return [
        Row(
            "killed",
            "killed just after the update was fetched: answered once",
            "",
            answered,
            wanted(value=True),
        ),
        Row(
            "copies", "Telegram took the answer, its reply was lost: copies", "", copies, at_most(1), digits=0
        ),
        Row("unknown", "and said to be unknown", "", asked, wanted(value=True)),
        Row("markup", "raw tool markup reaches the person", "", raw, wanted(value=False)),
    ]


async def _tried(folder: Path, trial: Trial, brain: Brain) -> dict[Name, Outcome]:
    async def one(name: Name) -> Outcome:
        async with staged(name, folder, Endpoint(brain=brain)) as stage:
            await stage.start()
            return await trial(stage)

    async with asyncio.TaskGroup() as tasks:
        trying = {name: tasks.create_task(one(name)) for name in BOTS}
    return {name: task.result() for name, task in trying.items()}


async def _killed(patience: float, stage: Stage) -> Outcome:
    """Killed once Telegram holds the update as confirmed, so that it will not come again; then started anew."""
    stage.endpoint.hold()
    update = stage.write(1, chat=0)
    try:
        await stage.api.until(lambda: update not in stage.api.updates.pending_ids, PATIENCE)
    except TimeoutError:
        raise BenchFailed("an update was never confirmed") from None
    await stage.running.kill()
    stage.endpoint.release()
    await stage.start()
    return await _outcome(stage, talk.ending(1), patience)


async def _reply_lost(patience: float, stage: Stage) -> Outcome:
    ending = talk.ending(1)
    stage.api.inject(Fault.accept_then_drop(), "sendMessage", when=lambda call: call.text.endswith(ending))
    stage.write(1, chat=0)
    return await _outcome(stage, ending, patience)


async def _markup(patience: float, stage: Stage) -> Outcome:
    stage.write(1, chat=0)
    return await _outcome(stage, SPOKEN, patience)


async def _outcome(stage: Stage, ending: str, patience: float) -> Outcome:
    await asyncio.sleep(patience)
    shown = stage.api.chat(FIRST_CHAT).from_bot
    return Outcome(
        copies=sum(message.text.endswith(ending) for message in shown),
        asked=any(message.buttons and not message.text.endswith(ending) for message in shown),
        raw=any(mark in message.text for message in shown for mark in _MARKUP),
    )


def _leaking(request: ChatRequest) -> str:
    """A call without its opening token, which the server gives as text; told its result, the model speaks."""
    if request.step:
        return SPOKEN
    return RAW
