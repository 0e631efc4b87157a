"""The parameter that keeps a budget, under its name there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional

from .dp_event import DpEvent, NoOpDpEvent
from .privacy_accountant import PrivacyAccountant


class BracketInterval:
    """Where the answer lies."""


@dataclass(frozen=True)
class ExplicitBracketInterval(BracketInterval):
    """Ends between which the answer lies."""

    endpoint_1: float
    endpoint_2: float


@dataclass(frozen=True)
class LowerEndpointAndGuess(BracketInterval):
    """A lower end and a guess of the answer above it."""

    lower_endpoint: float
    initial_guess: float


class NoBracketIntervalFoundError(Exception):
    """No parameter up to 2³⁰ times the guess is on the other side of the budget."""


class NonEmptyAccountantError(Exception):
    """A fresh accountant had something in it."""


def _bracket(interval: LowerEndpointAndGuess, keeps: Callable[[float], bool]) -> tuple[float, float]:
    low, high = interval.lower_endpoint, interval.initial_guess
    if not low < high:
        raise ValueError(f"{interval}: the lower end must be below the guess")
    below, gap = keeps(low), high - low
    for _ in range(31):
        if keeps(high) != below:
            return low, high
        gap *= 2
        low, high = high, high + gap
    raise NoBracketIntervalFoundError(f"{interval}: no parameter up to {high} is on the other side of the budget")


def calibrate_dp_mechanism(
    make_fresh_accountant: Callable[[], PrivacyAccountant],
    make_event_from_param: Callable[[Any], DpEvent],
    target_epsilon: float,
    target_delta: float,
    bracket_interval: Optional[BracketInterval] = None,
    discrete: bool = False,
    tol: Optional[float] = None,
) -> float:
    """The parameter next to the end of a budget: always one that keeps it.

    More of the parameter may mean more privacy (a noise multiplier) or less (a number of steps). With ``discrete`` it
    is a whole number.
    """
    if tol is not None and not tol > 0:
        raise ValueError(f"tol={tol!r} must be above 0")

    def keeps(value: float) -> bool:
        accountant = make_fresh_accountant()
        if not isinstance(accountant.ledger, NoOpDpEvent):
            raise NonEmptyAccountantError("make_fresh_accountant made an accountant with events in it")
        event = make_event_from_param(round(value) if discrete else value)
        return accountant.compose(event).get_epsilon(target_delta) <= target_epsilon

    interval = bracket_interval or LowerEndpointAndGuess(0, 1)
    if isinstance(interval, LowerEndpointAndGuess):
        low, high = _bracket(interval, keeps)
    elif isinstance(interval, ExplicitBracketInterval):
        low, high = sorted((interval.endpoint_1, interval.endpoint_2))
    else:
        raise TypeError(f"{interval!r} is no interval")
    low, high = (round(low), round(high)) if discrete else (low, high)
    below, above = keeps(low), keeps(high)
    if below == above:
        raise ValueError(f"both ends of {interval} {'keep' if above else 'exceed'} ε = {target_epsilon} at δ = {target_delta}")
    width = max(1.0, tol or 1.0) if discrete else tol or 1e-6
    while high - low > width:
        middle = (low + high) // 2 if discrete else (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if keeps(middle) == below else (low, middle)
    return low if below else high
