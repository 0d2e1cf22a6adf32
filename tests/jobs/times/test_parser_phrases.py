"""Words for times: what is parsed, in two languages, and what is refused with what to say instead."""

import contextlib
from datetime import datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bot.jobs.times import clock_times, formatting, rrules, time_words
from bot.jobs.times.parser import NO_TEXT, parse_line
from bot.jobs.times.phrasebook import LANGUAGES, MAX_PHRASE_CHARS
from bot.jobs.times.reader import parse_when
from bot.jobs.times.zones import UnclearTime
from bot.translations.translator import ENGLISH
from tests.jobs.times import calendar_words

ZONE = "Europe/Berlin"
NOW = rrules.to_timestamp(datetime(2026, 11, 20, 16, 0), rrules.load_zone(ZONE))  # a Friday
MIN_INTERVAL_SECONDS = 300


def parse_once(text: str, now: float = NOW) -> str:
    schedule = parse_when(text, ZONE, now, MIN_INTERVAL_SECONDS)
    assert schedule.rule is None
    assert schedule.next_times == (schedule.first_due,)
    return f"{rrules.to_local_time(schedule.first_due, rrules.load_zone(ZONE)):%Y-%m-%d %H:%M}"


def parse_recurring(text: str) -> tuple[str, list[str]]:
    schedule = parse_when(text, ZONE, NOW, MIN_INTERVAL_SECONDS)
    assert schedule.rule is not None
    assert schedule.first_due == schedule.next_times[0]
    return formatting.format_recurrence(ENGLISH, schedule.rule), [
        f"{rrules.to_local_time(due, rrules.load_zone(ZONE)):%a %Y-%m-%d %H:%M}"
        for due in schedule.next_times
    ]


