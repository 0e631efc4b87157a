"""Estimators that scikit-learn accepts."""

from __future__ import annotations

import json
import math
import numbers
import warnings
from contextlib import nullcontext
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, _clone_parametrized
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _arrow, _core
from ._budget import BudgetAccountant, accountants, marked, refuse_elsewhere
from ._core import ConsensoError, InputError
from ._progress import progress_of
from ._sites import by_site

__all__ = ["Claim", "HuberRegressor", "LinearSVC", "LogisticRegression", "Ridge"]

Floats = npt.NDArray[np.float64]

_GRAPHS = {"regular": ("degree",), "random": ("edges",), "small-world": ("degree", "rewire"), "grid": ("rows",)}


class Claim(dict):  # type: ignore[type-arg]
    """What is claimed about privacy: ``epsilon``, ``delta``, ``method``, ``neighbours``, ``adversary``, ``caveats``; printing shows all."""

    def __str__(self) -> str:
        return str(self["statement"])


def _graph(graph: Any) -> dict[str, Any]:
    if isinstance(graph, dict):
        return graph
    if not isinstance(graph, str):
        raise InputError(f'graph={graph!r} must be text such as "complete", "ring" or "regular:4"')
    kind, *values = graph.split(":")
    names = _GRAPHS.get(kind, ())
    if len(values) > len(names):
        raise InputError(f'graph={graph!r}: "{kind}" takes {len(names)} numbers')
    try:
        given = {n: float(v) if n == "rewire" else int(v) for n, v in zip(names, values)}
    except ValueError:
        raise InputError(f"graph={graph!r}: what follows the colon must be a number") from None
    return {"kind": kind, **given}


def _seed(random_state: Any) -> Optional[int]:
    if random_state is None:
        return None
    if isinstance(random_state, numbers.Integral) and int(random_state) >= 0:
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    raise InputError(f"random_state={random_state!r} must be None, a whole number from 0 or a numpy generator")


def _positive(name: str, value: Any) -> float:
    number = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{name}={value!r} must be a positive number")
    return number


