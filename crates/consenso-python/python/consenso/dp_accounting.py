"""The class names of Google's ``dp-accounting`` over this package's accountants, so that one can switch by an import.

``from consenso import dp_accounting`` in place of ``import dp_accounting``. Events of Laplace and Gaussian noise, of
nothing, and their compositions are covered; whatever is not is refused (:class:`UnsupportedEventError`), never guessed.
Noise multipliers are scales over sensitivity, as there. ε is rounded up.

>>> from consenso.dp_accounting import GaussianDpEvent, SelfComposedDpEvent, pld
>>> accountant = pld.PLDAccountant()
>>> _ = accountant.compose(SelfComposedDpEvent(GaussianDpEvent(50.0), 1000))
>>> round(accountant.get_epsilon(1e-6), 2)
2.92
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Callable, Optional, Union

from . import dp

__all__ = [
    "ComposedDpEvent", "DpEvent", "DpEventBuilder", "ExplicitBracketInterval", "GaussianDpEvent", "LaplaceDpEvent",
    "LowerEndpointAndGuess", "NoOpDpEvent", "NonPrivateDpEvent", "PoissonSampledDpEvent", "SelfComposedDpEvent",
    "UnsupportedEventError", "calibrate_dp_mechanism", "pld", "rdp",
]


class UnsupportedEventError(Exception):
    """No accountant here covers the event."""


class DpEvent:
    """What was released."""


@dataclass(frozen=True)
class NoOpDpEvent(DpEvent):
    """Nothing was released."""


@dataclass(frozen=True)
class NonPrivateDpEvent(DpEvent):
    """Something was released without protection."""


@dataclass(frozen=True)
class GaussianDpEvent(DpEvent):
    """Gaussian noise; σ over the l2 sensitivity."""

    noise_multiplier: float


@dataclass(frozen=True)
class LaplaceDpEvent(DpEvent):
    """Laplace noise; the scale over the l1 sensitivity."""

    noise_multiplier: float


@dataclass(frozen=True)
class PoissonSampledDpEvent(DpEvent):
    """Laplace or Gaussian noise on a sum over a secret sample, which every record is in with this probability.

    For records that are added or removed; accountants of another ``neighboring_relation`` refuse it.
    """

    sampling_probability: float
    event: DpEvent


@dataclass(frozen=True)
class SelfComposedDpEvent(DpEvent):
    """The same event several times."""

    event: DpEvent
    count: int


@dataclass(frozen=True)
class ComposedDpEvent(DpEvent):
    """Several events."""

    events: list[DpEvent] = field(default_factory=list)


class DpEventBuilder:
    """Collects events."""

    def __init__(self) -> None:
        self._events: list[DpEvent] = []

    def compose(self, event: DpEvent, count: int = 1) -> None:
        """Add an event ``count`` times."""
        self._events.append(SelfComposedDpEvent(event, count))

    def build(self) -> DpEvent:
        """All events together."""
        return ComposedDpEvent(list(self._events))


def _flat(event: DpEvent, count: int) -> list[dict[str, Any]]:
    if count < 1 or int(count) != count:
        raise ValueError(f"count={count!r} must be a whole number of at least 1")
    if isinstance(event, NoOpDpEvent):
        return []
    if isinstance(event, SelfComposedDpEvent):
        return _flat(event.event, count * event.count)
    if isinstance(event, ComposedDpEvent):
        return [one for inner in event.events for one in _flat(inner, count)]
    if isinstance(event, (GaussianDpEvent, LaplaceDpEvent)):
        multiplier = float(event.noise_multiplier)
        if not multiplier > 0:
            raise UnsupportedEventError(f"{event}: without noise nothing is protected")
        # Rounded up: the quotient may be a little below the true one.
        size = math.nextafter(1.0 / multiplier, math.inf)
        if isinstance(event, GaussianDpEvent):
            return [{"mechanism": "gaussian", "mu": size, "count": count}]
        return [{"mechanism": "laplace", "epsilon": size, "count": count}]
    if isinstance(event, PoissonSampledDpEvent) and isinstance(event.event, (GaussianDpEvent, LaplaceDpEvent)):
        if not 0 <= event.sampling_probability <= 1:
            raise ValueError(f"sampling_probability={event.sampling_probability!r} must lie between 0 and 1")
        return [{**one, "sampling": float(event.sampling_probability)} for one in _flat(event.event, count)]
    raise UnsupportedEventError(f"{event}: not covered; see consenso.dp.compose for what is")


class PrivacyAccountant:
    """Adds up events that were decided in advance; every valid method is tried and the best one answers."""

    def __init__(self, *options: Any, **named: Any) -> None:
        # A sampled release costs otherwise where a record is replaced; all else is the same under every relation.
        replaces = [o for o in (*options, *named.values()) if "REPLACE_ONE" in str(o)]
        self._adds = not replaces
        self._events: list[dict[str, Any]] = []
        self._composed: list[tuple[DpEvent, int]] = []

    def supports(self, event: DpEvent) -> bool:
        """Whether the event can be added."""
        try:
            self._covered(event, 1)
        except UnsupportedEventError:
            return False
        return True

    def compose(self, event: DpEvent, count: int = 1) -> "PrivacyAccountant":
        """Add an event ``count`` times; one that is not covered is refused and adds nothing."""
        self._events += self._covered(event, count)
        self._composed.append((event, count))
        return self

    def _covered(self, event: DpEvent, count: int) -> list[dict[str, Any]]:
        found = _flat(event, count)
        if not self._adds and any("sampling" in one for one in found):
            raise UnsupportedEventError(f"{event}: sampled releases are covered for records that are added or removed; see consenso.dp.compose")
        return found

    @property
    def ledger(self) -> DpEvent:
        """What was composed."""
        return ComposedDpEvent([SelfComposedDpEvent(event, count) for event, count in self._composed])

    def get_epsilon(self, target_delta: float) -> float:
        """ε at a δ."""
        if not self._events:
            return 0.0
        best = dp.compose(self._events, target_delta)["best"]
        return math.inf if best is None else float(best["epsilon"])

    def get_delta(self, target_epsilon: float) -> float:
        """δ at an ε, rounded up to about four digits."""
        return dp.delta(self._events, target_epsilon) if self._events else 0.0


class PLDAccountant(PrivacyAccountant):
    """Named as there; the discretisation is not needed for these events and not looked at."""


class RdpAccountant(PrivacyAccountant):
    """Named as there; the best valid method answers, which is never above Rényi's."""


