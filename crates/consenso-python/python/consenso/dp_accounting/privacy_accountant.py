"""Accountants under dp-accounting's names."""

from __future__ import annotations

import enum
import math
from typing import Any, TypeVar

from .. import dp
from .dp_event import (
    ComposedDpEvent, DpEvent, GaussianDpEvent, LaplaceDpEvent, NonPrivateDpEvent, NoOpDpEvent, PoissonSampledDpEvent,
    SelfComposedDpEvent, ZCDpEvent,
)
from .dp_event_builder import DpEventBuilder


class NeighboringRelation(enum.Enum):
    """How two sets of records differ in one record."""

    ADD_OR_REMOVE_ONE = 1
    REPLACE_ONE = 2
    REPLACE_SPECIAL = 3


class UnsupportedEventError(Exception):
    """No accountant here covers the event."""


def _noise(event: DpEvent, count: int) -> dict[str, Any]:
    """One kind of noise as :func:`consenso.dp.compose` takes it; without noise nothing is protected."""
    if isinstance(event, (GaussianDpEvent, LaplaceDpEvent)):
        multiplier = float(event.noise_multiplier)
        if not multiplier >= 0:
            raise ValueError(f"{event}: a noise multiplier must be a number, 0 or more")
        # Rounded up: the quotient may be a little below the true one.
        size = math.nextafter(1.0 / multiplier, math.inf) if multiplier > 0 else math.inf
        if isinstance(event, GaussianDpEvent):
            return {"mechanism": "gaussian", "mu": size, "count": count}
        return {"mechanism": "laplace", "epsilon": size, "count": count}
    if isinstance(event, ZCDpEvent) and event.xi == 0:
        return {"mechanism": "zcdp", "rho": float(event.rho), "count": count}
    raise UnsupportedEventError(f"{event}: not covered; see consenso.dp.compose for what is")


def _flat(event: DpEvent, count: int, replaces: bool) -> list[dict[str, Any]]:
    """An event as a list of kinds of noise; an infinite size is of something that is not protected."""
    if int(count) != count or count < 0:
        raise ValueError(f"count={count!r} must be a whole number, 0 or more")
    if isinstance(event, NoOpDpEvent) or count == 0:
        return []
    if isinstance(event, SelfComposedDpEvent):
        return _flat(event.event, int(count) * event.count, replaces)
    if isinstance(event, ComposedDpEvent):
        return [one for inner in event.events for one in _flat(inner, count, replaces)]
    if isinstance(event, NonPrivateDpEvent):
        return [{"mechanism": "pure", "epsilon": math.inf, "count": int(count)}]
    if isinstance(event, PoissonSampledDpEvent) and isinstance(event.event, (GaussianDpEvent, LaplaceDpEvent)):
        probability = float(event.sampling_probability)
        if not 0 <= probability <= 1:
            raise ValueError(f"sampling_probability={event.sampling_probability!r} must lie between 0 and 1")
        if replaces:
            raise UnsupportedEventError(
                f"{event}: sampled releases are covered for records that are added or removed; see consenso.dp.compose"
            )
        return [] if probability == 0 else [{**_noise(event.event, int(count)), "sampling": probability}]
    return [_noise(event, int(count))]


_Self = TypeVar("_Self", bound="PrivacyAccountant")


class PrivacyAccountant:
    """Adds up events that were decided in advance; every valid method is tried and the best one answers."""

    def __init__(self, neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE) -> None:
        # By its name, so that dp-accounting's own relations serve as well.
        name = getattr(neighboring_relation, "name", None)
        if name not in NeighboringRelation.__members__:
            raise ValueError(f"neighboring_relation={neighboring_relation!r} is none of {', '.join(NeighboringRelation.__members__)}")
        self._neighboring_relation = neighboring_relation
        self._events: list[dict[str, Any]] = []
        self._bare = False
        self._ledger = DpEventBuilder()

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """What it takes for neighbouring records."""
        return self._neighboring_relation

    def supports(self, event: DpEvent) -> bool:
        """Whether the event can be added."""
        try:
            self._covered(event, 1)
        except UnsupportedEventError:
            return False
        return True

    def compose(self: _Self, event: DpEvent, count: int = 1) -> _Self:
        """Add an event ``count`` times; one that is not covered is refused and adds nothing."""
        if not isinstance(event, DpEvent):
            raise TypeError(f"{event!r} is no DpEvent")
        found = self._covered(event, count)
        if found:
            self._ledger.compose(event, count)
        self._bare |= any(math.inf in one.values() for one in found)
        self._events += found
        return self

    def _covered(self, event: DpEvent, count: int) -> list[dict[str, Any]]:
        return _flat(event, count, self._neighboring_relation.name == "REPLACE_ONE")

    @property
    def ledger(self) -> DpEvent:
        """What was composed."""
        return self._ledger.build()

    def get_epsilon(self, target_delta: float) -> float:
        """ε at a δ; infinite where no method has one."""
        if self._bare:
            return math.inf
        if not self._events:
            return 0.0
        best = dp.compose(self._events, target_delta)["best"]
        return math.inf if best is None else float(best["epsilon"])

    def get_delta(self, target_epsilon: float) -> float:
        """δ at an ε, rounded up to about four digits."""
        if self._bare:
            return 1.0
        return dp.delta(self._events, target_epsilon) if self._events else 0.0