class _Decentralized(BaseEstimator):
    """What all estimators share."""

    epsilon: Optional[float]
    delta: float
    bounds: Any
    data_norm: Optional[float]
    graph: Any
    algorithm: Union[str, dict[str, Any]]
    trust: str
    rounds: Optional[int]
    regularization: float
    fit_intercept: bool
    neighbours: str
    accountant: Optional[BudgetAccountant]
    random_state: Any
    progress: Optional[bool]
    coef_: Floats
    intercept_: Any
    n_features_in_: int
    _file: Any
    _charged_in: int

    def _scales(self, X: Floats) -> tuple[Floats, Floats, float]:
        """Centre and width that columns are scaled by, and the norm that rows are clipped to: public where a budget is kept."""
        features = X.shape[1]
        norm = None if self.data_norm is None else _positive("data_norm", self.data_norm)
        if self.bounds is not None:
            low, high = self._ends(features)
            return (low + high) / 2, (high - low) / 2, norm or 1.0
        if norm is not None:
            return np.zeros(features), np.ones(features), norm
        if self.epsilon is not None:
            raise InputError(
                "bounds are missing, and they are never learnt from the data: give bounds=(lowest, highest), what is "
                "publicly known of each column, or data_norm=… for rows that are scaled already"
            )
        # Nothing is private: the data may scale themselves. Block by block, so that no second copy is made.
        blocks = [X[i : i + 65536] for i in range(0, len(X), 65536)]
        centre = X.mean(axis=0)
        width = np.sqrt(sum(((block - centre) ** 2).sum(axis=0) for block in blocks) / len(X))
        width = np.where(width > 1e-12 * np.maximum(1.0, np.abs(centre)), width, 1.0)
        longest = max(float((((block - centre) / width) ** 2).sum(axis=1).max()) for block in blocks)
        return centre, width, max(math.sqrt(longest), 1e-12)

    def _ends(self, features: int) -> tuple[Floats, Floats]:
        """The lowest and the highest of every column, exactly as they were given."""
        try:
            low, high = (np.broadcast_to(np.asarray(b, dtype=np.float64), (features,)) for b in self.bounds)
        except (TypeError, ValueError):
            raise InputError(
                f"bounds must be (lowest, highest), each a number or one for each of the {features} columns"
            ) from None
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise InputError("bounds: every lowest must be a finite number below its highest")
        return low, high

    def _algorithm(self) -> tuple[dict[str, Any], dict[str, Any]]:
        graph = _graph(self.graph)
        given = self.algorithm
        table: dict[str, Any] = {"kind": given} if isinstance(given, str) else dict(given)
        if self.trust in ("shares", "masked"):
            exchange = "secret-shared" if self.trust == "shares" else "masked"
            table = {"kind": "gd", "aggregation": "fixed", "exchange": exchange} | (
                {k: v for k, v in table.items() if k != "kind"}
            )
        elif self.trust != "local":
            raise InputError(
                f'trust={self.trust!r} must be "local" (trust nobody), "shares" or "masked" (only sums are revealed)'
            )
        if self.rounds is not None:
            if not isinstance(self.rounds, numbers.Integral) or self.rounds < 1:
                raise InputError(f"rounds={self.rounds!r} must be a whole number from 1")
            table["rounds"] = int(self.rounds)
        elif self.epsilon is None and table["kind"] == "dgd":
            # Without noise only time limits how far a model converges.
            table["rounds"] = 2000
        return graph, table

    def _train(self, X: Floats, y: Floats, sites: Any, loss: dict[str, Any], labels: Optional[tuple[float, float]]) -> None:
        epsilon = None if self.epsilon is None else _positive("epsilon", self.epsilon)
        delta = _positive("delta", self.delta)
        if delta >= 1:
            raise InputError(f"delta={delta} must be below 1")
        if not isinstance(self.regularization, numbers.Real) or not 0 <= float(self.regularization) < math.inf:
            raise InputError(f"regularization={self.regularization!r} must be a number from 0")
        centre, width, norm = self._scales(X)
        order, counts, names = by_site(sites, len(X))
        graph, algorithm = self._algorithm()
        ranges = scale = None
        if self._scouts():
            # Columns are scouted under a part of the budget: they go in as they are.
            low, high = self._ends(X.shape[1])
            ranges = [(name, float(a), float(b)) for name, a, b in zip(self._columns(X.shape[1]), low, high)]
        elif centre.any() or (width != 1.0).any() or self.bounds is not None:
            scale = {"centre": centre.tolist(), "width": width.tolist(), "clamp": self.bounds is not None}
        options = {
            "loss": loss, "dim": X.shape[1], "counts": counts, "names": names, "norm": norm, "scale": scale,
            "intercept": bool(self.fit_intercept), "labels": labels, "epsilon": epsilon, "delta": delta,
            "neighbours": self.neighbours, "graph": graph, "algorithm": algorithm,
            "regularization": float(self.regularization), "seed": _seed(self.random_state), "ranges": ranges,
        }
        if not _core.OPTIMIZED and X.size > 100_000:
            warnings.warn(
                "this library was built without optimisation, as cargo xtask python does for its tests: a fit takes twenty times as long "
                "as with pip install ./crates/consenso-python",
                RuntimeWarning,
                stacklevel=3,
            )
        if epsilon is not None:
            refuse_elsewhere(self)
            for accountant in accountants(self.accountant):
                accountant.spend(epsilon, delta)
        # The rows are read where they are, in the order of their sites.
        rows, target = (np.require(a, np.float64, ["C", "A"]) for a in (X, y))
        with progress_of(self.progress, type(self).__name__) or nullcontext() as progress:
            answer = json.loads(_core.fit(json.dumps(options), rows, target, order, progress))
        self._within: Optional[tuple[Floats, Floats]] = None
        # What may be shared, and what is as private as the records.
        self.record_ = answer["shareable"] or answer["record"]
        self.private_record_ = answer["record"]
        self.claim_ = None if answer["claim"] is None else Claim(answer["claim"])
        self.sites_ = np.array(names)
        self.n_iter_ = int(self.record_["algorithms"][0]["rounds"])
        self._file = answer["file"]
        if ranges is None:
            self._unscale(answer["mean"], answer["models"], centre, width)
        else:
            self._unscout(answer["mean"], answer["models"], answer["file"])

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if (state.get("record_") or {}).get("kind") == "shareable":
            # A pickle is made to be handed on: exact figures of the records do not go along.
            state.pop("private_record_", None)
        return marked(state)

    def __sklearn_clone__(self) -> Any:
        clone: Any = _clone_parametrized(self)
        if hasattr(self, "_charged_in"):
            clone._charged_in = self._charged_in
        return clone

    def _scouts(self) -> bool:
        """Whether the columns are scouted, which is what works on features of any scale and sites of any size: wherever nothing asks for another way."""
        table = {"kind": self.algorithm} if isinstance(self.algorithm, str) else dict(self.algorithm)
        plain = self.trust == "local" and table == {"kind": "dgd"} and self.rounds is None
        whole = self.data_norm is None and bool(self.fit_intercept) and self.neighbours == "replace-one"
        return self.epsilon is not None and self.bounds is not None and plain and whole

    def _columns(self, features: int) -> list[str]:
        known = getattr(self, "feature_names_in_", None)
        return [f"x{i + 1}" for i in range(features)] if known is None else [str(name) for name in known]

    def _unscout(self, mean: list[float], models: list[list[float]], file: Any) -> None:
        """Slopes in the units of X, where a column lies within what was scouted; beyond it counts as the nearest end."""
        if file is None:
            raise ConsensoError("the model did not end with finite numbers; a larger regularization or budget may help")
        parts = file["encoder"]["columns"]
        low, wide, centre, scale, limit = (
            np.array([part[key] for part in parts]) for key in ("min", "width", "centre", "scale", "limit")
        )
        slope, offset = 1 / (wide * scale), -(low / wide + centre) / scale
        reach = limit * scale
        self._within = (low + wide * np.maximum(centre - reach, 0.0), low + wide * np.minimum(centre + reach, 1.0))

        def linear(model: list[float]) -> tuple[Floats, Floats]:
            per_output = np.asarray(model).reshape(-1, len(parts) + 1)
            return per_output[:, :-1] * slope, per_output[:, -1] + per_output[:, :-1] @ offset

        self._linear = linear(mean)
        each = [linear(m) for m in models]
        self.site_coefs_ = np.array([c for c, _ in each])
        self.site_intercepts_ = np.array([i for _, i in each])

    def save_model(self, path: Any) -> None:
        """Write the model file of the command line, which ``consenso predict`` and :func:`consenso.load_model` apply to new records.

        Only a model that scouted its columns has one: with ``bounds``, a budget and the default algorithm.
        """
        check_is_fitted(self)
        if getattr(self, "_file", None) is None or not self._scouts():
            raise InputError("this model has no file: fit with bounds=…, a budget and the default algorithm")
        file = json.loads(json.dumps(self._file))
        classes = getattr(self, "classes_", None)
        if classes is not None:
            names = [str(c) for c in classes]
            old = file.get("classes", [])
            file["classes"] = names
            if file.get("positive") in old:
                file["positive"] = names[old.index(file["positive"])]
            for column in file["schema"].get("column", []):
                if column.get("kind") == "label" and "classes" in column:
                    column["classes"] = names
        with open(path, "w", encoding="utf-8") as out:
            json.dump(file, out)

    def _unscale(self, mean: list[float], models: list[list[float]], centre: Floats, width: Floats) -> None:
        def linear(model: list[float]) -> tuple[Floats, Floats]:
            features = len(centre)
            per_output = np.asarray(model).reshape(-1, features + int(bool(self.fit_intercept)))
            coef = per_output[:, :features] / width
            intercept = per_output[:, features] if self.fit_intercept else np.zeros(len(per_output))
            return coef, intercept - coef @ centre

        self._linear = linear(mean)
        each = [linear(m) for m in models]
        self.site_coefs_ = np.array([c for c, _ in each])
        self.site_intercepts_ = np.array([i for _, i in each])

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        if _streams(X):
            names, X = _arrow.columns(X)
            known = getattr(self, "feature_names_in_", None)
            if known is not None and list(known) != names:
                raise InputError(f"the columns {names} are not those of the fit, {list(known)}, in the same order")
            X = check_array(X)
            if X.shape[1] != self.n_features_in_:
                raise InputError(f"X has {X.shape[1]} columns, and the model was fitted on {self.n_features_in_}")
        else:
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        within = getattr(self, "_within", None)
        if within is not None:
            X = np.clip(X.toarray() if hasattr(X, "toarray") else X, *within)
        scores: Floats = np.asarray(X @ self.coef_.T) + self.intercept_
        return scores

    def _validate(self, X: Any, y: Any, **how: Any) -> tuple[Floats, Any]:
        names = None
        if _streams(X):
            names, X = _arrow.columns(X)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C", **how)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        return (X.toarray() if hasattr(X, "toarray") else X), y


