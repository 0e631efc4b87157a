"""Privacy accounting alone: what releases cost together, and how much noise a budget needs.

Every ε that comes back is an upper bound, rounded up.
"""

from __future__ import annotations

import json
from typing import Any, Mapping, Optional, Sequence

from . import _core
from ._core import InputError
from ._format import round_up

__all__ = ["Accountant", "calibrate", "compose", "gamma", "loss", "renyi"]


def compose(events: Sequence[Mapping[str, Any]], delta: float) -> dict[str, Any]:
    """What releases cost together, by every method that is valid for them.

    Parameters
    ----------
    events : sequence of mappings
        Such as ``{"mechanism": "laplace", "epsilon": 0.01, "count": 1400}`` (ε = l1 sensitivity over scale) or
        ``{"mechanism": "gaussian", "mu": 0.02, "count": 1000}`` (μ = l2 sensitivity over σ). With ``"sampling": q`` a release
        is a sum over a secret sample that every record is in with probability q; sensitivities are those of adding a record
        that is drawn, or of replacing it with ``"neighbours": "replace-one"`` (contributions are half as long then).
    delta : float
        δ of every method but ``pure``.

    Returns
    -------
    dict
        ε by method (``None`` where a method is not valid), and ``best`` with ``method``, ``epsilon`` and ``theorem``.
    """
    found: dict[str, Any] = json.loads(_core.compose(json.dumps(list(map(dict, events))), float(delta)))
    return found


def calibrate(
    epsilon: float,
    delta: float,
    rounds: int,
    dim: int,
    *,
    sensitivity_l1: Optional[float] = None,
    sensitivity_l2: Optional[float] = None,
    sensitivity_linf: Optional[float] = None,
    mechanism: Optional[str] = None,
    sampling: Optional[float] = None,
    neighbours: str = "add-remove",
) -> dict[str, Any]:
    """The least noise that keeps ``rounds`` releases of ``dim`` numbers within (ε, δ).

    Give at least one sensitivity: how far one record can move the released step in that norm. ``mechanism`` is
    ``"laplace"``, ``"gaussian"`` or ``None`` for whichever has less variance. ``sampling`` is the secret probability with
    which every record is drawn for a round; sensitivities are those of a round that has drawn it, between ``neighbours``
    (``"add-remove"``, ``"replace-one"`` or ``"zero-out"``).

    Returns
    -------
    dict
        ``mechanism``, ``multiplier`` (the scale, or σ), ``schedule`` and ``spent``.
    """
    for name, value in (("rounds", rounds), ("dim", dim)):
        if not (isinstance(value, int) and 1 <= value < 2**32):
            raise InputError(f"{name}={value!r} must be a whole number of at least 1")
    text = _core.calibrate(
        float(epsilon), float(delta), rounds, dim, sensitivity_l1, sensitivity_l2, sensitivity_linf, mechanism, sampling, neighbours
    )
    found: dict[str, Any] = json.loads(text)
    return found


def gamma(omega: float, beta: float, shift: float) -> dict[str, Optional[float]]:
    """How much a random weight amplifies privacy: ``exact``, ``printed`` (the paper's formula) and a valid ``bound``."""
    exact, printed, bound = _core.gamma(omega, beta, shift)
    return {"exact": exact, "printed": printed, "bound": bound}


def loss(omega: float, beta: float, shift: float, x: float) -> dict[str, float]:
    """The ``loss`` of one released value, beside the ``worst`` case. It depends on private data: its owner's to see."""
    realised, worst = _core.loss(omega, beta, shift, x)
    return {"loss": realised, "worst": worst}


def renyi(omega: float, beta: float, shift: float, order: float) -> float:
    """The Rényi cost of one released coordinate at an order above 1, worst over shifts."""
    return _core.renyi(omega, beta, shift, order)


def _drawn(sampling: Optional[float], neighbours: str) -> dict[str, Any]:
    return {} if sampling is None else {"sampling": sampling, "neighbours": neighbours}


class Accountant:
    """Collects releases that were decided in advance and says what they cost together.

    Examples
    --------
    >>> from consenso.accounting import Accountant
    >>> accountant = Accountant(delta=1e-6).laplace(0.01, count=1400).gaussian(0.02, count=1000)
    >>> accountant.epsilon() < 3.5
    True
    """

    def __init__(self, delta: float) -> None:
        self.delta = float(delta)
        self.events: list[dict[str, Any]] = []

    def laplace(
        self, epsilon: float, count: int = 1, *, sampling: Optional[float] = None, neighbours: str = "add-remove"
    ) -> "Accountant":
        """Add Laplace releases; ``epsilon`` is the l1 sensitivity over the scale. For ``sampling`` see :func:`compose`."""
        return self._add(mechanism="laplace", epsilon=epsilon, count=count, **_drawn(sampling, neighbours))

    def gaussian(
        self, mu: float, count: int = 1, *, sampling: Optional[float] = None, neighbours: str = "add-remove"
    ) -> "Accountant":
        """Add Gaussian releases; ``mu`` is the l2 sensitivity over σ. For ``sampling`` see :func:`compose`."""
        return self._add(mechanism="gaussian", mu=mu, count=count, **_drawn(sampling, neighbours))

    def pure(self, epsilon: float, count: int = 1) -> "Accountant":
        """Add releases of any kind that are ε-differentially private."""
        return self._add(mechanism="pure", epsilon=epsilon, count=count)

    def _add(self, **event: Any) -> "Accountant":
        self.events.append(event)
        return self

    def bounds(self) -> dict[str, Any]:
        """ε by every method; see :func:`compose`."""
        return compose(self.events, self.delta)

    def epsilon(self) -> float:
        """The smallest certified ε at the accountant's δ; 0 where nothing was released."""
        if not self.events:
            return 0.0
        best = self.bounds()["best"]
        if best is None:
            raise InputError("no method covers these releases")
        return float(best["epsilon"])

    def explain(self, epsilon: Optional[float] = None) -> str:
        """Say in words what was released, what each method makes of it, and whether it keeps to a budget."""
        if not self.events:
            return "nothing was released: ε = 0"
        found = self.bounds()
        lines = [f"{e.get('count', 1)} × {e['mechanism']}" for e in self.events]
        for method, value in found.items():
            if isinstance(value, (int, float)) and method != "delta":
                lines.append(f"  {method:9} ε = {round_up(value, 6)}")
        best = found["best"]
        if best is not None:
            lines.append(f"certified: ε = {round_up(best['epsilon'], 6)} at δ = {self.delta:g} ({best['theorem']})")
            if epsilon is not None:
                verdict = "is kept" if best["epsilon"] <= epsilon else "is NOT kept"
                lines.append(f"a budget of ε = {epsilon:g} {verdict}")
        return "\n".join(lines)
