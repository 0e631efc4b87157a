"""Times until an event: proportional hazards, by the names of scikit-survival."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._base import Decentralized, Floats, parameters, positive
from ._core import InputError
from ._frames import Column
from ._frames import _of_series as column_of
from ._schema import Schema

__all__ = ["CoxPHSurvivalAnalysis"]


@parameters(longest=None, intervals=6, cuts=None)
class CoxPHSurvivalAnalysis(Decentralized):
    """Proportional hazards that several sites fit together, constant within intervals of time.

    Parameters are those of :class:`LogisticRegression` but for ``prevalence`` and ``class_weights``, and:

    Parameters
    ----------
    longest : float, optional
        The longest time that counts, publicly known; needed under a budget unless the schema has a column of kind "time".
    intervals : int, default=6
        Intervals within which hazards are constant; they end at quantiles of the events' times, which are found within the budget.
    cuts : sequence of float, optional
        Public ends of the intervals instead.
    inference : bool or float, default=False
        The level of the intervals; standard errors are found in any case, 0.95 unless a number is given.

    Attributes
    ----------
    coef_ : ndarray
        Logarithms of hazard ratios, one a number or category, named in ``feature_names_out_``; of the mean model.
    times_ : ndarray
        Ends of the intervals.
    inference_ : dict
        ``coefficients`` with standard errors, intervals and p-values, the baseline's hazards last; :meth:`summary` prints them.
    claim_ : Claim or None
        What is claimed about privacy.

    Examples
    --------
    >>> import consenso
    >>> model = consenso.CoxPHSurvivalAnalysis(epsilon=3.0, bounds={"age": (0, 110)}, longest=60)  # doctest: +SKIP
    >>> model.fit(df[["age", "ward"]], (df["months"], df["died"]), sites=df["hospital"]).summary()  # doctest: +SKIP
    """

    longest: Optional[float]
    intervals: int
    cuts: Optional[Sequence[float]]
    __metadata_request__fit = {"sites": True, "persons": True}

    def fit(self, X: Any, y: Any, sites: Any = None, persons: Any = None) -> "CoxPHSurvivalAnalysis":
        """Fit the model.

        Parameters
        ----------
        X : frame
            One row a record.
        y : (times, events), frame of two columns or structured array
            How long each record was seen, and whether the event happened then. A structured array has the event first, as
            scikit-survival's, or is told apart by its types.
        sites, persons : sequence, optional
            The site of every row, and whom it is about.
        """
        times, events = _split(y)
        objective: dict[str, Any] = {"loss": "hazards"}
        if self.cuts is not None:
            objective["cuts"] = [positive("cuts", cut) for cut in self.cuts]
        else:
            objective["intervals"] = int(self.intervals)
        happened = ["no", "yes"]

        def label(_: Any) -> dict[str, Any]:
            return {"classes": happened}

        def beside(schema: Schema, names: list[str]) -> list[tuple[Column, dict[str, Any]]]:
            declared = schema.find("time")
            if declared is not None:
                return [(column_of(str(declared["name"]), times), {})]
            name = "time"
            while name in names or name in schema:
                name += "_"
            return [(column_of(name, times), {"kind": "time", "max": self._end(times)})]

        declared = None if self.schema is None else Schema(self.schema).find("label")
        words = happened if declared is None else [str(word) for word in declared["classes"]]
        if len(words) != 2:
            raise InputError("the label of a survival model has two classes: whether the event happened")
        texts = np.array([words[int(event)] for event in events], dtype=object)
        self._fit_framed(X, texts, sites, persons, objective, label, beside)
        coef, intercept = self._linear
        self.coef_, self.intercept_ = coef[0], intercept
        self.times_ = np.array((self.inference_ or {}).get("times", []), dtype=np.float64)
        return self

    def _level(self, framed: bool = False) -> Optional[float]:
        found = super()._level(framed=True)
        return 0.95 if found is None else found

    def _end(self, times: Floats) -> float:
        if self.longest is not None:
            return positive("longest", self.longest)
        if self.epsilon is not None:
            raise InputError("longest is missing, and it is never learnt from the data: give longest=…, the longest time that counts")
        return float(times.max())

    def predict(self, X: Any) -> Floats:
        """The risk of every row: the logarithm of its hazard in the first interval; higher is sooner."""
        check_is_fitted(self)
        found = self._applied(X, None)
        scores: Floats = np.array(found["scores"], dtype=np.float64).reshape(len(found["predictions"]), -1)[:, 0]
        return scores

    def predict_survival_function(self, X: Any) -> Floats:
        """The probability to be without the event at the end of every interval (``times_``), one row a record."""
        check_is_fitted(self)
        found = self._applied(X, None)
        return np.array(found["probabilities"], dtype=np.float64).reshape(len(found["predictions"]), -1)

    def score(self, X: Any, y: Any) -> float:
        """Harrell's C: of the pairs of which it is known who had the event first, the share in which that one has the higher risk."""
        times, events = _split(y)
        return concordance(times, events, self.predict(X))


def _split(y: Any) -> tuple[Floats, Any]:
    """Times and events of whatever holds both."""
    if y is None:
        raise InputError("y is missing: (times, events)")
    if isinstance(y, tuple):
        if len(y) != 2:
            raise InputError(f"y must be (times, events); it has {len(y)} parts")
        first, second = (np.asarray(part) for part in y)
    elif getattr(getattr(y, "dtype", None), "names", None):
        if len(y.dtype.names) != 2:
            raise InputError("y must have two fields: event and time")
        first, second = (np.asarray(y[name]) for name in y.dtype.names)
        if first.dtype.kind == "b":
            first, second = second, first
    elif hasattr(y, "columns") and len(y.columns) == 2:
        first, second = (np.asarray(y[name]) for name in y.columns)
        if first.dtype.kind == "b":
            first, second = second, first
    else:
        raise InputError("y must be (times, events), a frame of two columns or a structured array")
    try:
        times = first.astype(np.float64)
        events = second.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError("times must be numbers, and events True or False") from None
    if len(times) != len(events):
        raise InputError(f"there are {len(times)} times and {len(events)} events")
    if not np.isin(events, (0.0, 1.0)).all():
        raise InputError("events must be True or False, or 1 or 0")
    if not (np.isfinite(times).all() and (times >= 0).all()):
        raise InputError("times must be finite numbers from 0")
    return times, events.astype(bool)


def concordance(times: Floats, events: Any, risk: Floats) -> float:
    """Harrell's C; equal risks count half. Of two equal times an event comes before one that was not seen, and two events are no pair."""
    agree = pairs = 0.0
    for i in np.flatnonzero(events):
        later = (times > times[i]) | ((times == times[i]) & ~events)
        pairs += later.sum()
        agree += (risk[later] < risk[i]).sum() + 0.5 * (risk[later] == risk[i]).sum()
    if pairs == 0:
        raise InputError("there is no pair of which it is known who had the event first")
    return float(agree / pairs)
