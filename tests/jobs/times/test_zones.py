"""Zones by the names of cities, in the languages and scripts that people write."""

import re
from datetime import datetime, timedelta
from importlib.resources import files
from zoneinfo import ZoneInfo

import pytest

from bot.jobs.times.zones import UnclearTime, find_answered_zone, resolve_zone
from tests.tools.builtin import cldr_cities
from tools.builtin.clock import find_named_zone, normalize_name

CITIES = """
Africa/Cairo: Kairo, Le Caire, El Cairo, Il Cairo, Каир, Каїр, 开罗, 開羅
America/Argentina/Buenos_Aires: Buenos Aires, Буэнос-Айрес, Буенос-Айрес
America/Los_Angeles: Los Ángeles, Лос-Анджелес, 洛杉矶, 洛杉磯, Сан-Франциско, 旧金山, 舊金山
America/Mexico_City: Mexico, Mexiko-Stadt, Ciudad de México, Cidade do México, Мехико, 墨西哥城
America/New_York: Nueva York, Nova York, new-york, Нью-Йорк, НЬЮ ЙОРК, 纽约, 紐約, Вашингтон, 华盛顿
America/Sao_Paulo: São Paulo, sao paulo, San Paolo, Сан-Паулу, 圣保罗, Brasília, Рио-де-Жанейро
Asia/Almaty: Алматы, Алма-Ата, Астана, Караганда
Asia/Dubai: Дубай, 迪拜, 杜拜
Asia/Hong_Kong: Hongkong, Гонконг, 香港
Asia/Kolkata: Mumbai, Bombay, Мумбаи, 孟买, Kalkutta, Калькутта, Neu-Delhi, Nueva Delhi, 新德里
Asia/Novosibirsk: Новосибирск, новосибірськ, Nowosibirsk, 新西伯利亚
Asia/Shanghai: 上海, Шанхай, Xangai, Beijing, Peking, Pékin, Pekín, Pequim, Pechino
Asia/Shanghai: Пекин, Пекін, 北京, 深圳, 廣州
Asia/Taipei: Taipeh, 台北, 臺北, 高雄
Asia/Tokyo: Tokio, Tóquio, Токио, Токіо, 東京, 东京, 大阪, Осака
Asia/Yekaterinburg: Екатеринбург, Jekaterinburg, Єкатеринбург, Челябинск
Europe/Berlin: Berlin 🙂, Berlino, Берлин, 柏林, München, Munich, Múnich, Munique, Мюнхен, 慕尼黑
Europe/Berlin: Köln, Koeln, Кёльн, Кельн
Europe/Istanbul: İstanbul, Estambul, Стамбул
Europe/Kyiv: Київ, Киев, Kiev, Kiew, 基辅, Львів, Одесса, Харків
Europe/Lisbon: Lisboa, Lissabon, Lisbonne, Лиссабон, Porto
Europe/London: Londres, Londra, Лондон, 伦敦, 倫敦
Europe/Madrid: Мадрид, 马德里, Barcelona, Барселона, Sevilla
Europe/Moscow: Москва, москва, МОСКВА, Moskau, Moscou, Mosca, 莫斯科, Ростов, Махачкала, Смоленск
Europe/Moscow: Санкт-Петербург, Санкт Петербург, Питер, Saint-Pétersbourg
Europe/Paris: Parigi, Париж, 巴黎, Straßburg, STRASSBURG
Europe/Rome: Roma, Rom, Рим, 罗马, Milano, Milán, Mailand, Милан, Firenze
Europe/Warsaw: Варшава, Warschau, Varsovie, Varsavia, 华沙, Краков
Europe/Zurich: Zürich, Zurigo, Цюрих, 苏黎世, Genève, Женева
"""


def list_cities() -> list[tuple[str, str]]:
    """Each name of the table with its zone."""
    lines = [line.partition(": ") for line in CITIES.strip().splitlines()]
    return [(name, zone) for zone, _, names in lines for name in names.split(", ")]


def list_offsets(zone: str) -> list[timedelta | None]:
    """How far a zone was from UTC each month; a zone has the same under its other names."""
    return [datetime(2026, month, 15, tzinfo=ZoneInfo(zone)).utcoffset() for month in range(1, 13)]


@pytest.mark.parametrize(("name", "zone"), list_cities())
def test_a_city_is_known_by_its_name_in_ten_languages(name: str, zone: str):
    assert list_offsets(resolve_zone(name)) == list_offsets(zone)
    assert find_answered_zone(f" {name}.") == resolve_zone(name)