def parse_refusal(text: str) -> str:
    with pytest.raises(UnclearTime) as error:
        parse_when(text, ZONE, NOW, MIN_INTERVAL_SECONDS)
    return str(error.value)


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("tomorrow at nine", "2026-11-21 09:00"),
        ("tomorrow at nine fifteen", "2026-11-21 09:15"),
        ("tomorrow at seven thirty", "2026-11-21 07:30"),
        ("Friday the 4th at 9", "2026-12-04 09:00"),
        ("tomorrow", "2026-11-21 09:00"),
        ("tomorrow at ten thirty", "2026-11-21 10:30"),
        ("today in the evening", "2026-11-20 19:00"),
        ("Tomorrow at 9:15 am.", "2026-11-21 09:15"),
        ("3pm tomorrow", "2026-11-21 15:00"),
        ("at 9", "2026-11-21 09:00"),
        ("18:30", "2026-11-20 18:30"),
        ("at 16:00", "2026-11-21 16:00"),
        ("noon", "2026-11-21 12:00"),
        ("midnight", "2026-11-21 00:00"),
        ("at 24:00", "2026-11-21 00:00"),
        ("tonight", "2026-11-20 19:00"),
        ("tonight at 8", "2026-11-20 20:00"),
        ("at 12 at night", "2026-11-21 00:00"),
        ("at 3 at night", "2026-11-21 03:00"),
        ("this evening at half past seven", "2026-11-20 19:30"),
        ("tomorrow at quarter to 5", "2026-11-21 04:45"),
        ("tomorrow morning", "2026-11-21 09:00"),
        ("the day after tomorrow at 8 o'clock", "2026-11-22 08:00"),
        ("friday at 17:00", "2026-11-20 17:00"),
        ("friday at 15:00", "2026-11-27 15:00"),
        ("next friday 5pm", "2026-11-27 17:00"),
        ("on Monday", "2026-11-23 09:00"),
        ("next week", "2026-11-23 09:00"),
        ("nächste Woche um 8", "2026-11-23 08:00"),
        ("next week on Wednesday at 10", "2026-11-25 10:00"),
        ("Tuesday next week", "2026-11-24 09:00"),
        ("am Dienstag in der nächsten Woche um 8", "2026-11-24 08:00"),
        ("next month", "2026-12-20 09:00"),
        ("next year", "2027-11-20 09:00"),
        ("on the 3rd at 9", "2026-12-03 09:00"),
        ("on the 31st", "2026-12-31 09:00"),
        ("1 December", "2026-12-01 09:00"),
        ("December 1st at noon", "2026-12-01 12:00"),
        ("20 november at 18:00", "2026-11-20 18:00"),
        ("20 nov at 15:00", "2027-11-20 15:00"),
        ("29 February", "2028-02-29 09:00"),
        ("2027-01-05 10:00", "2027-01-05 10:00"),
        ("24.12. 18:00", "2026-12-24 18:00"),
        ("in 2 hours", "2026-11-20 18:00"),
        ("in half an hour", "2026-11-20 16:30"),
        ("in 1 hour and 30 minutes", "2026-11-20 17:30"),
        ("in a couple of minutes", "2026-11-20 16:02"),
        ("10 minutes later", "2026-11-20 16:10"),
        ("in 3 days at 9", "2026-11-23 09:00"),
        ("in 2 weeks", "2026-12-04 16:00"),
        ("in 3 months", "2027-02-20 16:00"),
        ("in 2 years", "2028-11-20 16:00"),
        ("in 1 day and 2 hours", "2026-11-21 18:00"),
        ("morgen um neun", "2026-11-21 09:00"),
        ("morgen früh um 7", "2026-11-21 07:00"),
        ("übermorgen 8 Uhr", "2026-11-22 08:00"),
        ("heute Abend um acht", "2026-11-20 20:00"),
        ("morgen um halb 9", "2026-11-21 08:30"),
        ("um 9 Uhr 30", "2026-11-21 09:30"),
        ("um 18.30 Uhr", "2026-11-20 18:30"),
        ("am Freitag um 17 Uhr", "2026-11-20 17:00"),
        ("nächsten Montag um 10", "2026-11-23 10:00"),
        ("mittwoch mittag", "2026-11-25 12:00"),
        ("in zwei Stunden", "2026-11-20 18:00"),
        ("in einer halben Stunde", "2026-11-20 16:30"),
        ("in einer Woche", "2026-11-27 16:00"),
        ("am 3. Dezember", "2026-12-03 09:00"),
        ("am dritten Dezember um 8", "2026-12-03 08:00"),
        ("am 24.12. um 18 Uhr", "2026-12-24 18:00"),
        ("am 1. um 9", "2026-12-01 09:00"),
        ("tomorrow at 5pm", "2026-11-21 17:00"),
        ("8:30pm", "2026-11-20 20:30"),
        ("8.30 Uhr", "2026-11-21 08:30"),
        ("2026-12-24T18:00:00", "2026-12-24 18:00"),
        ("Sat 21 Nov 2026, 09:00", "2026-11-21 09:00"),  # as the gateway writes it
        ("sat 5 dec at 9:30", "2026-12-05 09:30"),
        ("am 3.1. um 9", "2027-01-03 09:00"),
        ("03.01.2027", "2027-01-03 09:00"),
        ("1.12", "2026-12-01 09:00"),
        ("29.2.", "2028-02-29 09:00"),
        ("20.11. um 15 Uhr", "2027-11-20 15:00"),
        ("12/24", "2026-12-24 09:00"),
        ("am 15.", "2026-12-15 09:00"),
        ("in 1.5 hours", "2026-11-20 17:30"),
        ("in an hour and a half", "2026-11-20 17:30"),
        ("in two and a half hours", "2026-11-20 18:30"),
        ("in anderthalb Stunden", "2026-11-20 17:30"),
        ("in 1h30", "2026-11-20 17:30"),
        ("tonight at 12", "2026-11-21 00:00"),
        ("tonight at 2", "2026-11-21 02:00"),
        ("tonight at midnight", "2026-11-21 00:00"),
    ],
)
def test_a_moment_is_parsed(phrase: str, expected: str):
    assert parse_once(phrase) == expected


def test_next_week_begins_with_monday_also_for_whoever_says_it_on_a_sunday():
    sunday = NOW + 2 * 86_400
    assert parse_once("next week", sunday) == "2026-11-23 09:00"
    assert parse_once("sunday next week", sunday) == "2026-11-29 09:00"
    assert parse_once("next monday", NOW + 3 * 86_400) == "2026-11-30 09:00"


