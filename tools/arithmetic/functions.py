"""The functions `calculate` knows: exact where the result can be, else floating point. Pure.

Each takes numbers (Fraction when exact, else float) and returns one, also an int where it is whole; raises
ValueError, saying why there is no answer. Sizes are checked before these are called.
"""

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import NamedTuple

Number = Fraction | float


class MathFunction(NamedTuple):
    """A function and how many arguments it takes."""

    min_args: int
    max_args: int
    apply: Callable[..., Number]


def require_integer(value: Number, function_name: str) -> int:
    """The integer value; raises ValueError when it is not a whole number."""
    if isinstance(value, float) or value.denominator != 1:
        raise ValueError(f"{function_name} takes whole numbers only")
    return value.numerator


def real_root(value: Number, degree: int) -> Number:
    """The real root, exact when numerator and denominator have one."""
    if value < 0 and degree % 2 == 0:
        raise ValueError("a negative number has no real root of that kind")
    if value < 0:
        return -real_root(-value, degree)
    if isinstance(value, Fraction):
        numerator = _integer_root(value.numerator, degree)
        denominator = _integer_root(value.denominator, degree)
        if numerator is not None and denominator is not None:
            return Fraction(numerator, denominator)
    size = abs(float(value))  # without the sign of -0.0
    if degree == 2:
        return math.sqrt(size)
    root: float = size ** (1 / degree)
    return root


def _integer_root(number: int, degree: int) -> int | None:
    """The integer whose power `number` is, by Newton's method from above; None if there is none."""
    root = 1 << -(-number.bit_length() // degree)
    while (lower := ((degree - 1) * root + number // root ** (degree - 1)) // degree) < root:
        root = lower
    if root**degree == number:
        return root
    return None


def round_half_away(value: Number, places: Number = Fraction(0)) -> Number:
    """The value rounded as in school: a half goes away from zero."""
    shift = require_integer(places, "round")
    if abs(shift) > 1000:
        raise ValueError("round takes at most 1000 decimals")
    scale = Fraction(10) ** shift
    size = math.floor(abs(Fraction(value)) * scale + Fraction(1, 2)) / scale
    result = -size if value < 0 else size
    if isinstance(value, float):
        return float(result)
    return result


def natural_log(value: Number) -> float:
    if value <= 0:
        raise ValueError("only a positive number has a logarithm")
    if isinstance(value, float):
        return math.log(value)
    return math.log(value.numerator) - math.log(value.denominator)


def log(value: Number, base: Number | None = None) -> float:
    if base is None:  # to some it is the natural logarithm, to others base 10
        raise ValueError("log needs its base, as in log(8, 2); there are also ln, log2 and log10")
    if base == 1:
        raise ValueError("1 is no base of a logarithm")
    return natural_log(value) / natural_log(base)


def _make_log(base: int, exact: Callable[[float | int], float]) -> Callable[[Number], float]:
    def apply(value: Number) -> float:
        if isinstance(value, Fraction) and value.denominator == 1 and value > 0:
            return exact(value.numerator)
        return natural_log(value) / math.log(base)

    return apply


def _make_trigonometric(function: Callable[[float], float]) -> Callable[[Number], float]:
    def apply(value: Number) -> float:
        angle = float(value)
        if abs(angle) > 1e9:
            raise ValueError("an angle that large cannot be told from its neighbours")
        # Near a multiple of pi the rest is the rounding error of pi itself: sin(pi) is 0.
        if abs(angle) > 1:
            return round(function(angle), 15)
        return function(angle)

    return apply


def _tangent(value: Number) -> float:
    cosine = _make_trigonometric(math.cos)(value)
    if cosine == 0:
        raise ValueError("the tangent has no value there")
    return _make_trigonometric(math.sin)(value) / cosine


def _make_integer_function(name: str, function: Callable[..., int]) -> Callable[..., int]:
    def apply(*values: Number) -> int:
        numbers = [require_integer(value, name) for value in values]
        if name in ("factorial", "comb") and min(numbers) < 0:
            raise ValueError(f"{name} takes no negative numbers")
        return function(*numbers)

    return apply


def _sum(*values: Number) -> Number:
    return sum(values, start=Fraction(0))


MAX_ARGS = 200
FUNCTIONS: Mapping[str, MathFunction] = {
    "abs": MathFunction(1, 1, abs),
    "acos": MathFunction(1, 1, math.acos),
    "asin": MathFunction(1, 1, math.asin),
    "atan": MathFunction(1, 1, math.atan),
    "cbrt": MathFunction(1, 1, lambda value: real_root(value, 3)),
    "ceil": MathFunction(1, 1, math.ceil),
    "comb": MathFunction(2, 2, _make_integer_function("comb", math.comb)),
    "cos": MathFunction(1, 1, _make_trigonometric(math.cos)),
    "degrees": MathFunction(1, 1, math.degrees),
    "exp": MathFunction(1, 1, math.exp),
    "factorial": MathFunction(1, 1, _make_integer_function("factorial", math.factorial)),
    "floor": MathFunction(1, 1, math.floor),
    "gcd": MathFunction(2, MAX_ARGS, _make_integer_function("gcd", math.gcd)),
    "lcm": MathFunction(2, MAX_ARGS, _make_integer_function("lcm", math.lcm)),
    "ln": MathFunction(1, 1, natural_log),
    "log": MathFunction(1, 2, log),
    "log10": MathFunction(1, 1, _make_log(10, math.log10)),
    "log2": MathFunction(1, 1, _make_log(2, math.log2)),
    "max": MathFunction(1, MAX_ARGS, lambda *values: max(values)),
    "mean": MathFunction(1, MAX_ARGS, lambda *values: _sum(*values) / len(values)),
    "min": MathFunction(1, MAX_ARGS, lambda *values: min(values)),
    "mod": MathFunction(2, 2, operator.mod),
    "radians": MathFunction(1, 1, math.radians),
    "round": MathFunction(1, 2, round_half_away),
    "sin": MathFunction(1, 1, _make_trigonometric(math.sin)),
    "sqrt": MathFunction(1, 1, lambda value: real_root(value, 2)),
    "sum": MathFunction(1, MAX_ARGS, _sum),
    "tan": MathFunction(1, 1, _tangent),
}
CONSTANTS: Mapping[str, float] = {"pi": math.pi, "π": math.pi, "e": math.e, "tau": math.tau}
