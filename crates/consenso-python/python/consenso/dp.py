"""Differential privacy alone: exact noise on arrays, what releases cost, how much noise a budget needs, what an ε means.

Nothing here knows of graphs, records or models: it is what the Rust crate ``consenso-dp`` does, for other people's
programs. Every ε is an upper bound, rounded up. :mod:`consenso.dp_accounting` has the class names of Google's
``dp-accounting``, to switch by an import.

>>> from consenso import dp
>>> dp.Accountant(delta=1e-6).laplace(0.01, count=1400).epsilon() < 1.64
True
>>> dp.gaussian([0.5, 0.25], sigma=2.0).shape
(2,)
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from . import noise as _noise
from ._budget import BudgetAccountant, BudgetSpent
from ._cli import cli
from ._core import InputError
from .accounting import Accountant, calibrate, compose

__all__ = [
    "Accountant", "BudgetAccountant", "BudgetSpent", "InputError", "calibrate", "compose", "delta", "explain", "gaussian",
    "laplace", "roc",
]


def laplace(values: npt.ArrayLike, scale: float, *, seed: Optional[int] = None) -> npt.NDArray[Any]:
    """Return ``values`` with exact Laplace noise of this scale; float32 arrays come back as float32.

    Noise is added in float64 on a public grid; rounding the sum to float32 is a function of what was released, so
    that ε stays what it was. See :func:`consenso.noise.laplace`.
    """
    return _like(values, _noise.laplace(values, scale, seed=seed))


def gaussian(values: npt.ArrayLike, sigma: float, *, seed: Optional[int] = None) -> npt.NDArray[Any]:
    """Return ``values`` with exact Gaussian noise; float32 arrays come back as float32, as with :func:`laplace`."""
    return _like(values, _noise.gaussian(values, sigma, seed=seed))


def _like(values: npt.ArrayLike, released: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    kind = getattr(values, "dtype", None)
    return released.astype(np.float32) if kind == np.float32 else released


def delta(events: list[dict[str, Any]], epsilon: float) -> float:
    """The smallest δ, rounded up to about four digits, at which releases cost at most ``epsilon`` together.

    1.0 where none below 1 does.
    """
    def fits(log_delta: float) -> bool:
        best = compose(events, 10.0**log_delta)["best"]
        return best is not None and bool(best["epsilon"] <= epsilon)

    low, high = -300.0, -1e-9
    if not fits(high):
        return 1.0
    while high - low > 2e-5:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return float(10.0**high)


def explain(epsilon: float, delta: float = 0.0) -> dict[str, Any]:
    """What an ε means: as odds, for two guesses, and for somebody who looks for members, as ``consenso privacy explain``.

    Under ``gaussian`` stands what Gaussian noise with this claim allows, which is less, with the ``curve`` of the best
    attacker; ``beyond_odds`` there is the chance that odds grow beyond e^ε, which is not δ.
    """
    found: dict[str, Any] = cli("privacy", "explain", "--epsilon", repr(float(epsilon)), "--delta", repr(float(delta)))
    return found


def roc(epsilon: float, delta: float = 0.0, ax: Any = None) -> Any:
    """Draw the best attacker: the share of members found against the share of others accused wrongly.

    Returns the axes of matplotlib (``pip install matplotlib``).
    """
    import matplotlib.pyplot as plt

    found = explain(epsilon, delta)
    axes = plt.subplots()[1] if ax is None else ax
    shares = np.linspace(0.0, 1.0, 201)
    odds = float(found["odds"])
    any_mechanism = np.minimum.reduce([odds * shares + delta, 1 - (1 - delta - shares) / odds, np.ones_like(shares)])
    axes.plot(shares, np.maximum(any_mechanism, shares), label="any mechanism")
    if found["gaussian"] is not None:
        points = [(point["false_alarms"], point["detected_at_most"]) for point in found["gaussian"]["curve"]]
        axes.plot(*zip(*points), label="Gaussian noise")
    axes.plot([0, 1], [0, 1], "k:", label="a coin")
    axes.set(xlabel="others accused wrongly", ylabel="members found", title=f"ε = {epsilon:g}, δ = {delta:g}")
    axes.legend()
    return axes