@pytest.mark.parametrize(
    ("phrase", "expected", "first"),
    [
        ("every day at 8", "every day at 08:00", "Sat 2026-11-21 08:00"),
        ("daily at 9am", "every day at 09:00", "Sat 2026-11-21 09:00"),
        ("every morning", "every day at 09:00", "Sat 2026-11-21 09:00"),
        ("every evening at 8", "every day at 20:00", "Fri 2026-11-20 20:00"),
        ("every weekday at 8", "every weekday at 08:00", "Mon 2026-11-23 08:00"),
        ("Monday to Friday at 8", "every weekday at 08:00", "Mon 2026-11-23 08:00"),
        ("weekends at 10", "on Saturdays and Sundays at 10:00", "Sat 2026-11-21 10:00"),
        ("every 2 weeks on Monday", "every 2 weeks on Monday at 09:00", "Mon 2026-11-23 09:00"),
        ("every other friday at noon", "every 2 weeks on Friday at 12:00", "Fri 2026-11-27 12:00"),
        ("every monday of every 2 weeks", "every 2 weeks on Monday at 09:00", "Mon 2026-11-23 09:00"),
        ("mondays at 8", "on Mondays at 08:00", "Mon 2026-11-23 08:00"),
        ("weekly", "on Fridays at 09:00", "Fri 2026-11-27 09:00"),
        (
            "every monday and thursday at 7:30",
            "on Mondays and Thursdays at 07:30",
            "Mon 2026-11-23 07:30",
        ),
        ("every second day at 9", "every 2 days at 09:00", "Sat 2026-11-21 09:00"),
        ("every day at 8 and 20", "every day at 08:00 and 20:00", "Fri 2026-11-20 20:00"),
        ("every 2 hours", "every 2 hours", "Fri 2026-11-20 18:00"),
        ("hourly", "every hour", "Fri 2026-11-20 17:00"),
        ("every half hour", "every 30 minutes", "Fri 2026-11-20 16:30"),
        ("every 5 minutes", "every 5 minutes", "Fri 2026-11-20 16:05"),
        ("on the first of each month", "every month on day 1 at 09:00", "Tue 2026-12-01 09:00"),
        ("every 31st of the month at 9", "every month on day 31 at 09:00", "Thu 2026-12-31 09:00"),
        ("every month", "every month on day 20 at 09:00", "Sun 2026-12-20 09:00"),
        ("every 3 months on the 1st", "every 3 months on day 1 at 09:00", "Tue 2026-12-01 09:00"),
        ("last day of each month at 20", "every month on the last day at 20:00", "Mon 2026-11-30 20:00"),
        ("every last friday of the month", "every month on the last Friday at 09:00", "Fri 2026-11-27 09:00"),
        (
            "monthly on the second tuesday",
            "every month on the second Tuesday at 09:00",
            "Tue 2026-12-08 09:00",
        ),
        ("every year on 24 December", "every year on 24 December at 09:00", "Thu 2026-12-24 09:00"),
        ("every 29 february at 10", "every year on 29 February at 10:00", "Tue 2028-02-29 10:00"),
        ("yearly", "every year on 20 November at 09:00", "Sat 2027-11-20 09:00"),
        ("every day at 8 until 24 december", "every day at 08:00, until 24 Dec 2026", "Sat 2026-11-21 08:00"),
        ("jeden Tag um 8", "every day at 08:00", "Sat 2026-11-21 08:00"),
        ("jeden Morgen", "every day at 09:00", "Sat 2026-11-21 09:00"),
        ("werktags um 8", "every weekday at 08:00", "Mon 2026-11-23 08:00"),
        ("Montag bis Freitag um 8", "every weekday at 08:00", "Mon 2026-11-23 08:00"),
        ("montags um 9", "on Mondays at 09:00", "Mon 2026-11-23 09:00"),
        ("alle zwei Wochen am Montag um 9", "every 2 weeks on Monday at 09:00", "Mon 2026-11-23 09:00"),
        ("jeden zweiten Tag um 9", "every 2 days at 09:00", "Sat 2026-11-21 09:00"),
        ("alle 30 Minuten", "every 30 minutes", "Fri 2026-11-20 16:30"),
        ("stündlich", "every hour", "Fri 2026-11-20 17:00"),
        ("am ersten jedes Monats", "every month on day 1 at 09:00", "Tue 2026-12-01 09:00"),
        (
            "jeden ersten Montag im Monat um 9",
            "every month on the first Monday at 09:00",
            "Mon 2026-12-07 09:00",
        ),
        ("an Wochenenden um 10", "on Saturdays and Sundays at 10:00", "Sat 2026-11-21 10:00"),
        (
            "jedes Jahr am 24. Dezember um 18 Uhr",
            "every year on 24 December at 18:00",
            "Thu 2026-12-24 18:00",
        ),
        ("every day at 8am and 8:00 pm", "every day at 08:00 and 20:00", "Fri 2026-11-20 20:00"),
        ("everyday at 8:30am", "every day at 08:30", "Sat 2026-11-21 08:30"),
        ("every 15th", "every month on day 15 at 09:00", "Tue 2026-12-15 09:00"),
        ("jeden 1. um 8", "every month on day 1 at 08:00", "Tue 2026-12-01 08:00"),
        ("jedes Jahr am 3.5.", "every year on 3 May at 09:00", "Mon 2027-05-03 09:00"),
        ("every day until sunday", "every day at 09:00, until 22 Nov 2026", "Sat 2026-11-21 09:00"),
        ("täglich um 8 bis 24.12.", "every day at 08:00, until 24 Dec 2026", "Sat 2026-11-21 08:00"),
    ],
)
def test_a_recurrence_is_parsed_and_described(phrase: str, expected: str, first: str):
    description, next_times = parse_recurring(phrase)
    assert description == expected
    assert next_times[0] == first