pld = SimpleNamespace(PLDAccountant=PLDAccountant)
rdp = SimpleNamespace(RdpAccountant=RdpAccountant)


@dataclass(frozen=True)
class ExplicitBracketInterval:
    """Ends between which the answer lies."""

    endpoint_1: float
    endpoint_2: float


@dataclass(frozen=True)
class LowerEndpointAndGuess:
    """A lower end and a guess of the answer above it."""

    lower_endpoint: float
    initial_guess: float


Bracket = Union[ExplicitBracketInterval, LowerEndpointAndGuess]


def calibrate_dp_mechanism(
    make_fresh_accountant: Callable[[], PrivacyAccountant],
    make_event_from_param: Callable[[float], DpEvent],
    target_epsilon: float,
    target_delta: float,
    bracket_interval: Optional[Bracket] = None,
    tol: Optional[float] = None,
) -> float:
    """The least parameter, more of which means more privacy, that keeps a budget: always one that keeps it."""
    def keeps(value: float) -> bool:
        return make_fresh_accountant().compose(make_event_from_param(value)).get_epsilon(target_delta) <= target_epsilon

    bracket = bracket_interval or LowerEndpointAndGuess(0.0, 1.0)
    if isinstance(bracket, ExplicitBracketInterval):
        low, high = sorted((bracket.endpoint_1, bracket.endpoint_2))
        if not keeps(high):
            raise ValueError(f"no parameter up to {high} keeps ε = {target_epsilon} at δ = {target_delta}")
    else:
        low, high = bracket.lower_endpoint, bracket.initial_guess
        while not keeps(high):
            low, high = high, 2 * high
            if high > 1e12:
                raise ValueError(f"no parameter keeps ε = {target_epsilon} at δ = {target_delta}")
    width = 1e-6 if tol is None else tol
    while high - low > width * max(1.0, high if tol is None else 1.0):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high
