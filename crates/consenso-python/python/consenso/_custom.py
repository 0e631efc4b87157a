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
from ._budget import BudgetAccountant, accountants, charger, marked, most_equal, refuse_elsewhere
from ._claim import Claim
from ._core import InputError
from ._progress import progress_of
from ._sites import by_site

__all__ = ["CustomFit", "CustomProblem", "UpdateGate"]

Floats = npt.NDArray[np.float64]


class CustomFit:
    """What :meth:`CustomProblem.fit` found.

    Attributes
    ----------
    model_ : ndarray
        The parameters; all sites have the same, for all that they exchange is noised sums which everybody gets.
    claim_ : Claim or None
        What is claimed about every site's records: ``epsilon``, ``delta``, ``method``, ``neighbours``, ``adversary``, ``sampler``, ``transcripts``,
        ``sigma`` (of the noise on a site's sum, in units of ``clip``).
    rounds_ : int
        How many sums every site released.
    """

    def __init__(self, model: Floats, claim: Optional[Claim], rounds: int) -> None:
        self.model_, self.claim_, self.rounds_ = model, claim, rounds

    def __repr__(self) -> str:
        claim = "no privacy" if self.claim_ is None else f"ε={self.claim_['epsilon']:g}, δ={self.claim_['delta']:g}"
        return f"CustomFit({len(self.model_)} parameters, {self.rounds_} rounds, {claim})"


