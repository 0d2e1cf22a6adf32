"""The counters of the simulated server and their text for `GET /metrics`.

Owns the numbers. Histograms have sum, count and one open bucket, which is what a gateway reads of them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

_FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")
_READ_WIDTH = 16  # positions of a canvas that is read after one step


@dataclass(slots=True)
class EngineMetrics:
    """Running totals since the server started, in tokens, requests and seconds."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    steps: int = 0
    positions: int = 0
    committed: int = 0
    rejected: int = 0
    finished: Counter[str] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    counts: Counter[str] = field(default_factory=Counter)

    def count_canvas(self, width: int, steps: int) -> None:
        """Count one committed canvas: its steps include the commit, its tokens the tail after the end."""
        self.steps += steps + 1
        self.positions += width * (steps + 1)
        self.committed += width

    def count_read(self, canvases: int) -> None:
        """Count small canvases that were read after a single step."""
        self.steps += canvases
        self.positions += _READ_WIDTH * canvases
        self.committed += _READ_WIDTH * canvases

    def observe(self, name: str, seconds: float) -> None:
        """Add to a histogram."""
        self.seconds[name] += seconds
        self.counts[name] += 1


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """The current requests, and the lookups of the prefix cache so far."""

    running: int
    waiting: int
    queries: int
    hits: int


def render_exposition(metrics: EngineMetrics, load: EngineLoad, model: str, *, has_diffusion: bool) -> str:
    """The page in Prometheus' text format."""
    lines = [*_gauges(load, model), *_counters(metrics, load, model), *_histograms(metrics, model)]
    if has_diffusion:
        lines.extend(_diffusion(metrics, model))
    return "\n".join(lines) + "\n"


def _gauges(load: EngineLoad, model: str) -> Iterator[str]:
    yield from _family("num_requests_running", "gauge", model, load.running)
    yield from _family("num_requests_waiting", "gauge", model, load.waiting)
    reasons: dict[str, float] = {"capacity": load.waiting, "deferred": 0}
    yield from _labelled_family("num_requests_waiting_by_reason", "gauge", model, "reason", reasons)
    yield from _family("kv_cache_usage_perc", "gauge", model, 0)


def _counters(metrics: EngineMetrics, load: EngineLoad, model: str) -> Iterator[str]:
    totals = {
        "prefix_cache_queries_total": load.queries,
        "prefix_cache_hits_total": load.hits,
        "num_preemptions_total": 0,
        "prompt_tokens_total": metrics.prompt_tokens,
        "prompt_tokens_cached_total": metrics.cached_tokens,
        "generation_tokens_total": metrics.generated_tokens,
    }
    for name, value in totals.items():
        yield from _family(name, "counter", model, value)
    finished: dict[str, float] = {reason: metrics.finished[reason] for reason in _FINISH_REASONS}
    yield from _labelled_family("request_success_total", "counter", model, "finished_reason", finished)
    rejected: dict[str, float] = {"max_num_queued_reqs": metrics.rejected, "max_num_queued_tokens": 0}
    yield from _labelled_family("admission_rejections_total", "counter", model, "reason", rejected)


def _histograms(metrics: EngineMetrics, model: str) -> Iterator[str]:
    for name, count in metrics.counts.items():
        yield f"# TYPE vllm:{name} histogram"
        yield _sample(f"{name}_bucket", count, {"engine": "0", "le": "+Inf", "model_name": model})
        yield _sample(f"{name}_count", count, {"engine": "0", "model_name": model})
        yield _sample(f"{name}_sum", metrics.seconds[name], {"engine": "0", "model_name": model})


def _diffusion(metrics: EngineMetrics, model: str) -> Iterator[str]:
    yield from _family("diffusion_num_denoising_steps_total", "counter", model, metrics.steps)
    yield from _family("diffusion_num_canvas_positions_total", "counter", model, metrics.positions)
    yield from _family("diffusion_num_committed_tokens_total", "counter", model, metrics.committed)


def _family(name: str, kind: str, model: str, value: float) -> Iterator[str]:
    yield f"# TYPE vllm:{name} {kind}"
    yield _sample(name, value, {"engine": "0", "model_name": model})


def _labelled_family(name: str, kind: str, model: str, label: str, values: dict[str, float]) -> Iterator[str]:
    yield f"# TYPE vllm:{name} {kind}"
    for key, value in values.items():
        yield _sample(name, value, {"engine": "0", "model_name": model, label: key})


def _sample(name: str, value: float, labels: dict[str, str]) -> str:
    text = ",".join(f'{key}="{labels[key]}"' for key in sorted(labels))
    return f"vllm:{name}{{{text}}} {float(value)}"
