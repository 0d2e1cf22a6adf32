"""How many bits a number will have, judged before it is made: at most so many, never fewer. Pure."""

import math
from fractions import Fraction

from tools.arithmetic.functions import Value

DIGIT = math.log2(10)
FLOAT = 64
BEYOND = 2.0**60  # stands for whatever is larger


def of_value(value: Value) -> int:
    """The longer part of a fraction."""
    if isinstance(value, float):
        return FLOAT
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def of_operation(sign: str, left: Value, right: Value) -> int:
    sizes = of_value(left), of_value(right)
    return (max(sizes) if sign in "+-" and _is_whole(left) and _is_whole(right) else sum(sizes)) + 1


def of_power(base: Fraction, exponent: Fraction) -> float:
    if base in (0, 1, -1):
        return 1
    return min(abs(exponent.numerator), BEYOND) * math.log2(max(abs(base.numerator), base.denominator))


def of_call(name: str, values: list[Value]) -> float:
    first = _bounded(values[0])
    if name == "factorial":
        return math.lgamma(first + 1) / math.log(2)
    if name == "comb":
        chosen = _bounded(values[1])
        return min(chosen, abs(first - chosen)) * math.log2(first + 2)
    return sum(of_value(value) for value in values) + len(values)


def _is_whole(value: Value) -> bool:
    return isinstance(value, Fraction) and value.denominator == 1


def _bounded(value: Value) -> float:
    if of_value(value) < 1000:
        return min(abs(float(value)), BEYOND)
    return BEYOND