class CustomProblem:
    """A model of one's own, trained by several sites under local differential privacy.

    Every round each site computes the gradients of its records, the gate shortens those longer than ``clip``, adds them up, adds exact Gaussian
    noise and charges the release; everybody gets all sums and makes the same step. It is slower than the built-in models, for the
    gradients come from Python, and the claim is the same: every other site may collude and see every sum.

    The claim rests on one thing that the callable must do: the gradient of a record is a function of ``x`` and of that record alone. What
    looks at other rows (batch normalisation), draws numbers (dropout) or remembers earlier calls breaks it, for one record then
    changes every gradient. Under a budget this is checked before the first release, on single records and in another order, and on a
    record now and then while it trains; a check is no proof, and the claim says so. ``isolate=True`` makes it true of rows.

    Parameters
    ----------
    per_record_gradients : callable
        ``f(x, X, y)`` returns an array of shape (records, dim): a gradient for each record at the parameters ``x``, a function of
        ``x`` and of that record alone. numpy, or whatever numpy can read (torch through ``vmap``, JAX).
    dim : int
        How many parameters there are.
    clip : float
        Length beyond which a record's gradient is shortened: what one record can do.
    isolate : bool, default=False
        Call ``per_record_gradients`` with one record at a time, so that it sees no other. Slower; it must still remember nothing.

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

    per_record_gradients: Callable[[Floats, Any, Any], Any]
    dim: int
    clip: float
    isolate: bool

    def __init__(
        self, per_record_gradients: Callable[[Floats, Any, Any], Any], dim: int, clip: float, *, isolate: bool = False
    ) -> None:
        if not callable(per_record_gradients):
            raise InputError("per_record_gradients must be callable: f(x, X, y)")
        if not isinstance(dim, numbers.Integral) or dim < 1:
            raise InputError(f"dim={dim!r} must be a whole number from 1")
        if not (isinstance(clip, numbers.Real) and math.isfinite(float(clip)) and float(clip) > 0):
            raise InputError(f"clip={clip!r} must be a positive number")
        self.per_record_gradients = per_record_gradients
        self.dim = int(dim)
        self.clip = float(clip)
        self.isolate = bool(isolate)

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
        batch: Optional[float] = None,
        start: Optional[Sequence[float]] = None,
        accountant: Optional[BudgetAccountant] = None,
        random_state: Optional[int] = None,
        progress: Optional[bool] = None,
    ) -> CustomFit:
        """Train; ``sites`` names the site of every record, one site by default.

        Steps are Adam's on the noised mean gradient, which is post-processing: ``learning_rate`` is its α. The number of records
        of each site counts as public. ``batch`` is the probability with which every record is drawn for a round, afresh and in
        secret: gradients are computed for those alone, sums are divided by the expected number of draws, and the claim is amplified,
        so that a round needs less noise. Such a fit costs a budget its (ε, δ). ``progress`` shows how far it is; by default in a terminal and in a notebook.
        """
        X, y = np.asarray(X), np.asarray(y)
        if len(X) != len(y) or len(X) == 0:
            raise InputError(f"X has {len(X)} records and y {len(y)}; both need the same number, at least one")
        if not isinstance(rounds, numbers.Integral) or rounds < 1:
            raise InputError(f"rounds={rounds!r} must be a whole number from 1")
        if not (isinstance(learning_rate, numbers.Real) and math.isfinite(float(learning_rate)) and float(learning_rate) > 0):
            raise InputError(f"learning_rate={learning_rate!r} must be a positive number")
        if batch is not None and not (isinstance(batch, numbers.Real) and 0 < float(batch) <= 1):
            raise InputError(f"batch={batch!r} must be a share above 0 and at most 1")
        share = 1.0 if batch is None else float(batch)
        order, counts, _ = by_site(sites, len(X))
        places = np.split(np.arange(len(X)) if order is None else order, np.cumsum(counts)[:-1])
        x = np.zeros(self.dim) if start is None else np.array(start, dtype=np.float64)
        if x.shape != (self.dim,):
            raise InputError(f"start has shape {x.shape}, not ({self.dim},)")
        private = epsilon is not None
        if private and not self.isolate:
            for place in places:
                self._check_first(x, X[place], y[place])
        gates = [
            _core.Gate(epsilon, delta, int(rounds), self.dim, self.clip, len(place), random_state, index, share)
            for index, place in enumerate(places)
        ]
        if epsilon is not None:
            refuse_elsewhere(self)
            charge = charger(accountants(accountant, self), "CustomProblem", lambda: most_equal(X, y))
            costs = [cost for cost in (gate.cost() for gate in gates) if cost is not None]
            if charge is not None:
                # Sites differ by the rounding of their sums alone.
                charge(max(costs, key=lambda cost: [float(json.loads(cost)["cost"].get(k) or 0.0) for k in ("mu", "epsilon")]))
        looks = np.random.default_rng()
        first, second = np.zeros(self.dim), np.zeros(self.dim)
        with progress_of(progress, "CustomProblem") or nullcontext() as show:
            for k in range(1, int(rounds) + 1):
                total = np.zeros(self.dim)
                looked_at = int(looks.integers(len(places)))
                for index, (gate, whole) in enumerate(zip(gates, places)):
                    place = whole[gate.draw()] if share < 1.0 else whole
                    if len(place) == 0:
                        total += gate.release(np.zeros((0, self.dim)))
                        continue
                    rows = self._rows(x, X[place], y[place])
                    if private and not self.isolate and index == looked_at:
                        self._check_one(x, X[place], y[place], rows, int(looks.integers(len(place))))
                    total += gate.release(np.ascontiguousarray(rows, dtype=np.float64))
                # How many records are drawn is as secret as which.
                mean = total / (share * len(X))
                first = 0.9 * first + 0.1 * mean
                second = 0.999 * second + 0.001 * mean**2
                x -= learning_rate * (first / (1 - 0.9**k)) / (np.sqrt(second / (1 - 0.999**k)) + 1e-8)
                if show is not None:
                    show(k, int(rounds), "")
        claims = [json.loads(c) for c in (gate.claim() for gate in gates) if c is not None]
        claim = max(claims, key=lambda c: c["epsilon"]) if claims else None
        if claim is not None:
            claim["caveats"].append(
                "per_record_gradients sees one record at a time; that it remembers nothing between calls is taken for granted"
                if self.isolate
                else "that the gradient of a record is a function of that record alone was checked on some records, not proved"
            )
        return CustomFit(x, None if claim is None else Claim.of(claim), int(rounds))

    def _rows(self, x: Floats, X: Any, y: Any) -> npt.NDArray[Any]:
        """A gradient for each of these records."""
        if self.isolate:
            return np.concatenate([self._called(x, X[i : i + 1], y[i : i + 1]) for i in range(len(X))])
        return self._called(x, X, y)

    def _called(self, x: Floats, X: Any, y: Any) -> npt.NDArray[Any]:
        rows = np.asarray(self.per_record_gradients(x.copy(), X, y))
        if rows.shape != (len(X), self.dim):
            raise InputError(
                f"per_record_gradients returned shape {rows.shape}, not ({len(X)}, {self.dim}): a row for each record"
            )
        return rows

    def _check_first(self, x: Floats, X: Any, y: Any) -> None:
        """Before anything is released: some records alone, and all in another order."""
        if len(X) < 2:
            return
        rows = self._rows(x, X, y)
        for row in np.unique(np.linspace(0, len(X) - 1, 4).astype(int)):
            self._check_one(x, X, y, rows, int(row))
        order = np.random.default_rng().permutation(len(X))
        self._check_same(self._rows(x, X[order], y[order]), rows[order])

    def _check_one(self, x: Floats, X: Any, y: Any, rows: npt.NDArray[Any], row: int) -> None:
        if len(X) > 1:
            self._check_same(self._called(x, X[row : row + 1], y[row : row + 1]), rows[row : row + 1])

    def _check_same(self, alone: npt.NDArray[Any], among: npt.NDArray[Any]) -> None:
        """Gradients of the same records, but for the rounding of their own arithmetic; a row that is not finite counts as zero anyway."""
        exact = alone.dtype == np.float64 and among.dtype == np.float64
        a, b = np.asarray(alone, dtype=np.float64), np.asarray(among, dtype=np.float64)
        length = np.maximum(np.abs(a).max(axis=1), np.abs(b).max(axis=1))
        with np.errstate(invalid="ignore"):
            apart = np.abs(a - b).max(axis=1) > (1e-7 if exact else 1e-4) * np.maximum(length, self.clip)
        finite = np.isfinite(a).all(axis=1), np.isfinite(b).all(axis=1)
        if bool((apart & finite[0] & finite[1]).any() or (finite[0] != finite[1]).any()):
            raise InputError(
                "per_record_gradients is not a function of one record at a time: a record has another gradient alone, or in another "
                "order, than among the others, as batch normalisation and dropout make it. One record would then change every "
                "gradient, and the claim would not hold. Leave that out of the model, or use isolate=True, which shows it one record at a time"
            )



class UpdateGate:
    """The door for updates that another federated framework trains: each is clipped as a whole, noised and charged.

    What is protected is all of a site's records at once: whatever they are, an update moves by at most twice ``clip``. The budget is for
    ``rounds`` updates; there is no further one.

    Parameters
    ----------
    epsilon, delta : float
        The budget of the site.
    rounds : int
        How many updates are released.
    dim : int
        Numbers of an update.
    clip : float
        Longest update that counts; longer ones are shortened.
    accountant : BudgetAccountant, optional
        Charged with all updates when the gate is made, as are those of enclosing ``with`` blocks.
    random_state : int, optional
        A seed, for science.

    Attributes
    ----------
    claim_ : Claim
        What is claimed about all updates together.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        rounds: int,
        dim: int,
        clip: float,
        *,
        accountant: Optional[BudgetAccountant] = None,
        random_state: Optional[int] = None,
    ) -> None:
        self._gate = _core.Gate(float(epsilon), float(delta), int(rounds), int(dim), float(clip), 1, random_state, 0)
        charge = charger(accountants(accountant, self), "UpdateGate", lambda: 1)
        cost, claim = self._gate.cost(), self._gate.claim()
        assert cost is not None and claim is not None
        if charge is not None:
            charge(cost)
        said = json.loads(claim)
        said["caveats"] = ["neighbours differ in all records of a site: its update is one record here"]
        self.claim_ = Claim.of(said)

    def release(self, update: Any) -> Floats:
        """The update, clipped and noised; raises once all rounds are spent. An update that is not finite counts as zero."""
        row = np.ascontiguousarray(update, dtype=np.float64).reshape(1, -1)
        return self._gate.release(row)
