"""Transformers that learn what they need within a budget, for a Pipeline before a private estimator.

scikit-learn's own learn exact moments and quantiles of the records, which no claim covers. These release noised sums of every site
instead, charged to the same :class:`consenso.BudgetAccountant`.
"""

from __future__ import annotations

import math
import numbers
from typing import Any, Optional

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _core, accounting, noise
from ._budget import BudgetAccountant, accountants, charger, marked, most_equal, refuse_elsewhere
from ._claim import Claim
from ._core import InputError
from ._sites import by_site

__all__ = ["KBinsDiscretizer", "StandardScaler"]

Floats = npt.NDArray[np.float64]

#: Steps that a unit is divided into, so that sums are exact.
_STEPS = 2**20


class _Private(TransformerMixin, BaseEstimator):
    """Noised sums of every site, charged before they are drawn."""

    _consenso_private = True
    epsilon: float
    delta: float
    bounds: Any
    accountant: Optional[BudgetAccountant]
    random_state: Optional[int]
    __metadata_request__fit = {"sites": True}

    def __getstate__(self) -> dict[str, Any]:
        return marked(dict(super().__getstate__()))

    def _ends(self, features: int) -> tuple[Floats, Floats]:
        try:
            low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (features,)) for end in self.bounds)
        except (TypeError, ValueError):
            raise InputError(
                f"bounds must be (lowest, highest), each a number or one for each of the {features} columns: what is publicly known, never learnt "
                "from the data"
            ) from None
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise InputError("bounds: every lowest must be a finite number below its highest")
        return low, high

    def _released(self, X: Floats, y: Any, sites: Any, sums: Any, sensitivity: float) -> Floats:
        """The sum over sites of ``sums`` of their rows, each with noise of its own; one record changes a site's by at most ``sensitivity``."""
        for name, value in (("epsilon", self.epsilon), ("delta", self.delta)):
            if not (isinstance(value, numbers.Real) and 0 < float(value) < math.inf):
                raise InputError(f"{name}={value!r} must be a positive number")
        seed = None if self.random_state is None else int(self.random_state)
        order, counts, _ = by_site(sites, len(X))
        places = np.split(np.arange(len(X)) if order is None else order, np.cumsum(counts)[:-1])
        exact = [sums(X[place]) for place in places]
        plan = accounting.calibrate(float(self.epsilon), float(self.delta), 1, len(exact[0]), sensitivity_l2=sensitivity, mechanism="gaussian")
        sigma, spent = float(plan["schedule"][0]), plan["spent"]
        refuse_elsewhere(self)
        labels = np.zeros(len(X)) if y is None else y
        charge = charger(accountants(self.accountant, self), type(self).__name__, lambda: most_equal(X, labels))
        if charge is not None:
            mu = sensitivity / sigma * (1 + 1e-12)
            charge(_core.claimed(float(spent["epsilon"]), float(self.delta), mu, seed is not None))
        sampler = "noise of the operating system" if seed is None else "a seeded stream: the claim holds only for noise of the operating system"
        self.claim_ = Claim(
            epsilon=float(spent["epsilon"]), delta=float(self.delta), adversary="every other site colludes and sees every sum",
            method=str(spent["method"]), sampler=f"exact Gaussian rounded to a public grid, {sampler}",
            caveats=("every site's number of records is taken as public",),
        )
        parts = [noise.gaussian(part, sigma, seed=None if seed is None else seed + place) for place, part in enumerate(exact)]
        return np.asarray(np.sum(parts, axis=0), dtype=np.float64)


