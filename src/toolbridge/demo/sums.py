"""Parses and calculates small arithmetic expressions, without `eval`."""

import math
import re

_TOKEN = re.compile(r"\s*(?:(\d{1,15}(?:\.\d{1,15})?)|(.))", re.DOTALL)
_WORDS = {"plus": "+", "minus": "-", "times": "*", "multiplied by": "*", "divided by": "/", "x": "*",
          "\u00d7": "*", "\u00f7": "/"}  # fmt: skip
_ASKED = re.compile(
    r"(?:what is|what's|calculate|compute|how much is|evaluate|solve)?:?\s{0,3}"
    r"([-+(\d][-\d\s.+*/()^%]{0,200})[=?.!\s]{0,5}",
    re.IGNORECASE,
)
_MOST = 1e15
_DEEPEST = 20


def maybe_sum(words: str) -> str | None:
    """Return the expression in `words` with its value, or None."""
    text = words.strip()[:300]
    for word, sign in _WORDS.items():
        text = re.sub(rf"(?<=[\d)]) ?{word} ?(?=[\d(-])", f" {sign} ", text, flags=re.IGNORECASE)
    asked = _ASKED.fullmatch(text)
    if asked is None or not re.search(r"\d\s?[-+*/^%)]", asked[1]):
        return None
    formula = asked[1].strip().rstrip(".")
    try:
        value = _Reader(formula).whole()
    except ZeroDivisionError:
        return f"{formula} has no value: it divides by zero."
    except (ValueError, OverflowError):
        return None
    return f"{formula} = {_written(value)}"


def _written(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.10g}"


class _Reader:
    """A recursive-descent parser: sums of products of powers."""

    def __init__(self, formula: str) -> None:
        formula = formula.replace("**", "^")
        self._tokens = [m[1] or m[2] for m in _TOKEN.finditer(formula) if (m[1] or m[2]).strip()]
        self._at = 0
        self._depth = 0

    def whole(self) -> float:
        value = self._sum()
        if self._at < len(self._tokens):
            raise ValueError("something is left over")
        return value

    def _next(self, signs: str) -> str:
        """Consume the next character if it is one of `signs`."""
        if self._at < len(self._tokens) and self._tokens[self._at] in signs:
            self._at += 1
            return self._tokens[self._at - 1]
        return ""

    def _sum(self) -> float:
        value = self._product()
        while sign := self._next("+-"):
            other = self._product()
            value = value + other if sign == "+" else value - other
        return value

    def _product(self) -> float:
        value = self._power()
        while sign := self._next("*/%"):
            other = self._power()
            if sign == "*":
                value = _checked(value * other)
            else:
                value = value / other if sign == "/" else value % other
        return value

    def _power(self) -> float:
        value = self._atom()
        if not self._next("^"):
            return value
        exponent = self._power_of()
        if abs(exponent) > 64 or abs(value) > 1e6:
            raise ValueError("too large")
        return _checked(math.pow(value, exponent))

    def _power_of(self) -> float:
        self._enter()
        value = self._power()
        self._depth -= 1
        return value

    def _atom(self) -> float:
        if sign := self._next("+-"):
            self._enter()
            value = self._power()
            self._depth -= 1
            return -value if sign == "-" else value
        if self._next("("):
            self._enter()
            value = self._sum()
            self._depth -= 1
            if not self._next(")"):
                raise ValueError("a bracket stays open")
            return value
        if self._at >= len(self._tokens):
            raise ValueError("a number is missing")
        self._at += 1
        return float(self._tokens[self._at - 1])

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("too deep")


def _checked(value: float) -> float:
    if abs(value) > _MOST:
        raise ValueError("too large")
    return value
