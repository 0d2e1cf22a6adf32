"""Judges the engine behind the protocol: does it denoise canvases, how long may a reply be, what does its
cache keep, what else does it take. Pure.
"""

import re
from itertools import pairwise
from statistics import median

from bot.check.findings import Verdict, failed, passed, unknown, warned
from bot.check.judges.server import release
from bot.check.observations import Answer, Seen
from bot.check.prompts import LAST, ROOM
from bot.domain import CANVAS
from bot.llm.diagnostics import READS

_DIFFUSION = "diffusion model"


def cap(seen: Seen) -> Verdict:
    """Whether replies end where they were not told to."""
    answer = seen.answers.get("counting")
    if answer is None or not answer.ok:
        return unknown(f"No long reply came: {seen.why('counting')}.")
    written = re.findall(r"\d+", answer.text)
    if written[-1:] == [str(LAST)] and answer.finish != "length":
        return passed("A reply of two canvases came to its end.")
    length = "unknown" if answer.tokens is None else f"{answer.tokens}"
    if answer.finish == "length" and (answer.tokens or 0) < ROOM:
        return failed(
            f"Replies are cut after {length} tokens, though {ROOM} were allowed.",
            "no --override-generation-config with max_new_tokens; vLLM 0.24 or newer",
        )
    return unknown(f"The reply was not what was asked for ({length} tokens, ended by {answer.finish}).")


def temperature(seen: Seen) -> Verdict:
    """Refused by a diffusion model, taken by any other."""
    answer = seen.answers.get("temperature")
    if answer is None:
        return unknown(f"Not asked: {seen.why('temperature')}.")
    if answer.ok:
        return warned(
            "A temperature of 0.5 is accepted: no DiffusionGemma, or vLLM before 0.26. The gateway sends none.",
            "serve a DiffusionGemma with vLLM 0.33 or newer",
        )
    if answer.status == 400 and (_DIFFUSION in answer.words or "diffusion" in answer.words):
        return passed("Refused, as diffusion models do; the gateway sends none.")
    return unknown(f"Refused with other words (HTTP {answer.status}): {answer.words}")


def canvas(seen: Seen) -> Verdict:
    """Whether text comes a canvas at a time, and how long one is."""
    answer = seen.answers.get("counting")
    if answer is None or not answer.ok or not answer.blocks:
        return unknown(f"No stream came: {seen.why('counting')}.")
    count = len(answer.blocks)
    tokens = answer.tokens
    if tokens is not None and tokens > 32 and count > tokens / 2:
        return warned(
            f"No diffusion model: {tokens} tokens came in {count} blocks, a token or two each. Canvases mean nothing.",
            "serve a DiffusionGemma",
        )
    if count < 2 or tokens is None:
        return unknown("The reply was one block, or was not counted: how long a canvas is does not show.")
    told = f"{tokens} tokens came in {count} blocks{_pace(answer)}{_steps(seen)}"
    first = answer.blocks[0].tokens
    # Where nothing is counted on the way, the length lies between what fills all blocks and what fills all
    # but one.
    least, most = (-(-tokens // count), (tokens - 1) // (count - 1)) if first is None else (first, first)
    if least <= CANVAS <= most:
        return passed(f"{told}: canvases of {CANVAS}.")
    length = f"{least} to {most}" if least != most else f"{least}"
    return warned(f"{told}: a canvas is {length} tokens, and is counted as {CANVAS}.", "--diffusion-config")


def cache(seen: Seen) -> Verdict:
    """What the prefix cache gives back: the same prompt, with thinking toggled, and to somebody else."""
    first = seen.answers.get("tools")
    same = seen.answers.get("tools, whole")
    if first is None or same is None or not (first.ok and same.ok):
        return unknown(f"No prompt was sent twice: {seen.why('tools, whole')}.")
    if same.cached is None:
        return unknown("What was cached is not told.")
    if same.cached == 0:
        return warned("The same prompt again: nothing of it was cached.", "no --no-enable-prefix-caching")
    of = "" if same.prompt is None else f" of {same.prompt:,} tokens"
    told = [f"the same prompt again: {same.cached:,}{of}"]
    told += [f"{name}: {one.cached:,}" for name, one in _others(seen) if one.cached is not None]
    again = seen.answers.get("tools, thinking, whole")
    if again is not None and again.ok and again.cached == 0:
        return warned(
            f"{'; '.join(told)}. One lineage pushes the other out.", "more memory: --gpu-memory-utilization"
        )
    if first.cached == 0:
        return warned(
            f"{'; '.join(told)}. Who shares only the head finds nothing, even the third.",
            "--prefix-cache-retention-interval 512",
        )
    return passed(f"{'; '.join(told)}.")


def pictures(seen: Seen) -> Verdict:
    """Whether the model sees."""
    answer = seen.answers.get("picture")
    if answer is None:
        return unknown(f"Not asked: {seen.why('picture')}.")
    if answer.ok:
        return passed("Accepted.")
    return warned(
        f"Pictures are refused (HTTP {answer.status}): {answer.words}", "a model that sees, or TURN_IMAGES=0"
    )


def typed_reads(seen: Seen) -> Verdict:
    """Whether a question can be answered in one denoising step."""
    if seen.read is None:
        return unknown(f"Not asked: {seen.why('read')}.")
    if seen.read.ok and "answers" in seen.read.body:
        return passed("Offered: one step instead of a canvas decides whether to think.")
    number = release(seen)
    if number is not None and number < READS:
        return warned(
            "Not offered before vLLM 0.32; words alone decide whether to think.", "vLLM 0.33 or newer"
        )
    if seen.read.status == 501:
        return warned("Switched off; words alone decide whether to think.", "--logprobs-mode raw_logprobs")
    return warned(
        f"Not offered (HTTP {seen.read.status}); words alone decide whether to think.", "THINKING_READ=off"
    )


def _others(seen: Seen) -> list[tuple[str, Answer]]:
    parts = {
        "a second person who shares its head": "counting",
        "a third": "tools",
        "thinking toggled": "thought",
        "and again": "tools, thinking, whole",
    }
    asked = seen.answers
    return [(name, asked[part]) for name, part in parts.items() if part in asked and asked[part].ok]  # type: ignore[index]


def _pace(answer: Answer) -> str:
    """Seconds between blocks; nothing where it is too short to mean anything."""
    gaps = [later.after - earlier.after for earlier, later in pairwise(answer.blocks)]
    if gaps and median(gaps) >= 0.05:
        return f", {median(gaps):.1f} s apart"
    return ""


def _steps(seen: Seen) -> str:
    after = seen.crowd.before if seen.crowd else None
    if seen.before is None or after is None:
        steps = None
    else:
        steps = after.steps_since(seen.before)
    if steps is None:
        return ""
    return f", {steps:.0f} denoising steps each by the server's count"
