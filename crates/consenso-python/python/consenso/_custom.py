"""Any differentiable model: a callable gives the gradient of every record, and the gate clips, adds up, noises and charges."""

from __future__ import annotations

import json
import math
import numbers
from contextlib import nullcontext
from typing import Any, Callable, Optional, Sequence

import numpy as np
import numpy.typing as npt

from . import _core
from ._budget import BudgetAccountant, accountants, marked, refuse_elsewhere
from ._core import InputError
from ._progress import progress_of
from ._sites import by_site

__all__ = ["CustomFit", "CustomProblem"]

Floats = npt.NDArray[np.float64]


class CustomFit:
    """What :meth:`CustomProblem.fit` found.

    Attributes
    ----------
    model_ : ndarray
        The parameters; all sites have the same, for all that they exchange is noised sums which everybody gets.
    claim_ : dict or None
        What is claimed about every site's records: ``epsilon``, ``delta``, ``method``, ``neighbours``, ``adversary``, ``sampler``, ``transcripts``,
        ``sigma`` (of the noise on a site's sum, in units of ``clip``).
    rounds_ : int
        How many sums every site released.
    """

    def __init__(self, model: Floats, claim: Optional[dict[str, Any]], rounds: int) -> None:
        self.model_, self.claim_, self.rounds_ = model, claim, rounds

    def __repr__(self) -> str:
        claim = "no privacy" if self.claim_ is None else f"ε={self.claim_['epsilon']:g}, δ={self.claim_['delta']:g}"
        return f"CustomFit({len(self.model_)} parameters, {self.rounds_} rounds, {claim})"


class CustomProblem:
    """A model of one's own, trained by several sites under local differential privacy.

    Every round each site computes the gradients of its records, the gate shortens those longer than ``clip``, adds them up, adds exact Gaussian
    noise and charges the release; everybody gets all sums and makes the same step. It is slower than the built-in models, for the
    gradients come from Python, and the claim is the same: every other site may collude and see every sum.

    Parameters
    ----------
    per_record_gradients : callable
        ``f(x, X, y)`` returns an array of shape (records, dim): a gradient for each record at the parameters ``x``. numpy, or whatever numpy
        can read (torch through ``vmap``, JAX).
    dim : int
        How many parameters there are.
    clip : float
        Length beyond which a record's gradient is shortened: what one record can do.

    Examples
    --------
    >>> import numpy as np, consenso
    >>> def gradients(x, X, y):
    ...     return (X @ x - y)[:, None] * X
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2)); y = X @ [1.0, -2.0]
    >>> fit = consenso.CustomProblem(gradients, dim=2, clip=1.0).fit(X, y, sites=np.arange(4000) % 4, epsilon=2.0, random_state=1)
    >>> bool(np.abs(fit.model_ - [1.0, -2.0]).max() < 0.3)
    True
    """

    def __init__(self, per_record_gradients: Callable[[Floats, Any, Any], Any], dim: int, clip: float) -> None:
        if not callable(per_record_gradients):
            raise InputError("per_record_gradients must be callable: f(x, X, y)")
        if not isinstance(dim, numbers.Integral) or dim < 1:
            raise InputError(f"dim={dim!r} must be a whole number from 1")
        if not (isinstance(clip, numbers.Real) and math.isfinite(float(clip)) and float(clip) > 0):
            raise InputError(f"clip={clip!r} must be a positive number")
        self.per_record_gradients = per_record_gradients
        self.dim = int(dim)
        self.clip = float(clip)

    def __getstate__(self) -> dict[str, Any]:
        return marked(dict(self.__dict__))

    def fit(
        self,
        X: Any,
        y: Any,
        sites: Any = None,
        *,
        epsilon: Optional[float] = 1.0,
        delta: float = 1e-6,
        rounds: int = 100,
        learning_rate: float = 0.05,
        start: Optional[Sequence[float]] = None,
        accountant: Optional[BudgetAccountant] = None,
        random_state: Optional[int] = None,
        progress: Optional[bool] = None,
    ) -> CustomFit:
        """Train; ``sites`` names the site of every record, one site by default.

        Steps are Adam's on the noised mean gradient, which is post-processing: ``learning_rate`` is its α. The number of records
        of each site counts as public. ``progress`` shows how far it is; by default in a terminal and in a notebook.
        """
        X, y = np.asarray(X), np.asarray(y)
        if len(X) != len(y) or len(X) == 0:
            raise InputError(f"X has {len(X)} records and y {len(y)}; both need the same number, at least one")
        if not isinstance(rounds, numbers.Integral) or rounds < 1:
            raise InputError(f"rounds={rounds!r} must be a whole number from 1")
        if not (isinstance(learning_rate, numbers.Real) and math.isfinite(float(learning_rate)) and float(learning_rate) > 0):
            raise InputError(f"learning_rate={learning_rate!r} must be a positive number")
        order, counts, _ = by_site(sites, len(X))
        places = np.split(np.arange(len(X)) if order is None else order, np.cumsum(counts)[:-1])
        x = np.zeros(self.dim) if start is None else np.array(start, dtype=np.float64)
        if x.shape != (self.dim,):
            raise InputError(f"start has shape {x.shape}, not ({self.dim},)")
        gates = [
            _core.Gate(epsilon, delta, int(rounds), self.dim, self.clip, len(place), random_state, index)
            for index, place in enumerate(places)
        ]
        if epsilon is not None:
            refuse_elsewhere(self)
            for charged in accountants(accountant):
                charged.spend(float(epsilon), float(delta))
        first, second = np.zeros(self.dim), np.zeros(self.dim)
        with progress_of(progress, "CustomProblem") or nullcontext() as show:
            for k in range(1, int(rounds) + 1):
                total = np.zeros(self.dim)
                for gate, place in zip(gates, places):
                    rows = np.ascontiguousarray(self.per_record_gradients(x.copy(), X[place], y[place]), dtype=np.float64)
                    if rows.shape != (len(place), self.dim):
                        raise InputError(
                            f"per_record_gradients returned shape {rows.shape}, not ({len(place)}, {self.dim}): a row for each record"
                        )
                    total += gate.release(rows)
                mean = total / len(X)
                first = 0.9 * first + 0.1 * mean
                second = 0.999 * second + 0.001 * mean**2
                x -= learning_rate * (first / (1 - 0.9**k)) / (np.sqrt(second / (1 - 0.999**k)) + 1e-8)
                if show is not None:
                    show(k, int(rounds), "")
        claims = [json.loads(c) for c in (gate.claim() for gate in gates) if c is not None]
        claim = max(claims, key=lambda c: c["epsilon"]) if claims else None
        return CustomFit(x, claim, int(rounds))

