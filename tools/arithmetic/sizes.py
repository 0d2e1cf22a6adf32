"""Bounds on the bits of a number, computed before the number is: an upper bound, never too low. Pure."""

import math
from fractions import Fraction

from tools.arithmetic.functions import Number

BITS_PER_DIGIT = math.log2(10)
FLOAT_BITS = 64
HUGE = 2.0**60  # stands for everything that is larger


def bits_of_value(value: Number) -> int:
    """The bits of a value; for a fraction, of its longer part."""
    if isinstance(value, float):
        return FLOAT_BITS
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def bits_of_operation(symbol: str, left: Number, right: Number) -> int:
    sizes = bits_of_value(left), bits_of_value(right)
    if symbol in "+-" and _is_integer(left) and _is_integer(right):
        return max(sizes) + 1
    return sum(sizes) + 1


def bits_of_power(base: Fraction, exponent: Fraction) -> float:
    if base in (0, 1, -1):
        return 1
    return min(abs(exponent.numerator), HUGE) * math.log2(max(abs(base.numerator), base.denominator))


def bits_of_call(name: str, values: list[Number]) -> float:
    first_size = _clamp(values[0])
    if name == "factorial":
        return math.lgamma(first_size + 1) / math.log(2)
    if name == "comb":
        second_size = _clamp(values[1])
        return min(second_size, abs(first_size - second_size)) * math.log2(first_size + 2)
    return sum(bits_of_value(value) for value in values) + len(values)


def _is_integer(value: Number) -> bool:
    return isinstance(value, Fraction) and value.denominator == 1


def _clamp(value: Number) -> float:
    if bits_of_value(value) < 1000:
        return min(abs(float(value)), HUGE)
    return HUGE
