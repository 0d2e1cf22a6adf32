"""Reads and works out an arithmetic expression: exact fractions, sizes judged before anything large is
computed.

Pure, and quick to import: the same code works small sums in the gateway and large ones in a killable process.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction

from tools.arithmetic.formatting import told
from tools.arithmetic.functions import CONSTANTS, FUNCTIONS, Value, root
from tools.arithmetic.sizes import DIGIT, of_call, of_operation, of_power

LENGTH = 1000  # characters of an expression
DEPTH = 40  # brackets and signs within one another
MOST = 400_000  # bits of any number on the way: some 120,000 digits

TOKEN = re.compile(
    r"\s*(?:(\d[\d_]*\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([^\W\d]\w*)|(\*\*|//|[-+*/%^(),!√]))"
)
SPELLINGS = str.maketrans(
    {"×": "*", "·": "*", "∙": "*", "÷": "/", "−": "-", "–": "-", "²": "^2", "³": "^3", "[": "(", "]": ")"}
)
TERM = 10
FACTOR = 20
SIGN = 25
POWER = 30
AFTER = 40
BINDING: Mapping[str, int] = {
    "+": TERM,
    "-": TERM,
    "*": FACTOR,
    "of": FACTOR,
    "/": FACTOR,
    "//": FACTOR,
    "%": FACTOR,
    "^": POWER,
    "**": POWER,
    "!": AFTER,
}


class Refused(ValueError):
    """There is no answer; the text says why, for the model."""


class Bigger(Exception):
    """A number on the way has more bits than are allowed here, and fewer than MOST."""


def work_out(text: str, bits: int = MOST) -> Value:
    """The value of an expression, a Fraction when it is exact. Raises Refused, and Bigger beyond `bits`."""
    try:
        return _Reader(_tokens(text), bits).read()
    except (ZeroDivisionError, OverflowError, ValueError) as error:
        if isinstance(error, Refused):
            raise
        raise Refused(_sentence(error)) from error


def large(body: bytes) -> dict[str, str]:
    """Work out an expression in a process of its own: what is `told`, or why it is `refused`."""
    try:
        return {"told": told(work_out(body.decode()))}
    except Refused as refused:
        return {"refused": str(refused)}


def _sentence(error: ArithmeticError | ValueError) -> str:
    if isinstance(error, ZeroDivisionError):
        return "Nothing can be divided by zero."
    if isinstance(error, OverflowError):
        return "The result is too large to be worked out approximately."
    return f"{str(error).capitalize()}."


def _tokens(text: str) -> list[str]:
    if len(text) > LENGTH:
        raise Refused(f"An expression has at most {LENGTH} characters; work it out in parts.")
    rest = text.translate(SPELLINGS).strip().rstrip("=? \t\n")
    tokens = []
    at = 0
    while at < len(rest):
        found = TOKEN.match(rest, at)
        if found is None:
            raise Refused(
                f"{rest[at:].strip()[:20]!r} is not arithmetic; write numbers, + - * / // % ^ and functions."
            )
        tokens.append(found[0].strip())
        at = found.end()
    return tokens


class _Reader:
    """Reads tokens from left to right and computes on the way, by the binding of operators."""

    def __init__(self, tokens: list[str], bits: int) -> None:
        self._tokens = tokens
        self._bits = bits
        self._at = 0
        self._depth = 0

    def read(self) -> Value:
        value = self._expression(0)
        if self._next():
            if self._next() == ",":
                hint = " Write 1000, not 1,000."
            else:
                hint = " Is an operator missing, such as *?"
            raise Refused(f"{self._next()!r} does not fit where it stands.{hint}")
        return value

    def _next(self) -> str:
        if self._at < len(self._tokens):
            return self._tokens[self._at]
        return ""

    def _take(self, wanted: str = "") -> str:
        word = self._next()
        if not word or (wanted and word != wanted):
            raise Refused(
                f"{wanted or 'A number'} is missing {f'before {word!r}' if word else 'at the end'}."
            )
        self._at += 1
        return word

    def _expression(self, least: int) -> Value:
        self._depth += 1
        if self._depth > DEPTH:
            raise Refused("The expression is nested too deep; work it out in parts.")
        value = self._operand()
        while (binding := BINDING.get(self._next(), -1)) >= least:
            value = self._onward(value, binding)
        self._depth -= 1
        return value

    def _onward(self, left: Value, binding: int) -> Value:
        sign = self._take()
        begin = self._at
        if sign == "!":
            if self._next() == "!":
                raise Refused("!! can be read in two ways; use factorial().")
            return self._called("factorial", [left])
        if sign == "%" and self._is_percent():
            return left / 100
        # A power takes what is right of it first: 2^3^2 is 2^9.
        right = self._expression(binding if binding == POWER else binding + 1)
        if sign in "+-":
            self._refuse_two_readings(begin)
        return self._applied(sign, left, right)

    def _is_percent(self) -> bool:
        """Whether the % just taken stands after a number alone; before another number it is the remainder."""
        if self._next() == "-":
            raise Refused("% before a minus can be read in two ways: use mod(a, b), or a/100.")
        return self._next() in ("", ")", ",") or self._next() in BINDING

    def _refuse_two_readings(self, begin: int) -> None:
        """`200 + 10%` is 220 to some and 200.1 to others; `5% + 10%` is clear."""
        right = self._tokens[begin : self._at]
        before = self._tokens[begin - 2]
        if len(right) == 2 and right[1] == "%" and before != "%":
            part = f"{right[0]}/100"
            raise Refused(f"Adding {right[0]}% can be read in two ways: write * (1 + {part}), or + {part}.")

    def _operand(self) -> Value:
        word = self._take()
        if word == "(":
            value = self._expression(0)
            self._take(")")
            return value
        if word in ("-", "+"):
            value = self._expression(SIGN)
            if word == "-":
                return -value
            return value
        if word == "√":
            return self._called("sqrt", [self._expression(POWER)])
        if word[0].isdigit() or word[0] == ".":
            return self._number(word)
        if not word[0].isalpha():
            raise Refused(f"A number is missing before {word!r}.")
        return self._named(word)

    def _number(self, word: str) -> Fraction:
        _, _, exponent = word.lower().partition("e")
        self._room(abs(int(exponent or 0)) * DIGIT)
        return Fraction(word.replace("_", ""))

    def _named(self, word: str) -> Value:
        name = word.lower()
        if self._next() == "(" and name in FUNCTIONS:
            return self._called(name, self._arguments())
        if name in CONSTANTS:
            return CONSTANTS[name]
        raise Refused(
            f"{word!r} is not known here; there are pi, e and, with brackets, {', '.join(FUNCTIONS)}."
        )

    def _arguments(self) -> list[Value]:
        self._take("(")
        values = [self._expression(0)]
        while self._next() == ",":
            self._take()
            values.append(self._expression(0))
        self._take(")")
        return values

    def _called(self, name: str, values: list[Value]) -> Value:
        function = FUNCTIONS[name]
        if not function.least <= len(values) <= function.most:
            if function.most == 1:
                wanted = "one number"
            else:
                wanted = f"{function.least} or more numbers"
            raise Refused(f"{name} takes {wanted}, not {len(values)}.")
        self._room(of_call(name, values))
        return _real(function.apply(*values))

    def _applied(self, sign: str, left: Value, right: Value) -> Value:
        if sign in ("^", "**"):
            return _real(self._power(left, right))
        self._room(of_operation(sign, left, right))
        return _real(OPERATIONS[sign](left, right))

    def _power(self, base: Value, exponent: Value) -> Value | complex:
        if isinstance(base, float) or isinstance(exponent, float) or exponent.denominator > 64:
            power: float | complex = float(base) ** float(exponent)
            return power
        self._room(of_power(base, exponent))
        start: Fraction | float = base
        if exponent.denominator != 1:
            start = root(base, exponent.denominator)
        return start**exponent.numerator

    def _room(self, bits: float) -> None:
        """Stop before a number of so many bits is made."""
        if bits > MOST:
            raise Refused(
                f"A number on the way has more than {int(MOST / DIGIT):,} digits; that is not worked out."
            )
        if bits > self._bits:
            raise Bigger


OPERATIONS: Mapping[str, Callable[[Value, Value], Value]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "of": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}


def _real(value: Value | complex) -> Value:
    if isinstance(value, complex):
        raise Refused("The result is not a real number.")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise OverflowError
        return value
    return Fraction(value)
