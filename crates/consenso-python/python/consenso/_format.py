"""Numbers as people read them."""

from __future__ import annotations

import decimal


def round_up(value: float, digits: int) -> str:
    """Write a number in so many digits, never below what it is: a printed ε must not promise more than the claim."""
    if not abs(value) < 1e300:
        return str(value)
    context = decimal.Context(prec=digits, rounding=decimal.ROUND_CEILING)
    return plain(context.create_decimal_from_float(value).normalize(context))


def plain(number: decimal.Decimal) -> str:
    """A number as people write it: 10 and not 1e+1; very large and very small ones keep their exponent."""
    if number == 0:
        return "0"
    return f"{number:f}" if -5 <= number.adjusted() < 15 else f"{number:g}"
