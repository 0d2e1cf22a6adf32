"""How the simulated server is built and launched, and how fast it is: `Profile` and `Timing`.

Pure values. The default profile is vLLM 0.33.0 with the flags that this project recommends.
"""

from dataclasses import dataclass
from math import inf
from typing import Self

from bot.sim.gemma.tokens import IMAGE_TOKENS

MAX_DENOISING_STEPS = 48  # of a canvas, by the checkpoint's generation_config.json


@dataclass(frozen=True, slots=True)
class Timing:
    """The cost of a reply.

    `canvas_seconds` replaces steps and commit; `step_ms_per_1k` is the extra cost of a long prompt.
    """

    prefill_tokens_per_s: float = inf
    step_ms: float = 0.0
    steps_per_canvas: int = 16
    commit_ms: float = 0.0
    canvas_seconds: float | None = None
    step_ms_per_1k: float = 0.0

    @classmethod
    def instant(cls) -> Self:
        """No cost at all: not even a sleep of zero."""
        return cls()

    @classmethod
    def canvas(cls, canvas_seconds: float, prefill_tokens_per_s: float = inf) -> Self:
        """So many seconds a canvas, whatever the prompt."""
        return cls(prefill_tokens_per_s, canvas_seconds=canvas_seconds)

    @classmethod
    def spark(cls) -> Self:
        """About a DGX Spark with NVFP4 weights, warm: 1.5 s a canvas. An estimate, not a measurement."""
        return cls(prefill_tokens_per_s=3000, step_ms=90, steps_per_canvas=16, commit_ms=60, step_ms_per_1k=1)

    def prefill_seconds(self, tokens: int) -> float:
        """The seconds for prompt tokens that are not cached."""
        return tokens / self.prefill_tokens_per_s

    def steps(self, limit: int | None, *, is_filtered: bool = False) -> int:
        """Denoising steps of a canvas; a request may ask for fewer, never for more.

        `is_filtered`: by a top_k or top_p, with which no canvas ends before it must (vllm#58440).
        """
        steps = MAX_DENOISING_STEPS if is_filtered else self.steps_per_canvas
        return min(steps, limit or steps)

    def canvas_time(self, context: int, limit: int | None = None, *, is_filtered: bool = False) -> float:
        """The seconds of one canvas after `context` tokens."""
        steps = self.steps(limit, is_filtered=is_filtered)
        if self.canvas_seconds is not None:
            return self.canvas_seconds * steps / self.steps_per_canvas
        return (steps * (self.step_ms + self.step_ms_per_1k * context / 1000) + self.commit_ms) / 1000


@dataclass(frozen=True, slots=True)
class Profile:
    """One release with its launch flags. Change a flag with `dataclasses.replace`."""

    version: str = "0.33.0"
    canvas: int = 256
    diffusion: bool = True
    """Serves a diffusion model. Another has no canvases, their counters, their fields or their refusals."""
    diffusion_checks: bool = True
    """Refuses temperature, seed, structured outputs and an empty list of tools; knows the diffusion counters.
    """
    default_top_p: float = 1.0
    """What a request gets that names none, by `--override-generation-config`."""
    prompt_details: bool = True
    reasoning_details: bool = True
    force_usage: bool = True
    request_metrics: bool = True
    request_ids: bool = True
    keep_alive_s: float | None = 5.0
    by_priority: bool = True
    dense_cache: bool = False
    thinking: bool = False
    """What a request gets that says nothing about thinking."""
    tool_parser: bool = True
    """Without `--enable-auto-tool-choice --tool-call-parser` a request that lets the model choose is refused.
    """
    reasoning_parser: bool = True
    """Without `--reasoning-parser` thoughts stay in the content, markup and all, and nobody counts them."""
    logprobs: bool = True
    """Without log probabilities the decisions routes answer 501."""
    pictures: bool = True
    image_tokens: int = IMAGE_TOKENS
    """Of each picture, by `--mm-processor-kwargs`."""
    max_images: int | None = None
    """Pictures above which a prompt is refused, by `--limit-mm-per-prompt`."""
    whole_usage: bool = True
    """Without it a reply that is not streamed has no usage, as behind some proxies."""
    prefix_cache: bool = True
    frees_on_abort: bool = True
    """Without it a reply is written to its end though its reader has gone, as behind a proxy that reads on.
    """
    thinking_switch: bool = True
    """Without it the template knows no `enable_thinking`: every request gets what `thinking` says."""
    keeps_empty_thoughts: bool = True
    """Whether the template writes an empty thought into answers of the history; the model's own has been
    without.
    """
    defuses: bool = True
    """Without it the tokenizer drops characters without width, so that a defused control token is one again.
    """
    output_cap: int | None = None
    """Tokens at which every reply ends, whatever is asked for."""

    @property
    def knows_diffusion(self) -> bool:
        """Whether it has what vLLM has for diffusion models alone."""
        return self.diffusion and self.diffusion_checks

    @property
    def knows_canvas_limits(self) -> bool:
        """Whether a request may narrow its canvases."""
        return self.knows_diffusion

    @property
    def counts_reasoning(self) -> bool:
        """Whether usage reports reasoning tokens: a release that does, and a parser that finds them."""
        return self.reasoning_details and self.reasoning_parser
