"""Settings that must agree between replicas, compared without telling anybody their values.

Each replica holds one shared lock a setting, whose number is a digest of the value, as long as its session
lasts. Who comes later sees which ones differ. Pure: `SessionLocks` takes and lists the locks.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bot.db.shares import SettingDigest
from bot.settings import Settings

BOT = "bot"
"""Not a setting: which bot a replica is."""

# The place of a name is its number among the locks: new ones come last, and none is left out.
_NAMES = (
    BOT,
    "ACCESS",
    "ADMIN_IDS",
    "GUEST_MODE",
    "MODEL_URL",
    "MODEL_NAME",
    "MODEL_SEATS",
    "FALLBACK_URL",
    "FALLBACK_MODEL",
    "FALLBACK_SEATS",
    "FALLBACK_FOR",
    "CANVASES_A_DAY",
    "TIME_ZONE",
    "APPROVAL_SECONDS",
    "SECRETS_KEY",
)


@dataclass(frozen=True, slots=True)
class ReplicaIdentity:
    """What a replica is.

    `life`: the id of its process's life. `schema`: the one that its version works with. `settings`: digests
    of those that must agree.
    """

    life: int
    schema: str
    settings: frozenset[SettingDigest] = frozenset()


def list_agreed_values(settings: Settings, bot_id: int) -> dict[str, object]:
    """What must be the same for all gateways on a database, by the names of the settings."""
    return {
        BOT: bot_id,
        "ACCESS": settings.access,
        "ADMIN_IDS": sorted(settings.admin_ids),
        "GUEST_MODE": settings.guest_mode,
        "MODEL_URL": settings.model_url,
        "MODEL_NAME": settings.model_name,
        "MODEL_SEATS": settings.model_seats,
        "FALLBACK_URL": settings.fallback_url,
        "FALLBACK_MODEL": settings.fallback_model,
        "FALLBACK_SEATS": settings.fallback_seats,
        "FALLBACK_FOR": settings.fallback_for,
        "CANVASES_A_DAY": settings.canvases_a_day,
        "TIME_ZONE": settings.time_zone,
        "APPROVAL_SECONDS": settings.approval_seconds,
        "SECRETS_KEY": [key.get_secret_value() for key in settings.secrets_key],
    }


def digest_settings(values: Mapping[str, object]) -> frozenset[SettingDigest]:
    """The digests of these values, by the names of their settings."""
    return frozenset(SettingDigest(_NAMES.index(name), _digest(value)) for name, value in values.items())


def find_differences(own: Collection[SettingDigest], others: Collection[SettingDigest]) -> list[str]:
    """The names of what is another value elsewhere, in a fixed order."""
    own_digests = {digest.setting: digest.digest for digest in own}
    differing = {
        other.setting
        for other in others
        if other.setting in own_digests and other.digest != own_digests[other.setting]
    }
    return [_NAMES[setting] for setting in sorted(differing)]


def _digest(value: object) -> int:
    """A number that a lock can have, from 0 to 2^31 - 1."""
    text = json.dumps(value, sort_keys=True, default=str)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) >> 1