def test_every_second_week_is_counted_from_the_first_time_to_come():
    assert parse_recurring("every 2 weeks on Wednesday at 9")[1] == [
        "Wed 2026-11-25 09:00",
        "Wed 2026-12-09 09:00",
        "Wed 2026-12-23 09:00",
    ]


def test_a_31st_that_is_missing_is_skipped():
    assert parse_recurring("monthly on the 31st")[1] == [
        "Thu 2026-12-31 09:00",
        "Sun 2027-01-31 09:00",
        "Wed 2027-03-31 09:00",
    ]


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("", "Say when"),
        ("x" * (MAX_PHRASE_CHARS + 1), "too long"),
        ("soon", "I don't know when that is"),
        ("christmas", "I don't know when that is"),
        ("monday 8", "I don't know when that is"),
        ("in 2 hours 3", "I don't know when that is"),
        ("now", "I don't know when that is"),
        ("today", "At what time?"),
        ("today at 9", "That was 7 hours ago. Pick a later time"),
        ("today in the morning", "That was 7 hours ago"),
        ("yesterday at 9", "That was 31 hours ago"),
        ("2019-03-03", "days ago"),
        ("today at 15:59", "That was a minute ago"),
        ("today at 16:00", "That's right now"),
        ("31 february at 9", "“31 february” isn't a date"),
        ("2026-02-30 9:00", "“2026-02-30” isn't a date"),
        ("32.1.", "isn't a date"),
        ("on the 32nd", "There's no day 32 in any month"),
        ("tomorrow at 25:00", "25:00 isn't a time"),
        ("tomorrow at 9:75", "9:75 isn't a time"),
        ("13 am", "There's no hour 13 am"),
        ("tomorrow at 9 at 10", "more than one time of day"),
        ("tomorrow at 9 and 10", "more than one time of day"),
        ("in 10 seconds", "I can only count in minutes"),
        ("in half a week", "I can't tell what half a day or week means"),
        ("in 2 hours at 9", "Say either how long from now or the time of day"),
        ("in 60 years", "more than 50 years away"),
        ("1 january 2099", "more than 50 years away"),
        ("every second", "That's too often. Say at most `every 5 minutes`"),
        ("every minute", "too often"),
        ("every day at 8:00 and 8:01", "too often"),
        ("every day at 8:00, 8:01 and 8:30", "too often"),
        ("every monday at 16:00 and 16:04", "too often"),
        ("every blue moon", "I don't know how often that is"),
        ("every", "I don't know how often that is"),
        ("every 0 days", "I can't count in steps of 0."),
        ("every 9999 days", "I can't count in steps of 9999."),
        ("every 30 february", "isn't a date"),
        ("every month on the 45th", "There's no day 45 in any month"),
        ("every 2 hours at 9", "Give either an interval"),
        ("every day at 8:30 and 9", "need the same minutes"),
        ("every day until yesterday", "The date after “until” is already past"),
        ("every monday until tomorrow", "That never happens"),
        ("every 12 hours until today", "That never happens"),
        ("3/1", "could mean two days"),
        ("29.2.2027", "“29.2.2027” isn't a date"),
        ("eight thirty", "I don't know when that is"),
        ("Monday 21 November at 9", "21 November 2026 is a Saturday"),
        ("this afternoon", "That was 60 minutes ago"),
        ("friday night at 1", "That's after midnight"),
        ("every friday night at 1", "That's after midnight"),
        ("every day at 8 and 9pm", "Say am or pm with each"),
        ("every 1st and 15th", "I don't know how often that is"),
        ("every 10 years", "I don't know how often that is"),
    ],
)
def test_a_phrase_that_means_no_time_to_come_is_refused_with_a_clear_sentence(phrase: str, expected: str):
    assert expected in parse_refusal(phrase)


