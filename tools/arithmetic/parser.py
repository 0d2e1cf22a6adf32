"""Parses and evaluates arithmetic: exact fractions, sizes checked before large numbers are built.

Pure, and quick to import: the same code computes small values in the gateway and large ones in a process that
can be killed.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction

from tools.arithmetic.formatting import format_number
from tools.arithmetic.functions import CONSTANTS, FUNCTIONS, Number, real_root
from tools.arithmetic.sizes import BITS_PER_DIGIT, bits_of_call, bits_of_operation, bits_of_power

MAX_EXPRESSION_CHARS = 1000
MAX_NESTING = 40  # of brackets and signs
MAX_BITS = 400_000  # of any number on the way: some 120,000 digits

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
POSTFIX = 40
PRECEDENCE: Mapping[str, int] = {
    "+": TERM,
    "-": TERM,
    "*": FACTOR,
    "of": FACTOR,
    "/": FACTOR,
    "//": FACTOR,
    "%": FACTOR,
    "^": POWER,
    "**": POWER,
    "!": POSTFIX,
}


class ExpressionRefused(ValueError):
    """The expression has no answer; the text says why, for the model."""


class BitLimitExceeded(Exception):
    """A number on the way has more bits than the caller's limit, and fewer than MAX_BITS."""


def evaluate_expression(text: str, max_bits: int = MAX_BITS) -> Number:
    """The value of an expression, a Fraction when it is exact.

    Raises ExpressionRefused, and BitLimitExceeded beyond `max_bits`.
    """
    try:
        return _Evaluator(_tokenize(text), max_bits).evaluate()
    except (ZeroDivisionError, OverflowError, ValueError) as error:
        if isinstance(error, ExpressionRefused):
            raise
        raise ExpressionRefused(_describe_error(error)) from error


def evaluate_large(body: bytes) -> dict[str, str]:
    """Evaluate an expression in a process of its own: its formatted `value`, or why it is `refused`."""
    try:
        return {"value": format_number(evaluate_expression(body.decode()))}
    except ExpressionRefused as refused:
        return {"refused": str(refused)}


def _describe_error(error: ArithmeticError | ValueError) -> str:
    if isinstance(error, ZeroDivisionError):
        return "Nothing can be divided by zero."
    if isinstance(error, OverflowError):
        return "The result is too large to be worked out approximately."
    return f"{str(error).capitalize()}."


def _tokenize(text: str) -> list[str]:
    if len(text) > MAX_EXPRESSION_CHARS:
        raise ExpressionRefused(
            f"An expression has at most {MAX_EXPRESSION_CHARS} characters; work it out in parts."
        )
    rest = text.translate(SPELLINGS).strip().rstrip("=? \t\n")
    tokens = []
    position = 0
    while position < len(rest):
        match = TOKEN.match(rest, position)
        if match is None:
            unread = rest[position:].strip()[:20]
            raise ExpressionRefused(
                f"{unread!r} is not arithmetic; write numbers, + - * / // % ^ and functions."
            )
        tokens.append(match[0].strip())
        position = match.end()
    return tokens


