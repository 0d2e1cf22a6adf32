"""What a connection to a model endpoint is made of, and what a route answers.

Plain data, read without the OpenAI client.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.llm.dialect import VLLM, Dialect

SILENCE_SECONDS = 120.0  # without a byte, after which a stream counts as dead; a first canvas may be slow
CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class SettingNames:
    """The settings that fix what an endpoint refuses; error messages name them."""

    url: str = "MODEL_URL"
    model: str = "MODEL_NAME"
    key: str = "MODEL_API_KEY"


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """One endpoint and how it is called.

    `model` None: the first one the endpoint lists, fetched before the first call.
    `dialect`: what the endpoint understands; nothing else is sent.
    `silence_seconds`: how long a stream may stay without a byte.
    """

    url: str
    model: str | None = None
    api_key: str | None = None
    dialect: Dialect = VLLM
    silence_seconds: float = SILENCE_SECONDS
    setting_names: SettingNames = SettingNames()


@dataclass(frozen=True, slots=True)
class RouteAnswer:
    """What a route of an endpoint answered; `body` is empty if it gave none.

    `refusal`: the HTTP status with which it refused; None: it did not, or could not be asked.
    """

    body: Mapping[str, Any] = field(default_factory=dict)
    refusal: int | None = None
