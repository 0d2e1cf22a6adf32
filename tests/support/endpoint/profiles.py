"""The servers that tests simulate: vLLM of other releases and with other flags, and other servers."""

from dataclasses import dataclass, replace
from typing import Self

from bot.sim.vllm.profile import Profile
from tests.support.endpoint.other_servers import OtherServer


@dataclass(frozen=True, slots=True)
class ServerProfile(Profile):
    """A release with its launch flags, today's by default. Change a flag with `dataclasses.replace`."""

    old_parser: bool = False
    """The parser before the state machine: leaks markup, loses turns, hides that a call was cut."""
    max_queued: int | None = None
    """Waiting and running requests above which 503 is the answer."""
    refuses_with_500: bool = False
    """Without pictures or tools a request that has them gets HTTP 500 and llama.cpp's words."""
    hosted: bool = False
    """An API that is not vLLM: no routes beside chat, models and sound, and 400 for what it does not know."""
    server: OtherServer | None = None
    """Another server than vLLM."""

    @property
    def release(self) -> tuple[int, int]:
        """The version's first two numbers."""
        first, second, *_ = self.version.split(".")
        return int(first), int(second)

    @property
    def knows_canvas_limits(self) -> bool:
        """Whether a request may narrow its canvases; an older release ignores that."""
        return self.knows_diffusion and self.release >= (0, 32)

    @classmethod
    def bare(cls) -> Self:
        """vLLM 0.33.0 as it comes, with prompt details only."""
        return cls(
            force_usage=False,
            request_metrics=False,
            request_ids=False,
            keep_alive_s=None,
            by_priority=False,
        )

    @classmethod
    def autoregressive(cls) -> Self:
        """Today's vLLM with Gemma 4 26B-A4B: the same parser and template, a token a chunk.

        A canvas of its Timing is a token.
        """
        return cls(canvas=1, diffusion=False)

    @classmethod
    def of_server(cls, server: OtherServer) -> Self:
        """Another server with a diffusion model, as its sources say."""
        return replace(
            cls.bare(),
            server=server,
            diffusion_checks=False,
            prompt_details=server == "mlx-vlm",
            reasoning_details=False,
        )

    @classmethod
    def preview(cls) -> Self:
        """The published image for this model, a pre-release older than every stable one that knows it."""
        return replace(
            cls.bare(),
            version="0.22.1rc1.dev357+g74b5964f0",
            diffusion_checks=False,
            old_parser=True,
            prompt_details=False,
            reasoning_details=False,
            dense_cache=True,
            output_cap=256,
        )

    @classmethod
    def hosted_api(cls) -> Self:
        """An autoregressive model behind somebody's strict API: a token a chunk, nothing of vLLM."""
        return replace(cls.bare(), canvas=1, diffusion_checks=False, hosted=True)
