"""What `canvasgram bench` has measured of typed reads at an endpoint; the file of it switches their uses on.

A use that was not measured, or gained nothing, stays off. What was measured holds for one model.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from typing import Final, Literal

ReadUse = Literal["thinking", "tools", "recall"]
GAINS_FILE: Final = "typed-reads.json"
CLEAR: Final = 2.0  # standard deviations of chance, from which a gain or a loss counts
READ_SECONDS: Final = 0.7  # that a read may take whose gain is small beside a wait


@dataclass(frozen=True, slots=True)
class ReadGain:
    """Of the cases that `model` has read: how many it put right that words had wrong, and the other way."""

    model: str
    cases: int
    gained: int
    lost: int

    @property
    def clearness(self) -> float:
        """The gain in standard deviations of chance; below 0 more is lost."""
        return (self.gained - self.lost) / sqrt(max(1, self.gained + self.lost))


def find_gains_folder(data_folder: Path) -> Path:
    """Where the gateway looks for the file."""
    return data_folder / "bench"


def load_gains(folder: Path) -> Mapping[str, ReadGain]:
    """What was measured, by use; nothing where the file is missing or is none."""
    try:
        rows = json.loads((folder / GAINS_FILE).read_bytes())
        return {
            use: ReadGain(str(row["model"]), int(row["cases"]), int(row["gained"]), int(row["lost"]))
            for use, row in rows.items()
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def store_gain(folder: Path, use: ReadUse, gain: ReadGain) -> None:
    """Store what was measured of one use beside the others."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = {name: asdict(known) for name, known in {**load_gains(folder), use: gain}.items()}
    (folder / GAINS_FILE).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