def test_the_same_words_mean_other_moments_elsewhere():
    tokyo = parse_when("tomorrow at 9", "Asia/Tokyo", NOW, MIN_INTERVAL_SECONDS)
    assert (
        formatting.format_times(ENGLISH, tokyo.next_times, "Asia/Tokyo")
        == "Sun 22 Nov 2026, 09:00 (Asia/Tokyo)"
    )
    berlin = parse_when("in 2 hours", ZONE, NOW, MIN_INTERVAL_SECONDS)
    assert berlin.first_due == parse_when("in 2 hours", "Asia/Tokyo", NOW, MIN_INTERVAL_SECONDS).first_due


def test_in_two_hours_is_elapsed_time_and_in_two_days_the_calendar():
    berlin = rrules.load_zone(ZONE)
    before = rrules.to_timestamp(datetime(2027, 3, 28, 1, 0), berlin)
    assert parse_once("in 2 hours", before) == "2027-03-28 04:00"
    assert parse_once("in 1 day", before) == "2027-03-29 01:00"
    assert (
        parse_once("tomorrow at 2:30", rrules.to_timestamp(datetime(2027, 3, 27, 9), berlin))
        == "2027-03-28 03:30"
    )


@pytest.mark.parametrize(
    ("line", "first", "text"),
    [
        ("tomorrow at nine call Anna", "2026-11-21 09:00", "call Anna"),
        ("me tomorrow at 9: call Anna", "2026-11-21 09:00", "call Anna"),
        ("call Anna tomorrow at 9", "2026-11-21 09:00", "call Anna"),
        ("in 2 hours 3 eggs", "2026-11-20 18:00", "3 eggs"),
        (
            "in 20 minutes to take the pizza\nout of the  oven",
            "2026-11-20 16:20",
            "take the pizza\nout of the  oven",
        ),
        ("um 9 den Müll rausbringen", "2026-11-21 09:00", "den Müll rausbringen"),
        ("Geschenke\nkaufen am 24.12. um 18 Uhr", "2026-12-24 18:00", "Geschenke\nkaufen"),
        ("tomorrow at 9 meet at 10", "2026-11-21 09:00", "meet at 10"),
        ("on the first of each month at 9 pay the rent", "2026-12-01 09:00", "pay the rent"),
        ("this friday at 5pm party", "2026-11-20 17:00", "party"),
        ("call Anna tomorrow at 5pm", "2026-11-21 17:00", "call Anna"),
        ("every weekday at 8:30am stand up", "2026-11-23 08:30", "stand up"),
        ("tomorrow call Anna at 5pm", "2026-11-21 17:00", "call Anna"),
        ("at 17:00 call Anna tomorrow", "2026-11-21 17:00", "call Anna"),
        ("jeden Tag die\nTabletten  nehmen um 20 Uhr", "2026-11-20 20:00", "die\nTabletten  nehmen"),
        ("tomorrow: 8 eggs", "2026-11-21 09:00", "8 eggs"),
        ("every 2 hours 3 squats", "2026-11-20 18:00", "3 squats"),
        ("do laundry tomorrow at 9", "2026-11-21 09:00", "do laundry"),
        ("ask Bob what to do at 9", "2026-11-21 09:00", "ask Bob what to do"),
        ("do um 9 Arzt", "2026-11-26 09:00", "Arzt"),
        ("sat at 10 run", "2026-11-21 10:00", "run"),
        ("2.5 kg flour tomorrow", "2026-11-21 09:00", "2.5 kg flour"),
        ("remind me tomorrow at 9 to call", "2026-11-21 09:00", "call"),
        ("remind me about the dentist tomorrow at 9", "2026-11-21 09:00", "the dentist"),
        ("erinnere mich morgen um 9 an Zahnarzt", "2026-11-21 09:00", "Zahnarzt"),
        ("erinnere mich bitte nicht erst morgen um 9", "2026-11-21 09:00", "bitte nicht erst"),
        ("erinnere mich an den Zahnarzt übermorgen um 8 Uhr", "2026-11-22 08:00", "Zahnarzt"),
        ("morgen um 9 an Anna schreiben", "2026-11-21 09:00", "an Anna schreiben"),
        ("nächste Woche Montag um 9 Arzt", "2026-11-23 09:00", "Arzt"),
        ("5 min tea", "2026-11-20 16:05", "tea"),
        ("10m: take out the pizza", "2026-11-20 16:10", "take out the pizza"),
        ("1 h 30 min call", "2026-11-20 17:30", "call"),
        ("2 weeks notice to the landlord tomorrow", "2026-11-21 09:00", "2 weeks notice to the landlord"),
        ("remind me next week to water the plants", "2026-11-23 09:00", "water the plants"),
        ("tonight at midnight take out the bins", "2026-11-21 00:00", "take out the bins"),
        ("every first Monday pay the rent", "2026-12-07 09:00", "pay the rent"),
        ("jeden ersten Montag um 8 Miete zahlen", "2026-12-07 08:00", "Miete zahlen"),
        ("every second Monday pay the rent", "2026-11-23 09:00", "pay the rent"),
        ("tomorrow at 9: ask about Monday", "2026-11-21 09:00", "ask about Monday"),
        ("tomorrow at 9 - plan every day of May", "2026-11-21 09:00", "plan every day of May"),
        ("ask Anna about Friday: tomorrow at 9", "2026-11-21 09:00", "ask Anna about Friday:"),
        ("tomorrow at 9 lunch time in China with Anna", "2026-11-21 09:00", "lunch time in China with Anna"),
        ("tomorrow at 9 check the oven in the kitchen", "2026-11-21 09:00", "check the oven in the kitchen"),
        ("tomorrow at 9 take 2 pills for 3 days", "2026-11-21 09:00", "take 2 pills for 3 days"),
        ("tomorrow at 9 позвонить Анне", "2026-11-21 09:00", "позвонить Анне"),
        ("tomorrow at 9 给安娜打电话", "2026-11-21 09:00", "给安娜打电话"),
    ],
)
def test_a_line_is_split_into_its_time_and_its_text(line: str, first: str, text: str):
    schedule, parsed_text = parse_line(line, ZONE, NOW, MIN_INTERVAL_SECONDS)
    local_time = rrules.to_local_time(schedule.first_due, rrules.load_zone(ZONE))
    assert (f"{local_time:%Y-%m-%d %H:%M}", parsed_text) == (first, text)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("call mum", "I don't know when that is"),
        ("tomorrow at 9", NO_TEXT),
        ("yesterday at 9 call", "That was 31 hours ago"),
        ("every second ping me", "too often"),
        ("31 february at 9 call", "isn't a date"),
        ("every blue moon dance", "I don't know when that is"),
        ("sun cream", "I don't know when that is"),
        ("mo, mi, fr um 7 laufen", "I don't know when that is"),
        ("monday 8 call", "I understand the time as far as “monday”. If “8 call” is part of it"),
        ("medicine every 8 hours starting at 6", "as far as “at 6”. If “every 8 hours starting”"),
        ("tomorrow every 2 hours drink", "as far as “tomorrow”"),
        ("run on monday or tomorrow at 9", "as far as “tomorrow at 9”"),
        ("daily standup tomorrow at 9", "as far as “daily … at 9”. If “tomorrow”"),
        ("tomorrow morning 8 standup", "as far as “tomorrow morning”"),
        ("tomorrow and friday at 9 run", "as far as “tomorrow”"),
        ("every monday wednesday friday at 7 run", "as far as “every monday”"),
        ("every day at 9 for 3 days vitamins", "as far as “every day at 9”"),
        ("Friday the 5th at 9 gifts", "5 December 2026 is a Saturday"),
        ("in an hour 20 call", "as far as “in an hour”. If “20” is part of it"),
        ("morgen um neun zwanzig Anna anrufen", "If “zwanzig” is part of it"),
        ("morgen Punkt neun Anna anrufen", "If “Punkt neun” is part of it"),
        ("morgen um viertel neun Anna anrufen", "If “um viertel neun” is part of it"),
        ("Friday look at two flats", "If “at two” is part of it"),
        ("morgen nacht um 2 lüften", "That's after midnight"),
        ("in a day and a half tea", "as far as “in a day and”"),
        ("in 2 and a half days tea", "I don't know when that is"),
        ("tomorrow at 9 UTC call", "as far as “tomorrow at 9”"),
        ("every day at 8 and 9 pm drink", "Say am or pm with each of these times"),
        ("every day at 8 and 8 pm trinken", "Say am or pm with each of these times"),
        ("at 9 call Anna Friday", "as far as “at 9”. If “friday” is part of it"),
        ("tomorrow at 9 ask about every Monday", "If “every” is part of it"),
        ("at 17:30 через 2 недели позвонить", "If “через 0 недели” is part of it"),
        ("in 3 days at 9 Tokyo time call Kenji", "I can't use the time of other places here"),
        ("chiamare Anna alle 17:30", "as far as “17:30”. If “alle” is part of it"),
        ("24.12.2026 dîner 18h30 chez Paul", "If “18h30” is part of it"),
        ("", "I don't know when that is"),
    ],
)
def test_a_line_without_a_time_or_a_text_is_refused(line: str, expected: str):
    with pytest.raises(UnclearTime) as error:
        parse_line(line, ZONE, NOW, MIN_INTERVAL_SECONDS)
    assert expected in str(error.value)


