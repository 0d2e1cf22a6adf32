"""Writes tools/builtin/cldr_cities.txt: what the cities of zones are called in the languages people write.

Run it as `python -m tests.tools.builtin.cldr_cities` after Babel was updated.
"""

import re
from collections import defaultdict
from importlib.resources import files
from pathlib import Path

from babel import Locale
from babel.core import get_global

from tools.builtin import clock

FILE = Path(clock.__file__).with_name("cldr_cities.txt")
LANGUAGES = ("en", "de", "es", "fr", "pt", "it", "ru", "uk", "zh", "zh_Hant")
# Names that are people, everyday words, or cities of other zones as well, as they are normalized.
ORDINARY = """
ama, belen, caiman, canton, cita, damas, dominique, granada, guadalupe, malte, marchesi, maurice, mauricio,
navidad, pasqua, saint johns, san cristobal, san vicente, sao cristovao, sao vicente, st. john's, st. johns,
восток, джаипур, домініка, кантон, орал, сальвадор, сан хуан, сева, тролл, тролль, туле,
圣地亚哥, 圣胡安, 圣路易斯, 多米尼加, 聖地牙哥, 聖胡安, 聖路易, 萨尔瓦多, 薩爾瓦多
"""
HEAD = (
    "# What CLDR calls the cities of zones in languages that people write. Written from CLDR; do not edit.\n"
)


def render_cities() -> str:
    """The whole file: a line a zone, with the names that no zone has itself and that mean one zone only."""
    zones_by_name = collect_zones()
    own_names = {clock.normalize_name(zone.rpartition("/")[2]) for zone in read_zones()}
    ordinary = set(re.split(r",\s+", ORDINARY.strip()))
    names_by_zone = defaultdict[str, list[str]](list)
    for name, zones in zones_by_name.items():
        if len(zones) == 1 and name not in own_names | ordinary and not re.search(r"[,(\[]", name):
            names_by_zone[min(zones)].append(name)
    lines = [f"{zone}: {', '.join(sorted(names))}\n" for zone, names in sorted(names_by_zone.items())]
    return HEAD + "".join(lines)


def collect_zones() -> dict[str, set[str]]:
    """The zones that each normalized name means in any of the languages."""
    zones_by_name = defaultdict[str, set[str]](set)
    new_names = get_global("zone_aliases")  # CLDR keeps the name that a zone had first
    for language in LANGUAGES:
        for zone, names in Locale.parse(language).time_zones.items():
            if "city" in names and not zone.startswith("Etc/"):
                zones_by_name[clock.normalize_name(names["city"])].add(new_names.get(zone, zone))
    return zones_by_name


def read_zones() -> list[str]:
    """The names of all zones."""
    return (files("tzdata") / "zones").read_text().split()


if __name__ == "__main__":
    FILE.write_text(render_cities(), encoding="utf-8")
