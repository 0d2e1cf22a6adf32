"""The web of the demo: a few small pages about one town, so that a question can be searched and answered."""

from dataclasses import dataclass
from datetime import date, timedelta

from bot.sim.search_engine import WebPage

WEB_HOSTS = ("grey-point-herald.example", "coast-radio.example", "cliff-walks.example")
WEB_QUESTION = "What is new in Grey Point?"


@dataclass(frozen=True, slots=True)
class _Article:
    host: str
    path: str
    age_days: int
    title: str
    text: str


_ARTICLES = (
    _Article(
        WEB_HOSTS[0],
        "ferry",
        2,
        "News from Grey Point: a ferry twice a day",
        "From Monday a ferry connects Grey Point with the harbour twice a day, at 8:10 and at 17:40. "
        "It takes forty minutes and carries bicycles for nothing. Until now the road ended two miles short "
        "of the lighthouse. The council pays for the first year and then counts the passengers.",
    ),
    _Article(
        WEB_HOSTS[1],
        "light",
        5,
        "What is new at the light of Grey Point",
        "The lamp of Grey Point turns by itself now, and stops where a boat is missing. Its keeper still "
        "counts the boats by hand, since a rule is only as good as somebody who notices.",
    ),
    _Article(
        WEB_HOSTS[0],
        "market",
        9,
        "Grey Point has a market again",
        "On Saturdays from nine, for the first time in eleven years: fish, bread, apples and second-hand "
        "books, beside the pier. The new stalls are taken until spring.",
    ),
    _Article(
        WEB_HOSTS[2],
        "cliff-path",
        40,
        "The cliff path to Grey Point",
        "Two miles along the cliff, with a rope where the path is thin. Count on an hour, and never argue "
        "with the fog: it has more time than you.",
    ),
)


def build_web_pages(port: int, today: date) -> tuple[WebPage, ...]:
    """The pages as they are found by a search, on the port that they are served on."""
    return tuple(
        WebPage(
            f"http://{article.host}:{port}/{article.path}",
            article.title,
            article.text,
            (today - timedelta(days=article.age_days)).isoformat(),
        )
        for article in _ARTICLES
    )