# Times in languages that are not read, or in words that are not.
OTHER_LANGUAGES = """
domani alle 9|tra 2 ore|tra 20 minuti|venerdì alle 17:30|il 24 dicembre alle 18:00|dopodomani alle 8
stasera alle 8|lunedì prossimo alle 10|tra mezz'ora|ogni giorno alle 8|dal lunedì al venerdì alle 8
ogni lunedì alle 9:30|завтра о 9|через 2 години|через 20 хвилин|у п’ятницю о 17:30|24 грудня о 18:00
післязавтра о 8|сьогодні о 8 вечора|наступного понеділка о 10|через півгодини|щодня о 8
по буднях о 8|щопонеділка о 9:30|jutro o 9|za 2 godziny|za 20 minut|w piątek o 17:30
24 grudnia o 18:00|pojutrze o 8|dziś o 8 wieczorem|w następny poniedziałek o 10|za pół godziny
codziennie o 8|w dni robocze o 8|w każdy poniedziałek o 9:30|på fredag 17:30|i morgon 9:00
om fredagen 17:30|varje dag kl 8:00|vrijdag om 17:30|morgen om 9:00|elke dag 8:00
volgende maandag 10:00|cuma günü 17:30|yarın saat 9:00|her gün 8:00|24 Aralık 18:00|금요일에 17:30
내일 9:00|매일 8:00|12월 24일 18:00|יום שישי 17:30|מחר ב 9:00|כל יום 8:00|24 בדצמבר 18:00
tra 3 giorni 9:00|za tydzień 9:00|fra una settimana 9:00|щопонеділка 9:30|venerdì 17:30|пт 17:30
в марте 9:00
"""


