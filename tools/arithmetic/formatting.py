"""Formats numbers for people: exactly where that is short, shortened honestly where it is not. Pure."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

MAX_INTEGER_DIGITS = 400  # of an integer that is written in full
MAX_DECIMALS = 40  # of a fraction whose decimals end, all written
MAX_FRACTION_DIGITS = 40  # of numerator and denominator together, when they are written
SHOWN_END_DIGITS = 20  # at either end of an integer that is too long


def format_number(value: Fraction | float) -> str:
    """An exact value in full or with its length, then an approximation where one helps."""
    if isinstance(value, float):
        return f"≈ {value:.15g}"
    if value.denominator == 1:
        return _format_integer(value.numerator)
    places = _count_decimals(value.denominator)
    if places is not None and count_digits(value.numerator) <= MAX_INTEGER_DIGITS:
        return _format_decimals(value, places)
    size = count_digits(value.numerator) + count_digits(value.denominator)
    if size <= MAX_FRACTION_DIGITS:
        exact = f"{value.numerator}/{value.denominator}"
    else:
        exact = f"a fraction of {size} digits"
    return f"{exact} ≈ {_format_approximately(value)}"


def count_digits(number: int) -> int:
    """The number of decimal digits of an integer, without writing it."""
    size = abs(number)
    if size < 10:
        return 1
    # The logarithm of a large number is rounded, so the exponent may be one too high or too low.
    exponent = math.floor(math.log10(size))
    if size >= 10 ** (exponent + 1):
        return exponent + 2
    if size >= 10**exponent:
        return exponent + 1
    return exponent


def _format_integer(number: int) -> str:
    length = count_digits(number)
    if length <= MAX_INTEGER_DIGITS:
        return str(number)
    first = abs(number) // 10 ** (length - SHOWN_END_DIGITS)
    last = abs(number) % 10**SHOWN_END_DIGITS
    ends = f"{first}…{last:0{SHOWN_END_DIGITS}}"
    return f"{_sign(number)}{ends} ({length} digits, the middle is left out)"


def _count_decimals(denominator: int) -> int | None:
    """The number of decimals of a fraction in lowest terms, if they end soon; else None."""
    twos = (denominator & -denominator).bit_length() - 1
    rest = denominator >> twos
    fives = 0
    while rest % 5 == 0 and fives <= MAX_DECIMALS:
        rest = rest // 5
        fives = fives + 1
    if rest == 1 and max(twos, fives) <= MAX_DECIMALS:
        return max(twos, fives)
    return None


def _format_decimals(value: Fraction, places: int) -> str:
    shifted = abs(value.numerator) * 10**places // value.denominator
    integer, decimals = divmod(shifted, 10**places)
    return f"{_sign(value)}{integer}.{decimals:0{places}}"


def _sign(value: Fraction | int) -> str:
    return "-" if value < 0 else ""


def _format_approximately(value: Fraction) -> str:
    with localcontext() as context:
        context.prec = 20
        return f"{(Decimal(value.numerator) / Decimal(value.denominator)):g}"