@pytest.mark.parametrize(
    "text",
    [
        "Anna", "Анна", "Сева", "Maurice", "Malte", "Mauricio", "Dominique", "Belén", "Granada", "Navidad",
        "Pasqua",
        "cita", "ama", "Ночь", "орал", "восток", "ok", "ок", "да", "нет", "спасибо", "中国", "好", "谢谢",
        "圣地亚哥", "🙂", "。", "",
    ],
)  # fmt: skip
def test_people_and_ordinary_words_are_no_cities(text: str):
    assert find_answered_zone(text) is None
    with pytest.raises(UnclearTime):
        resolve_zone(text)


@pytest.mark.parametrize(
    ("answer", "zone"),
    [
        ("ich bin in München", "Europe/Berlin"),
        ("I’m in Tokyo!", "Asia/Tokyo"),
        ("estoy en Madrid", "Europe/Madrid"),
        ("vivo en Nueva York", "America/New_York"),
        ("estou em Lisboa", "Europe/Lisbon"),
        ("Moro no Rio de Janeiro", "America/Sao_Paulo"),
        ("sono a Roma", "Europe/Rome"),
        ("Москва", "Europe/Moscow"),
        ("в Москве", "Europe/Moscow"),
        ("Я в Москве.", "Europe/Moscow"),
        ("я живу в Санкт-Петербурге", "Europe/Moscow"),
        ("я из Москвы", "Europe/Moscow"),
        ("Я сейчас в Казани", "Europe/Moscow"),
        ("в Нижнем Новгороде", "Europe/Moscow"),
        ("я из Ростова-на-Дону", "Europe/Moscow"),
        ("живу в Набережных Челнах", "Europe/Moscow"),
        ("в Лондоне", "Europe/London"),
        ("в Дубае", "Asia/Dubai"),
        ("живу в Тбилиси", "Asia/Tbilisi"),
        ("во Владивостоке", "Asia/Vladivostok"),
        ("в Софии", "Europe/Sofia"),
        ("в Туле", "Europe/Moscow"),
        ("у Києві", "Europe/Kyiv"),
        ("Я зараз у Львові", "Europe/Kyiv"),
        ("з Харкова", "Europe/Kyiv"),
        ("в Одесі", "Europe/Kyiv"),
        ("у Варшаві", "Europe/Warsaw"),
        ("我在上海", "Asia/Shanghai"),
        ("我现在在北京。", "Asia/Shanghai"),
        ("我住在台北", "Asia/Taipei"),
        ("我在上海市", "Asia/Shanghai"),
        ("我來自香港", "Asia/Hong_Kong"),
    ],
)
def test_an_answer_names_its_city_in_a_short_sentence(answer: str, zone: str):
    found = find_answered_zone(answer)
    assert found
    assert list_offsets(found) == list_offsets(zone)


@pytest.mark.parametrize(
    "text",
    [
        "Москва лучше Лондона", "я не в Москве", "еду в Москву завтра", "в начале", "в доме", "у меня",
        "у мамы", "у Анны", "в парке", "в газете", "у Лены", "из дома", "в чате", "з ранку", "у вівторок",
        "в среду", "в шесть", "我不在上海", "我在家", "在吗", "我爱北京", "上海很热",
        "vivo en casa", "estoy en eso", "sono a casa",
        "estou no trabalho", "in Ordnung", "at once", "en serio", "à demain", "em casa",
        "Remind me in Berlin",
    ],
)  # fmt: skip
def test_an_ordinary_sentence_is_no_answer(text: str):
    assert find_answered_zone(text) is None


@pytest.mark.parametrize(("name", "offers"), [("Масква", "Europe/Moscow"), ("Lodon", "mean Europe/London?")])
def test_a_name_that_is_spelled_much_alike_is_offered(name: str, offers: str):
    with pytest.raises(UnclearTime, match=re.escape(offers)):
        resolve_zone(name)


@pytest.mark.parametrize("name", ["Springfield", "Простоквашино", "Vein"])
def test_a_name_that_is_little_alike_is_not_offered(name: str):
    with pytest.raises(UnclearTime, match="Try a larger one nearby"):
        resolve_zone(name)


def test_no_two_entries_conflict_and_no_zone_loses_its_name():
    zones_by_name = dict[str, str]()
    for table in ("cldr_cities.txt", "cities.txt"):
        for line in (files("tools.builtin") / table).read_text("utf-8").splitlines()[1:]:
            zone, _, names = line.partition(": ")
            assert zone in cldr_cities.read_zones()
            for name in map(normalize_name, names.split(", ")):
                assert name
                assert name not in zones_by_name, f"{name}: {zone} and {zones_by_name[name]}"
                zones_by_name[name] = zone
                assert find_named_zone(name) == zone
    for zone in cldr_cities.read_zones():
        assert find_named_zone(zone) == zone
        assert normalize_name(zone.rpartition("/")[2]) not in zones_by_name


def test_the_table_of_cities_is_what_babel_has():
    assert cldr_cities.FILE.read_text(encoding="utf-8") == cldr_cities.render_cities()
