"""Figures that others have published of this model, each with its own conditions. Pure data.

The wording is ours; none of them was measured by us. What a source does not state is unknown here, too.
"""

from dataclasses import dataclass

_SPARK_NOTE = "a Spark note, vLLM 0.22.1rc1, temperature 0, its clock on the client, not streamed"
_SPARK_BLOG = "a Spark blog, the same image"


_SPARK_HARDWARE = ("GB10", "NVFP4")
_FIELD_REPORT = "a field report"
_NO_METHOD = "no method told"


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """One figure: `rate` in tokens a second as it was published, everything else in words.

    `beside` is the key of the protocol it compares with; `seconds` are those of one answer, or of all that
    came at once. `streamed` False: the answers came whole.
    """

    hardware: str
    precision: str
    rate: str
    how: str
    source: str
    output: str = "unknown"
    at_once: str = "1"
    thinking: str = "unknown"
    beside: str = ""
    seconds: float | None = None
    streamed: bool = True


PUBLISHED_FIGURES = (
    PublishedFigure(
        *_SPARK_HARDWARE,
        "101.26",
        "warm",
        _SPARK_NOTE,
        "1,349 in 4",
        "1",
        "off",
        "long",
        3.33,
        streamed=False,
    ),
    PublishedFigure(
        *_SPARK_HARDWARE,
        "148.0 in all, 41.4 each",
        "warm",
        _SPARK_NOTE,
        "1,382 in 4",
        "4",
        "off",
        "together",
        9.34,
        streamed=False,
    ),
    PublishedFigure(
        *_SPARK_HARDWARE,
        "65.99",
        "warm, short answers",
        _SPARK_NOTE,
        "375 in 4",
        "1",
        "off",
        "short",
        1.42,
        streamed=False,
    ),
    PublishedFigure(
        *_SPARK_HARDWARE, "16.5", "cold, the first request", _SPARK_BLOG, "84 in 1", "1", "off", "first", 5.09
    ),
    PublishedFigure(
        *_SPARK_HARDWARE,
        "158.7",
        "warm, a full canvas of prose",
        _SPARK_BLOG,
        "256 in 1",
        "1",
        "off",
        "prose",
        1.61,
    ),
    PublishedFigure(
        *_SPARK_HARDWARE,
        "143.1, first pass 212",
        "warm, a full canvas of code",
        _SPARK_BLOG,
        "256 in 1",
        "1",
        "off",
        "code",
        1.79,
    ),
    PublishedFigure(
        *_SPARK_HARDWARE,
        "257.3 in all",
        "warm, a full canvas each",
        _SPARK_BLOG,
        "1,024 in 4",
        "4",
        "off",
        "canvases",
        3.98,
    ),
    PublishedFigure("GB10", "bf16", "43.6 and 84.9", "Transformers, not vLLM", _SPARK_BLOG, thinking="off"),
    PublishedFigure("H100", "FP8", "375", "end to end; first token after 489 ms", "the vLLM recipe"),
    PublishedFigure("H100", "FP8", "1,282", "generation alone", "the vLLM recipe"),
    PublishedFigure("H200", "FP8", "1,288", "16 steps, prefill left out", "the vLLM blog", at_once="unknown"),
    PublishedFigure("H100", "FP8", "1,008", "16 steps, prefill left out", "the vLLM blog", at_once="unknown"),
    PublishedFigure("H100", "FP8", "1,100 and more", _NO_METHOD, "Google", at_once="few"),
    PublishedFigure("H100", "unknown", "1,000", _NO_METHOD, "NVIDIA", at_once="unknown"),
    PublishedFigure("RTX 5090", "unknown", "700 and more", _NO_METHOD, "NVIDIA", at_once="unknown"),
    PublishedFigure("DGX Spark", "unknown", "150", _NO_METHOD, "NVIDIA", at_once="unknown"),
    PublishedFigure("DGX Station", "unknown", "2,000", _NO_METHOD, "NVIDIA", at_once="unknown"),
    PublishedFigure(
        "2 x RTX 3090, PCIe", "FP8", "177 to 180", "tensor parallel", _FIELD_REPORT, "about 1,000"
    ),
    PublishedFigure(
        "2 x RTX 3090, NVLink",
        "FP8",
        "209 and 242",
        "wall; first token after 1.0 to 1.2 s",
        _FIELD_REPORT,
        "1,000",
    ),
    PublishedFigure(
        "2 x RTX 5090",
        "FP8",
        "403.8 and 495.2",
        "wall; first token after 0.5 to 0.7 s",
        _FIELD_REPORT,
        "1,000",
    ),
    PublishedFigure(
        "RTX 5090 + 3090 Ti", "unknown", "118", "wall; first token after 2.07 s", _FIELD_REPORT, "1,000"
    ),
    PublishedFigure("4 x 7900 XTX", "unknown", "about 100", _NO_METHOD, _FIELD_REPORT),
    PublishedFigure("L4", "Q4_K_M", "56", "llama.cpp, 21 steps", _FIELD_REPORT),
)
READING_NOTES = (
    "Beside a published figure: seconds of one answer, the mean, or of all that were sent at once.",
    "The highest figures leave out prefill and use 16 steps.",
    "Tokens a second rise with how full the last canvas is: "
    "94 tokens in 1.42 s and 256 in 1.6 s are the same work.",
    "No published figure covers thinking, tools and more than 8,000 tokens of context together.",
    "A figure measured through a gateway holds history, tools and delivery; "
    "only a direct one is the model's.",
)
