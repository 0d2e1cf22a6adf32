"""Writes numbers for people: exactly where that is short, shortened honestly where it is not. Pure."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

WHOLE = 400  # digits of an integer that are all written
PLACES = 40  # decimals of a fraction that ends, all written
RATIO = 40  # digits of numerator and denominator together, when they are written
ENDS = 20  # digits shown at either end of an integer that is too long


def told(value: Fraction | float) -> str:
    """An exact value in full or with its length, then an approximation where one helps."""
    if isinstance(value, float):
        return f"≈ {value:.15g}"
    if value.denominator == 1:
        return _integer(value.numerator)
    places = _places(value.denominator)
    if places is not None and digits(value.numerator) <= WHOLE:
        return _decimals(value, places)
    size = digits(value.numerator) + digits(value.denominator)
    if size <= RATIO:
        exact = f"{value.numerator}/{value.denominator}"
    else:
        exact = f"a fraction of {size} digits"
    return f"{exact} ≈ {_approximately(value)}"


def digits(number: int) -> int:
    """How many decimal digits an integer has, without writing it."""
    size = abs(number)
    if size < 10:
        return 1
    guess = math.floor(math.log10(size))
    return guess + (2 if size >= 10 ** (guess + 1) else 1 if size >= 10**guess else 0)


def _integer(number: int) -> str:
    length = digits(number)
    if length <= WHOLE:
        return str(number)
    first = abs(number) // 10 ** (length - ENDS)
    last = abs(number) % 10**ENDS
    return f"{'-' if number < 0 else ''}{first}…{last:0{ENDS}} ({length} digits, the middle is left out)"


def _places(denominator: int) -> int | None:
    """How many decimals a fraction in lowest terms has, if they end soon."""
    twos = (denominator & -denominator).bit_length() - 1
    rest = denominator >> twos
    fives = 0
    while rest % 5 == 0 and fives <= PLACES:
        rest = rest // 5
        fives = fives + 1
    if rest == 1 and max(twos, fives) <= PLACES:
        return max(twos, fives)
    return None


def _decimals(value: Fraction, places: int) -> str:
    shifted = abs(value.numerator) * 10**places // value.denominator
    whole, part = divmod(shifted, 10**places)
    return f"{'-' if value < 0 else ''}{whole}.{part:0{places}}"


def _approximately(value: Fraction) -> str:
    with localcontext() as context:
        context.prec = 20
        return f"{(Decimal(value.numerator) / Decimal(value.denominator)):g}"