@pytest.mark.parametrize(
    "line", ["Anna {}", "{} Anna", "an Anna {} denken", "позвонить Анне {}", "{} 给安娜打电话"]
)
@pytest.mark.parametrize("language", ["en", *LANGUAGES])
def test_a_time_in_another_language_is_refused_wherever_it_stands(line: str, language: str):
    parsed = []
    for phrase in OTHER_LANGUAGES.strip().replace("\n", "|").split("|"):
        with contextlib.suppress(UnclearTime):
            parsed.append(parse_line(line.format(phrase), ZONE, NOW, MIN_INTERVAL_SECONDS, language))
    assert parsed == []


ORDINARY_LINES = """
tomorrow at 9 call mum|every day at 8 am and 8 pm take a pill|tomorrow at 9 pay rent to Mr May
every weekday at 8 take Julie and Marco to school|in 45 min turn off the oven
at 9 march to the office in China|morgen um 9 mit dem Hund zum Tierarzt|morgen um 10 alle Rechnungen bezahlen
um 18 Uhr Dienste und Montage planen|morgen um 12 Essen mit Kollegen im Restaurant|in 3 Tagen Buch zurückgeben
jeden Tag um 20 Uhr Zähne putzen
tomorrow at 9 llamar a mamá|tomorrow at 9 ir al médico con Ana|in 30 minutes sortir le gâteau du four
tomorrow at 9 acheter du pain pour la fête|tomorrow at 9 поздравить Аню с днём рождения
in 2 hours забрать детей из школы|tomorrow at 9 купить хлеб и молоко в магазине
in 2 hours 买牛奶和鸡蛋|tomorrow at 9 带狗去看医生
"""