class _Evaluator:
    """Reads tokens from left to right and computes on the way, by the precedence of operators."""

    def __init__(self, tokens: list[str], max_bits: int) -> None:
        self._tokens = tokens
        self._max_bits = max_bits
        self._position = 0
        self._depth = 0

    def evaluate(self) -> Number:
        value = self._evaluate_expression(0)
        if self._peek():
            hint = " Is an operator missing, such as *?"
            if self._peek() == ",":
                hint = " Write 1000, not 1,000."
            raise ExpressionRefused(f"{self._peek()!r} does not fit where it stands.{hint}")
        return value

    def _peek(self) -> str:
        if self._position < len(self._tokens):
            return self._tokens[self._position]
        return ""

    def _take(self, expected: str = "") -> str:
        word = self._peek()
        if not word or (expected and word != expected):
            position = f"before {word!r}" if word else "at the end"
            raise ExpressionRefused(f"{expected or 'A number'} is missing {position}.")
        self._position += 1
        return word

    def _evaluate_expression(self, min_precedence: int) -> Number:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise ExpressionRefused("The expression is nested too deep; work it out in parts.")
        value = self._evaluate_operand()
        while (binding := PRECEDENCE.get(self._peek(), -1)) >= min_precedence:
            value = self._evaluate_operator(value, binding)
        self._depth -= 1
        return value

    def _evaluate_operator(self, left: Number, precedence: int) -> Number:
        sign = self._take()
        start = self._position
        if sign == "!":
            if self._peek() == "!":
                raise ExpressionRefused("!! can be read in two ways; use factorial().")
            return self._call("factorial", [left])
        if sign == "%" and self._is_percent():
            return left / 100
        # A power is evaluated from the right: 2^3^2 is 2^9.
        min_precedence = precedence if precedence == POWER else precedence + 1
        right = self._evaluate_expression(min_precedence)
        if sign in "+-":
            self._refuse_ambiguous_percent(start)
        return self._apply(sign, left, right)

    def _is_percent(self) -> bool:
        """Whether the % just taken follows a number alone; before another number it is the remainder."""
        if self._peek() == "-":
            raise ExpressionRefused("% before a minus can be read in two ways: use mod(a, b), or a/100.")
        return self._peek() in ("", ")", ",") or self._peek() in PRECEDENCE

    def _refuse_ambiguous_percent(self, start: int) -> None:
        """`200 + 10%` is 220 to some and 200.1 to others; `5% + 10%` is clear."""
        right = self._tokens[start : self._position]
        previous = self._tokens[start - 2]
        if len(right) == 2 and right[1] == "%" and previous != "%":
            part = f"{right[0]}/100"
            raise ExpressionRefused(
                f"Adding {right[0]}% can be read in two ways: write * (1 + {part}), or + {part}."
            )

    def _evaluate_operand(self) -> Number:
        word = self._take()
        if word == "(":
            value = self._evaluate_expression(0)
            self._take(")")
            return value
        if word in ("-", "+"):
            value = self._evaluate_expression(SIGN)
            if word == "-":
                return -value
            return value
        if word == "√":
            return self._call("sqrt", [self._evaluate_expression(POWER)])
        if word[0].isdigit() or word[0] == ".":
            return self._parse_number(word)
        if not word[0].isalpha():
            raise ExpressionRefused(f"A number is missing before {word!r}.")
        return self._evaluate_name(word)

    def _parse_number(self, token: str) -> Fraction:
        _, _, exponent = token.lower().partition("e")
        self._check_bits(abs(int(exponent or 0)) * BITS_PER_DIGIT)
        return Fraction(token.replace("_", ""))

    def _evaluate_name(self, token: str) -> Number:
        name = token.lower()
        if self._peek() == "(" and name in FUNCTIONS:
            return self._call(name, self._evaluate_arguments())
        if name in CONSTANTS:
            return CONSTANTS[name]
        raise ExpressionRefused(
            f"{token!r} is not known here; there are pi, e and, with brackets, {', '.join(FUNCTIONS)}."
        )

    def _evaluate_arguments(self) -> list[Number]:
        self._take("(")
        values = [self._evaluate_expression(0)]
        while self._peek() == ",":
            self._take()
            values.append(self._evaluate_expression(0))
        self._take(")")
        return values

    def _call(self, name: str, values: list[Number]) -> Number:
        function = FUNCTIONS[name]
        if not function.min_args <= len(values) <= function.max_args:
            expected = "one number"
            if function.max_args > 1:
                expected = f"{function.min_args} or more numbers"
            raise ExpressionRefused(f"{name} takes {expected}, not {len(values)}.")
        self._check_bits(bits_of_call(name, values))
        return _require_real(function.apply(*values))

    def _apply(self, symbol: str, left: Number, right: Number) -> Number:
        if symbol in ("^", "**"):
            return _require_real(self._power(left, right))
        self._check_bits(bits_of_operation(symbol, left, right))
        return _require_real(OPERATIONS[symbol](left, right))

    def _power(self, base: Number, exponent: Number) -> Number | complex:
        if isinstance(base, float) or isinstance(exponent, float) or exponent.denominator > 64:
            power: float | complex = float(base) ** float(exponent)
            return power
        self._check_bits(bits_of_power(base, exponent))
        root: Fraction | float = base
        if exponent.denominator != 1:
            root = real_root(base, exponent.denominator)
        return root**exponent.numerator

    def _check_bits(self, bits: float) -> None:
        """Refuse before a number of so many bits is built."""
        if bits > MAX_BITS:
            digits = int(MAX_BITS / BITS_PER_DIGIT)
            raise ExpressionRefused(
                f"A number on the way has more than {digits:,} digits; that is not worked out."
            )
        if bits > self._max_bits:
            raise BitLimitExceeded


OPERATIONS: Mapping[str, Callable[[Number, Number], Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "of": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}


def _require_real(value: Number | complex) -> Number:
    if isinstance(value, complex):
        raise ExpressionRefused("The result is not a real number.")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise OverflowError
        return value
    return Fraction(value)