def _streams(X: Any) -> bool:
    """Whether X is an Arrow stream and nothing that scikit-learn can read by itself."""
    return hasattr(X, "__arrow_c_stream__") and not hasattr(X, "__array__")


class _Tags:
    """Stands before scikit-learn's mixins, which make the tags that are changed here."""

    epsilon: Optional[float]
    random_state: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        private = self.epsilon is not None
        tags.non_deterministic = private and self.random_state is None
        if private:
            for kind in (tags.classifier_tags, tags.regressor_tags):
                if kind is not None:
                    kind.poor_score = True
        return tags


class _Classifier(_Tags, ClassifierMixin, _Decentralized):
    """Classes by the sign of a score, or by the largest of several."""

    def decision_function(self, X: Any) -> Floats:
        """Scores: positive for the second of two classes, one a class for more."""
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Any:
        """The likeliest class of every row."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def _classes(self, X: Any, y: Any) -> tuple[Floats, Floats]:
        """Checked rows, and labels as numbers of classes; ``classes_`` is set."""
        X, y = self._validate(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"y has one class only ({self.classes_[0]}); two classes are needed")
        return X, codes.astype(np.float64)


class LogisticRegression(_Classifier):
    """Logistic regression that several sites fit together, each under a privacy budget of its own.

    Parameters
    ----------
    epsilon : float or None, default=1.0
        The budget ε of every site's records; ``None`` fits without privacy.
    delta : float, default=1e-6
        The budget's δ.
    bounds : (lowest, highest), optional
        What is publicly known of each column: two numbers, or two sequences with one a column. Values outside are moved to the
        nearest end, columns are scaled to [−1, 1]. Bounds are never learnt from the data.
    data_norm : float, optional
        Longest row that counts; longer ones are shortened. 1.0 after ``bounds``; without ``bounds`` rows are used as they are.
    graph : str, default="complete"
        Who talks to whom: "complete", "ring", "path", "star", "grid", "regular:4", "random:20", "small-world:4:0.1".
    algorithm : str or dict, default="dgd"
        The algorithm, or its ``[[algorithm]]`` table.
    trust : {"local", "shares", "masked"}, default="local"
        "local" trusts nobody: each site's messages are private by themselves. "shares" reveals only sums of secret shares, with noise
        that sites add together; three sites or more on a complete graph. "masked" does the same on any connected graph.
    rounds : int, optional
        Rounds that use records; chosen from public quantities by default.
    regularization : float, default=0.001
        μ of (μ/2)‖x‖² beside the mean loss, in scaled columns.
    fit_intercept : bool, default=True
        Whether to add a column of ones.
    prevalence : float, optional
        The share of the second of two classes, where it is publicly known: both classes then count half, as scikit-learn's
        ``class_weight="balanced"`` does with a share that it learns from the records. A rare class costs more noise.
    neighbours : {"replace-one", "add-remove"}, default="replace-one"
        Which data sets the budget makes indistinguishable.
    accountant : BudgetAccountant, optional
        Charged with (ε, δ) before every fit.
    random_state : int, optional
        A seed, for science: the claim then says that it holds only for noise of the operating system, the default.
    progress : bool, optional
        Whether to show how far a fit is; by default in a terminal and in a notebook, once it takes half a second.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        The mean of the sites' models, in the units of X.
    site_coefs_, site_intercepts_ : ndarray
        The model of every site.
    claim_ : Claim or None
        What is claimed about privacy.
    record_ : dict
        What happened. Under a budget and noise of the operating system it holds only what may be shared.
    private_record_ : dict
        ``record_`` and what is as private as the records: seconds, warnings and, without a budget, objective and optimum. Where ``record_``
        may be shared, a pickle leaves it out.
    classes_, sites_ : ndarray
        Names of the classes and of the sites.

    Notes
    -----
    The classes that occur in ``y`` are taken to be public.
    """

    __metadata_request__fit = {"sites": True}

    def __init__(
        self,
        epsilon: Optional[float] = 1.0,
        delta: float = 1e-6,
        *,
        bounds: Any = None,
        data_norm: Optional[float] = None,
        graph: str = "complete",
        algorithm: Union[str, dict[str, Any]] = "dgd",
        trust: str = "local",
        rounds: Optional[int] = None,
        regularization: float = 1e-3,
        fit_intercept: bool = True,
        prevalence: Optional[float] = None,
        neighbours: str = "replace-one",
        accountant: Optional[BudgetAccountant] = None,
        random_state: Any = None,
        progress: Optional[bool] = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.data_norm = data_norm
        self.graph = graph
        self.algorithm = algorithm
        self.trust = trust
        self.rounds = rounds
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.prevalence = prevalence
        self.neighbours = neighbours
        self.accountant = accountant
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any, sites: Any = None) -> "LogisticRegression":
        """Fit the model; ``sites`` names the site of every row, one site by default."""
        X, labels = self._classes(X, y)
        count = len(self.classes_)
        loss: dict[str, Any] = {"loss": "logistic"} if count == 2 else {"loss": "softmax", "classes": count}
        if self.prevalence is not None:
            share = _positive("prevalence", self.prevalence)
            if count > 2 or not 0.0005 <= share <= 0.9995:
                raise InputError(f"prevalence={share} must lie between 0.0005 and 0.9995, and there must be two classes ({count} here)")
            loss = {"loss": "weighted-logistic", "clip": 1.0, "negative": 0.5 / (1.0 - share), "positive": 0.5 / share}
        if count == 2:
            labels = 2.0 * labels - 1.0
        self._train(X, labels, sites, loss, None)
        self.coef_, self.intercept_ = self._linear
        return self

    def predict_proba(self, X: Any) -> Floats:
        """The probability of every class."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            positive = 0.5 * (1.0 + np.tanh(0.5 * scores))
            return np.column_stack([1.0 - positive, positive])
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def predict_log_proba(self, X: Any) -> Floats:
        """The logarithm of every probability."""
        return np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny))