class StandardScaler(_Private):
    """Centre and scale columns by a mean and a deviation that are learnt within a budget.

    Parameters
    ----------
    epsilon, delta : float, default=0.5 and 1e-6
        The budget of every site's records.
    bounds : (lowest, highest)
        What is publicly known of each column, as for the estimators.
    clip : float, default=5.0
        Scaled values beyond it count as it, so that a next step has public bounds: (−clip, clip).
    accountant : BudgetAccountant, optional
        Charged before anything is released, as are those of enclosing ``with`` blocks.
    random_state : int, optional
        A seed, for science.

    Attributes
    ----------
    mean_, scale_ : ndarray
        What was learnt, noised.
    claim_ : Claim
        What is claimed about it.
    """

    def __init__(
        self,
        epsilon: float = 0.5,
        delta: float = 1e-6,
        *,
        bounds: Any = None,
        clip: float = 5.0,
        accountant: Optional[BudgetAccountant] = None,
        random_state: Optional[int] = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.clip = clip
        self.accountant = accountant
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sites: Any = None) -> "StandardScaler":
        """Learn mean and deviation; ``sites`` names the site of every row, one site by default."""
        X = validate_data(self, X, dtype=np.float64)
        low, high = self._ends(X.shape[1])
        middle, half = (low + high) / 2, (high - low) / 2

        def sums(rows: Floats) -> Floats:
            unit = np.clip((rows - middle) / half, -1.0, 1.0)
            steps = np.rint(np.concatenate([unit, unit**2], axis=1) * _STEPS).astype(np.int64).sum(axis=0)
            return np.asarray(steps.astype(np.float64) / _STEPS)

        # (u, u²) and (v, v²) are at most 2 apart for u, v in [−1, 1], and each is rounded by half a step.
        sensitivity = math.sqrt(X.shape[1]) * (2 + 4 / _STEPS)
        found = self._released(X, y, sites, sums, sensitivity) / len(X)
        mean = np.clip(found[: X.shape[1]], -1.0, 1.0)
        deviation = np.sqrt(np.clip(found[X.shape[1] :] - mean**2, 1e-6, 1.0))
        self.mean_, self.scale_ = middle + half * mean, half * deviation
        return self

    def transform(self, X: Any) -> Floats:
        """Scaled values, within ±clip."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(np.clip((X - self.mean_) / self.scale_, -float(self.clip), float(self.clip)))


class KBinsDiscretizer(_Private):
    """Cut columns into bins, of equal width or, within a budget, of about equal numbers of records.

    Parameters
    ----------
    n_bins : int, default=5
        Bins of every column.
    epsilon, delta, bounds, accountant, random_state
        As for :class:`StandardScaler`; bins of equal width cost nothing.
    strategy : {"quantile", "uniform"}, default="quantile"
        How edges are chosen.
    encode : {"onehot-dense", "ordinal"}, default="onehot-dense"
        One column a bin, or the number of the bin.

    Attributes
    ----------
    bin_edges_ : list of ndarray
        The edges of every column, the public ends included.
    claim_ : Claim or None
        What is claimed about them.
    """

    bin_edges_: list[Floats]

    def __init__(
        self,
        n_bins: int = 5,
        *,
        epsilon: float = 0.5,
        delta: float = 1e-6,
        bounds: Any = None,
        strategy: str = "quantile",
        encode: str = "onehot-dense",
        accountant: Optional[BudgetAccountant] = None,
        random_state: Optional[int] = None,
    ) -> None:
        self.n_bins = n_bins
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.strategy = strategy
        self.encode = encode
        self.accountant = accountant
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sites: Any = None) -> "KBinsDiscretizer":
        """Choose the edges; ``sites`` names the site of every row, one site by default."""
        if not isinstance(self.n_bins, numbers.Integral) or not 2 <= int(self.n_bins) <= 256:
            raise InputError(f"n_bins={self.n_bins!r} must be a whole number from 2 to 256")
        if self.strategy not in ("quantile", "uniform") or self.encode not in ("onehot-dense", "ordinal"):
            raise InputError('strategy must be "quantile" or "uniform", and encode "onehot-dense" or "ordinal"')
        X = validate_data(self, X, dtype=np.float64)
        low, high = self._ends(X.shape[1])
        bins = int(self.n_bins)
        if self.strategy == "uniform":
            self.claim_: Optional[Claim] = None
            self.bin_edges_ = [np.linspace(a, b, bins + 1) for a, b in zip(low, high)]
            return self
        fine = 16 * bins

        def sums(rows: Floats) -> Floats:
            cells = np.minimum((np.clip((rows - low) / (high - low), 0.0, 1.0) * fine).astype(int), fine - 1)
            return np.concatenate([np.bincount(cells[:, j], minlength=fine) for j in range(cells.shape[1])]).astype(np.float64)

        # A replaced record leaves one cell of each column and enters another.
        found = self._released(X, y, sites, sums, math.sqrt(2 * X.shape[1])).reshape(X.shape[1], fine)
        self.bin_edges_ = []
        for counts, a, b in zip(np.maximum(found, 0.0), low, high):
            share = np.concatenate([[0.0], np.cumsum(counts)]) / max(float(counts.sum()), 1e-9)
            inner = np.interp(np.linspace(0, 1, bins + 1)[1:-1], np.maximum.accumulate(share), np.linspace(a, b, fine + 1))
            self.bin_edges_.append(np.concatenate([[a], inner, [b]]))
        return self

    def transform(self, X: Any) -> Floats:
        """The bin of every value."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        codes = np.column_stack([np.clip(np.searchsorted(e[1:-1], X[:, j], side="right"), 0, len(e) - 2) for j, e in enumerate(self.bin_edges_)])
        if self.encode == "ordinal":
            return codes.astype(np.float64)
        hot = [(codes[:, [j]] == np.arange(len(e) - 1)).astype(np.float64) for j, e in enumerate(self.bin_edges_)]
        return np.concatenate(hot, axis=1)
