"""Asks as many people while one floods the gateway, and prints what that costs, as ratios of medians.

The gateway is a process of its own, as users start it. Each kind of flood has a gateway and a database of
its own: others write alone first, then while Eve sends. Each of them writes twice, so that no answer waits
for the pace of its chat.
"""

import asyncio
import itertools
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.bench.harness import machine
from bot.sim.telegram.server import MAX_WAIT_SECONDS
from tests.kill.environment import ANN, KillEnvironment, open_environment
from tests.support.attachment_files import make_slow_pdf
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.machine import describe_machine
from tests.support.office_files import make_docx, make_paragraph
from tests.support.telegram.server import ScriptedPerson

EVE = 66
FIRST_PERSON = 1000
QUESTIONS = 20  # of each kind, alone and meanwhile
MAX_RATIO = 2.0
TOPICS = 20

Flood = Callable[[KillEnvironment], Coroutine[None, None, None]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Seconds of a person's answers alone and while another floods."""

    name: str
    alone: Sequence[float]
    meanwhile: Sequence[float]

    @property
    def ratio(self) -> float:
        return statistics.median(self.meanwhile) / statistics.median(self.alone)

    def __str__(self) -> str:
        alone, meanwhile = statistics.median(self.alone), statistics.median(self.meanwhile)
        missed = "" if self.ratio <= MAX_RATIO else "  missed"
        return f"{self.name:56} {alone:6.3f} s {meanwhile:6.3f} s {self.ratio:6.2f} ×{missed}"


async def send_albums(environment: KillEnvironment) -> None:
    """An album of ten small files of 4 MB of text each, as soon as the last one was answered."""
    eve = environment.api.person(EVE, "Eve")
    body = make_docx(make_paragraph("😀" * 1_000_000))
    for number in itertools.count():
        answered = len(eve.chat.bot_messages)
        for file in range(10):
            eve.send_document(f"{file}.docx", content=body, album=f"album {number}")
        await wait_for_answers(environment, eve, answered + 1)


async def send_slow_files(environment: KillEnvironment) -> None:
    """A file that keeps its reader busy until it is ended, in each of twenty topics."""
    await _send_in_topics(environment, "slow.pdf", make_slow_pdf())


async def send_large_files(environment: KillEnvironment) -> None:
    """A file of 19 MB in each of twenty topics."""
    await _send_in_topics(environment, "large.txt", b"words and more " * (19 * 1024**2 // 15))


async def _send_in_topics(environment: KillEnvironment, name: str, body: bytes) -> None:
    eve = environment.api.person(EVE, "Eve")
    topics = [eve.create_topic(f"Topic {number}") for number in range(TOPICS)]
    while True:
        answered = len(eve.chat.bot_messages)
        for topic in topics:
            eve.send_document(name, content=body, caption="Read it.", thread=topic)
        await wait_for_answers(environment, eve, answered + TOPICS)


async def wait_for_answers(environment: KillEnvironment, person: ScriptedPerson, count: int) -> None:
    """Wait until the bot has sent this person so many messages."""
    await environment.api.wait_until(lambda: len(person.chat.bot_messages) >= count, 10 * MAX_WAIT_SECONDS)


FLOODS: Mapping[str, Flood] = {
    "albums of 40 MB of text": send_albums,
    "20 topics of files that are slow to read": send_slow_files,
    "20 topics of files of 19 MB": send_large_files,
}


async def ask(environment: KillEnvironment, person: ScriptedPerson, with_file: bool) -> float:
    """Seconds from a message to its answer."""
    answered = len(person.chat.bot_messages)
    started_at = time.monotonic()
    if with_file:
        person.send_document("note.docx", content=make_docx(make_paragraph("word")), caption="Read it.")
    else:
        person.send("Hello.")
    await wait_for_answers(environment, person, answered + 1)
    return time.monotonic() - started_at


async def ask_as_others(environment: KillEnvironment) -> dict[bool, list[float]]:
    """Seconds of answers to texts (False) and to files (True), each of another person."""
    people = [environment.api.person(FIRST_PERSON + number, "Bob") for number in range(2 * QUESTIONS)]
    texts = [await ask(environment, person, with_file=False) for person in people[:QUESTIONS]]
    files = [await ask(environment, person, with_file=True) for person in people[QUESTIONS:]]
    return {False: texts, True: files}


async def compare(name: str, flood: Flood) -> list[Comparison]:
    """The answers of others alone and meanwhile: to texts and to files."""
    folder = Path(tempfile.mkdtemp(prefix="canvasgram-shares-"))
    async with open_environment(folder, ScriptedEndpoint(), None) as environment:
        await environment.gateway.start()
        environment.api.person(ANN, "Ann").send("/id")
        await ask(environment, environment.api.person(FIRST_PERSON - 1, "Bob"), with_file=True)
        alone = await ask_as_others(environment)
        async with asyncio.TaskGroup() as tasks:
            flooding = tasks.create_task(flood(environment))
            await environment.api.wait_until(lambda: len(environment.api.calls_of("getFile")) > QUESTIONS + 1)
            meanwhile = await ask_as_others(environment)
            flooding.cancel()
    shutil.rmtree(folder)
    return [
        Comparison(f"{name}: others' texts", alone[False], meanwhile[False]),
        Comparison(f"{name}: others' files", alone[True], meanwhile[True]),
    ]


async def compare_all() -> list[Comparison]:
    return [row for name, flood in FLOODS.items() for row in await compare(name, flood)]


def main() -> int:
    print("; ".join(f"{name}: {value}" for name, value in describe_machine()))
    print(f"load before: {machine.describe_load()}; {QUESTIONS} questions each, medians")
    rows = asyncio.run(compare_all())
    print(*rows, sep="\n")
    print(f"load after: {machine.describe_load()}")
    return int(any(row.ratio > MAX_RATIO for row in rows))


sys.exit(main())
