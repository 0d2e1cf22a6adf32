"""How many bits a number will have, judged before it is made: at most so many, never fewer. Pure."""

import math
from fractions import Fraction

from tools.arithmetic.functions import Number

BITS_PER_DIGIT = math.log2(10)
FLOAT_BITS = 64
HUGE = 2.0**60  # stands for whatever is larger


def bits_of_value(value: Number) -> int:
    """The longer part of a fraction."""
    if isinstance(value, float):
        return FLOAT_BITS
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def bits_of_operation(symbol: str, left: Number, right: Number) -> int:
    sizes = bits_of_value(left), bits_of_value(right)
    return (max(sizes) if symbol in "+-" and _is_integer(left) and _is_integer(right) else sum(sizes)) + 1


def bits_of_power(base: Fraction, exponent: Fraction) -> float:
    if base in (0, 1, -1):
        return 1
    return min(abs(exponent.numerator), HUGE) * math.log2(max(abs(base.numerator), base.denominator))


def bits_of_call(name: str, values: list[Number]) -> float:
    first = _clamp(values[0])
    if name == "factorial":
        return math.lgamma(first + 1) / math.log(2)
    if name == "comb":
        chosen = _clamp(values[1])
        return min(chosen, abs(first - chosen)) * math.log2(first + 2)
    return sum(bits_of_value(value) for value in values) + len(values)


def _is_integer(value: Number) -> bool:
    return isinstance(value, Fraction) and value.denominator == 1


def _clamp(value: Number) -> float:
    if bits_of_value(value) < 1000:
        return min(abs(float(value)), HUGE)
    return HUGE
