"""Texts that are hard to judge, through the whole gateway: nobody else waits for them."""

import time
from pathlib import Path

from tests.support.gateway import ADMIN, GatewayHarness, running_gateway

BOB = 8
MESSAGE_CHARS = 4096  # of what a person can write in one message
MESSAGES = 20  # that one person may have waiting; they are answered together
MAX_RATIO = 5  # times the processor time of harmless texts of the same length; a quadratic pattern took 50
TRIES = 4  # a busy machine is not slow evenly
HARMLESS = "word "
HOSTILE = ("\n", "«")  # the worst of those that a pattern may be quadratic in


def build_texts(unit: str, answer: str) -> list[str]:
    """Messages as long as can be that repeat a unit; together they get this answer."""
    text = f"a{unit * MESSAGE_CHARS}"[: MESSAGE_CHARS - 1] + "b"
    directive = f"@@say:{answer}@@"
    return [*[text] * (MESSAGES - 1), directive + text[len(directive) :]]


async def measure_answers(gateway: GatewayHarness, unit: str, answer: str) -> float:
    """Processor seconds until Ann's texts and what Bob writes meanwhile are answered."""
    started_at = time.process_time()
    for text in build_texts(unit, answer):
        gateway.ann.send(text)
    gateway.api.person(BOB, "Bob").send(f"@@say:{answer}@@")
    await gateway.api.wait_until(lambda: answer in gateway.texts(BOB))
    await gateway.api.wait_until(lambda: answer in gateway.texts())
    return time.process_time() - started_at


async def test_hostile_texts_of_one_chat_hold_up_no_other(tmp_path: Path):
    async with running_gateway(tmp_path, admin_ids=f"{ADMIN},{BOB}", thinking="auto") as gateway:
        for chat, name in ((ADMIN, "Ann"), (BOB, "Bob")):
            gateway.api.person(chat, name).send("hello")
            await gateway.wait_for_texts(chat=chat)
        harmless = await measure_answers(gateway, HARMLESS, "harmless")
        for unit in HOSTILE:
            costs = list[float]()
            while not costs or (min(costs) > MAX_RATIO * harmless and len(costs) < TRIES):
                costs.append(await measure_answers(gateway, unit, f"{unit!r} {len(costs)}"))
            assert min(costs) <= MAX_RATIO * harmless
