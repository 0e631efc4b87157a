"""Numbers as people read them."""

from __future__ import annotations

import decimal


def round_up(value: float, digits: int) -> str:
    """Write a number in so many digits, never below what it is: a printed ε must not promise more than the claim."""
    context = decimal.Context(prec=digits, rounding=decimal.ROUND_CEILING)
    return f"{context.create_decimal_from_float(value).normalize(context):g}" if abs(value) < 1e300 else str(value)