def test_ordinary_texts_in_many_languages_are_not_taken_for_a_part_of_the_time():
    for line in ORDINARY_LINES.strip().replace("\n", "|").split("|"):
        assert parse_line(line, ZONE, NOW, MIN_INTERVAL_SECONDS)


WORDS = time_words.load_time_words()
NAMES = sorted(WORDS.names | WORDS.pieces)


def test_every_name_of_a_time_is_found_in_a_text():
    unknown = [name for name in NAMES if not time_words.find_time_words(f"Anna {name} Max")]
    assert unknown == []


@given(st.sampled_from([name for name in NAMES if name[-1] != ":"]), st.booleans(), st.booleans())
@example("di mattina", False, True)  # "di" is a German day, too
@example("i morgen", True, False)
def test_no_text_keeps_a_day_or_a_month_of_any_language(name: str, is_last: bool, is_after_time: bool):
    text = f"Anna {name}" if is_last else f"{name} Anna"
    line = f"at 17:30 {text}" if is_after_time else f"{text} 17:30"
    rest = "Anna"
    with contextlib.suppress(UnclearTime):
        _, rest = parse_line(line, ZONE, NOW, MIN_INTERVAL_SECONDS)
    assert rest == "Anna", "it is a part of the time, or refused"


def test_the_table_of_days_and_months_is_what_babel_has():
    assert calendar_words.FILE.read_text(encoding="utf-8") == calendar_words.render_words()


PIECES = """
every day week month monday 31 2 at 9 25:00 um uhr 8:30 am pm noon tomorrow next in hours minutes first of the
each until bis jeden alle tag 31.2. 2027-02-30 second - , 99999999 half a ½ \u202e 🎂 24.12.
"""
PHRASES = st.lists(st.sampled_from(PIECES.split()), max_size=9).map(" ".join)


@settings(max_examples=300)
@given(PHRASES | st.text(max_size=40))
def test_any_phrase_is_parsed_as_a_time_to_come_or_refused_in_a_sentence(phrase: str):
    refusal = ""
    try:
        schedule = parse_when(phrase, ZONE, NOW, MIN_INTERVAL_SECONDS)
    except UnclearTime as error:
        refusal = str(error)
    if refusal:
        assert refusal.endswith((".", "?"))
        return
    assert schedule.first_due > NOW
    assert list(schedule.next_times) == sorted(schedule.next_times)
    assert all(due == int(due) for due in schedule.next_times)


@settings(max_examples=100)
@given(PHRASES)
def test_any_line_has_a_time_to_come_and_a_text_or_is_refused_in_a_sentence(line: str):
    refusal = ""
    try:
        schedule, text = parse_line(line, ZONE, NOW, MIN_INTERVAL_SECONDS)
    except UnclearTime as error:
        refusal = str(error)
    if refusal:
        assert refusal.endswith((".", "?"))
        return
    assert schedule.first_due > NOW
    assert text.strip()


def test_a_list_of_times_may_name_one_twice():
    assert clock_times.find_times("at 8 and 8").times == clock_times.find_times("at 8").times