class LinearSVC(_Classifier):
    """A linear support vector machine for two classes: squared hinge loss, slopes clipped at 1, no probabilities.

    Parameters and attributes are those of :class:`LogisticRegression`.
    """

    __metadata_request__fit = {"sites": True}

    def __init__(
        self,
        epsilon: Optional[float] = 1.0,
        delta: float = 1e-6,
        *,
        bounds: Any = None,
        data_norm: Optional[float] = None,
        graph: str = "complete",
        algorithm: Union[str, dict[str, Any]] = "dgd",
        trust: str = "local",
        rounds: Optional[int] = None,
        regularization: float = 1e-3,
        fit_intercept: bool = True,
        neighbours: str = "replace-one",
        accountant: Optional[BudgetAccountant] = None,
        random_state: Any = None,
        progress: Optional[bool] = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.data_norm = data_norm
        self.graph = graph
        self.algorithm = algorithm
        self.trust = trust
        self.rounds = rounds
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.neighbours = neighbours
        self.accountant = accountant
        self.random_state = random_state
        self.progress = progress

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sites: Any = None) -> "LinearSVC":
        """Fit the model; ``sites`` names the site of every row, one site by default."""
        X, labels = self._classes(X, y)
        if len(self.classes_) > 2:
            raise InputError(
                f"Only binary classification is supported: y has {len(self.classes_)} classes; LogisticRegression takes several"
            )
        self._train(X, 2.0 * labels - 1.0, sites, {"loss": "squared-hinge", "clip": 1.0}, None)
        self.coef_, self.intercept_ = self._linear
        return self


