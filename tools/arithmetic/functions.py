"""The functions `calculate` knows: exact where the result can be, else floating point. Pure; sizes are judged
before.

Each takes numbers (Fraction when exact, else float) and gives one; raises ValueError, saying why there is no
answer.
"""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import NamedTuple

Value = Fraction | float


class Function(NamedTuple):
    """How many arguments it takes, and itself."""

    least: int
    most: int
    apply: Callable[..., Value]


def whole(value: Value, name: str) -> int:
    """The integer a value is; raises ValueError for one that is none."""
    if isinstance(value, float) or value.denominator != 1:
        raise ValueError(f"{name} takes whole numbers only")
    return value.numerator


def root(value: Value, degree: int) -> Value:
    """The real root, exact when numerator and denominator have one."""
    if value < 0 and degree % 2 == 0:
        raise ValueError("a negative number has no real root of that kind")
    sign = -1 if value < 0 else 1
    if isinstance(value, Fraction):
        above = _whole_root(abs(value.numerator), degree)
        below = _whole_root(value.denominator, degree)
        if above is not None and below is not None:
            return Fraction(sign * above, below)
    size = abs(float(value))
    return sign * (math.sqrt(size) if degree == 2 else size ** (1 / degree))


def _whole_root(number: int, degree: int) -> int | None:
    """The integer whose power `number` is, found by Newton's steps from above; None if there is none."""
    found = 1 << -(-number.bit_length() // degree)
    while (lower := ((degree - 1) * found + number // found ** (degree - 1)) // degree) < found:
        found = lower
    if found**degree == number:
        return found
    return None


def rounded(value: Value, places: Value = Fraction(0)) -> Value:
    """Rounded as in school: a half goes away from zero."""
    shift = whole(places, "round")
    if abs(shift) > 1000:
        raise ValueError("round takes at most 1000 decimals")
    scale = Fraction(10) ** shift
    size = math.floor(abs(Fraction(value)) * scale + Fraction(1, 2)) / scale
    result = -size if value < 0 else size
    if isinstance(value, float):
        return float(result)
    return result


def natural_log(value: Value) -> float:
    if value <= 0:
        raise ValueError("only a positive number has a logarithm")
    if isinstance(value, float):
        return math.log(value)
    return math.log(value.numerator) - math.log(value.denominator)


def log(value: Value, base: Value | None = None) -> float:
    if base is None:  # some mean the natural one, some base 10
        raise ValueError("log needs its base, as in log(8, 2); there are also ln, log2 and log10")
    if base == 1:
        raise ValueError("1 is no base of a logarithm")
    return natural_log(value) / natural_log(base)


def _log_to(base: int, exact: Callable[[float | int], float]) -> Callable[[Value], float]:
    def apply(value: Value) -> float:
        if isinstance(value, Fraction) and value.denominator == 1 and value > 0:
            return exact(value.numerator)
        return natural_log(value) / math.log(base)

    return apply


def _angle(of: Callable[[float], float]) -> Callable[[Value], float]:
    def apply(value: Value) -> float:
        angle = float(value)
        if abs(angle) > 1e9:
            raise ValueError("an angle that large cannot be told from its neighbours")
        # Near a multiple of pi what is left is the error of pi itself: sin(pi) is 0.
        if abs(angle) > 1:
            return round(of(angle), 15)
        return of(angle)

    return apply


def _tangent(value: Value) -> float:
    below = _angle(math.cos)(value)
    if below == 0:
        raise ValueError("the tangent has no value there")
    return _angle(math.sin)(value) / below


def _plain(of: Callable[[float], float]) -> Callable[[Value], float]:
    def apply(value: Value) -> float:
        return of(float(value))

    return apply


def _of_integers(name: str, of: Callable[..., int]) -> Callable[..., Fraction]:
    def apply(*values: Value) -> Fraction:
        numbers = [whole(value, name) for value in values]
        if name in ("factorial", "comb") and min(numbers) < 0:
            raise ValueError(f"{name} takes no negative numbers")
        return Fraction(of(*numbers))

    return apply


def _sum(*values: Value) -> Value:
    return sum(values, start=Fraction(0))


MANY = 200
FUNCTIONS: Mapping[str, Function] = {
    "abs": Function(1, 1, abs),
    "acos": Function(1, 1, _plain(math.acos)),
    "asin": Function(1, 1, _plain(math.asin)),
    "atan": Function(1, 1, _plain(math.atan)),
    "cbrt": Function(1, 1, lambda value: root(value, 3)),
    "ceil": Function(1, 1, lambda value: Fraction(math.ceil(value))),
    "comb": Function(2, 2, _of_integers("comb", math.comb)),
    "cos": Function(1, 1, _angle(math.cos)),
    "degrees": Function(1, 1, _plain(math.degrees)),
    "exp": Function(1, 1, _plain(math.exp)),
    "factorial": Function(1, 1, _of_integers("factorial", math.factorial)),
    "floor": Function(1, 1, lambda value: Fraction(math.floor(value))),
    "gcd": Function(2, MANY, _of_integers("gcd", math.gcd)),
    "lcm": Function(2, MANY, _of_integers("lcm", math.lcm)),
    "ln": Function(1, 1, natural_log),
    "log": Function(1, 2, log),
    "log10": Function(1, 1, _log_to(10, math.log10)),
    "log2": Function(1, 1, _log_to(2, math.log2)),
    "max": Function(1, MANY, lambda *values: max(values)),
    "mean": Function(1, MANY, lambda *values: _sum(*values) / len(values)),
    "min": Function(1, MANY, lambda *values: min(values)),
    "mod": Function(2, 2, lambda value, by: value % by),
    "radians": Function(1, 1, _plain(math.radians)),
    "round": Function(1, 2, rounded),
    "sin": Function(1, 1, _angle(math.sin)),
    "sqrt": Function(1, 1, lambda value: root(value, 2)),
    "sum": Function(1, MANY, _sum),
    "tan": Function(1, 1, _tangent),
}
CONSTANTS: Mapping[str, float] = {"pi": math.pi, "π": math.pi, "e": math.e, "tau": math.tau}