class _Regressor(_Tags, RegressorMixin, _Decentralized):
    bounds_y: Any

    def _fit(self, X: Any, y: Any, sites: Any, loss: Any) -> None:
        X, y = self._validate(X, y, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        if self.bounds_y is not None:
            try:
                low, high = map(float, self.bounds_y)
            except (TypeError, ValueError):
                raise InputError("bounds_y must be (lowest, highest), two numbers") from None
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise InputError("bounds_y: the lowest must be a finite number below the highest")
        elif self.epsilon is not None:
            raise InputError(
                "bounds_y is missing, and it is never learnt from the data: give bounds_y=(lowest, highest), what is publicly "
                "known of the target"
            )
        else:
            spread = float(y.std()) or 1.0
            low, high = float(y.mean()) - spread, float(y.mean()) + spread
        if self._scouts():
            self._train(X, np.clip(y, low, high), sites, loss(), (low, high))
            coef, intercept = self._linear
            self.coef_, self.intercept_ = coef[0], float(intercept[0])
            self.site_coefs_, self.site_intercepts_ = self.site_coefs_[:, 0], self.site_intercepts_[:, 0]
            return
        middle, half = (low + high) / 2, (high - low) / 2
        target = (y - middle) / half
        if self.bounds_y is not None:
            target = np.clip(target, -1.0, 1.0)
        self._train(X, target, sites, loss(), None)
        coef, intercept = self._linear
        self.coef_ = coef[0] * half
        self.intercept_ = float(intercept[0] * half + middle)
        self.site_coefs_ = self.site_coefs_[:, 0] * half
        self.site_intercepts_ = self.site_intercepts_[:, 0] * half + middle

    def predict(self, X: Any) -> Floats:
        """The prediction for every row."""
        return self._scores(X)


class Ridge(_Regressor):
    """Least squares that several sites fit together, each under a privacy budget of its own.

    Parameters are those of :class:`LogisticRegression`, and:

    Parameters
    ----------
    bounds_y : (lowest, highest), optional
        What is publicly known of the target; needed under a budget.
    clip : float, default=1.0
        Largest residual of a record that counts under a budget, in half widths of ``bounds_y``.
    """

    __metadata_request__fit = {"sites": True}

    def __init__(
        self,
        epsilon: Optional[float] = 1.0,
        delta: float = 1e-6,
        *,
        bounds: Any = None,
        bounds_y: Any = None,
        data_norm: Optional[float] = None,
        clip: float = 1.0,
        graph: str = "complete",
        algorithm: Union[str, dict[str, Any]] = "dgd",
        trust: str = "local",
        rounds: Optional[int] = None,
        regularization: float = 1e-3,
        fit_intercept: bool = True,
        neighbours: str = "replace-one",
        accountant: Optional[BudgetAccountant] = None,
        random_state: Any = None,
        progress: Optional[bool] = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.bounds_y = bounds_y
        self.data_norm = data_norm
        self.clip = clip
        self.graph = graph
        self.algorithm = algorithm
        self.trust = trust
        self.rounds = rounds
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.neighbours = neighbours
        self.accountant = accountant
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any, sites: Any = None) -> "Ridge":
        """Fit the model; ``sites`` names the site of every row, one site by default."""
        # Without a budget nothing needs clipping; the number stands for none and is read as such.
        clip = _positive("clip", self.clip) if self.epsilon is not None else 1e300
        # Scouted columns clip the gradient of a record as a whole.
        loss: dict[str, Any] = {"loss": "ridge"} if self._scouts() else {"loss": "ridge", "clip": clip}
        self._fit(X, y, sites, lambda: loss)
        return self


class HuberRegressor(_Regressor):
    """Robust regression that several sites fit together: residuals beyond ``huber_delta`` count linearly.

    Parameters are those of :class:`Ridge`, with ``huber_delta`` (in half widths of ``bounds_y``, or in standard deviations of y
    without a budget) instead of ``clip``.
    """

    __metadata_request__fit = {"sites": True}

    def __init__(
        self,
        epsilon: Optional[float] = 1.0,
        delta: float = 1e-6,
        *,
        bounds: Any = None,
        bounds_y: Any = None,
        data_norm: Optional[float] = None,
        huber_delta: float = 1.0,
        graph: str = "complete",
        algorithm: Union[str, dict[str, Any]] = "dgd",
        trust: str = "local",
        rounds: Optional[int] = None,
        regularization: float = 1e-3,
        fit_intercept: bool = True,
        neighbours: str = "replace-one",
        accountant: Optional[BudgetAccountant] = None,
        random_state: Any = None,
        progress: Optional[bool] = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.bounds_y = bounds_y
        self.data_norm = data_norm
        self.huber_delta = huber_delta
        self.graph = graph
        self.algorithm = algorithm
        self.trust = trust
        self.rounds = rounds
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.neighbours = neighbours
        self.accountant = accountant
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any, sites: Any = None) -> "HuberRegressor":
        """Fit the model; ``sites`` names the site of every row, one site by default."""
        delta = _positive("huber_delta", self.huber_delta)
        self._fit(X, y, sites, lambda: {"loss": "huber", "delta": delta})
        return self
