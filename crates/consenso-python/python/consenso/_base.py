"""What all estimators share: checking, training, predicting."""

from __future__ import annotations

import inspect
import json
import math
import numbers
import warnings
from contextlib import nullcontext
from typing import Any, Callable, Mapping, Optional, TypeVar, Union

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, _clone_parametrized
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _arrow, _core
from ._budget import BudgetAccountant, accountants, charger, marked, most_equal, refuse_elsewhere
from ._card import Card
from ._claim import Claim
from ._core import ConsensoError, InputError
from ._experiments import FitRecord
from ._framed import Framed
from ._frames import text_of
from ._inference import Summary
from ._pipelines import warn_of_what_is_around
from ._progress import progress_of
from ._schema import Schema
from ._sites import by_site

__all__ = ["Classifier", "Decentralized", "Regressor", "parameters", "positive"]

Floats = npt.NDArray[np.float64]

_GRAPHS = {"regular": ("degree",), "random": ("edges",), "small-world": ("degree", "rewire"), "grid": ("rows",)}


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


def positive(name: str, value: Any) -> float:
    number = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{name}={value!r} must be a positive number")
    return number


Kind = TypeVar("Kind", bound=type)


def parameters(**extra: Any) -> Callable[[Kind], Kind]:
    """Give an estimator parameters beside those of its parent, with their defaults, where scikit-learn looks for them: in the
    signature of ``__init__``."""

    def decorate(cls: Kind) -> Kind:
        parent: Any = cls.__dict__.get("__init__") or getattr(cls, "__init__")
        inherited = inspect.signature(parent)
        own = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value) for name, value in extra.items()]
        whole = inherited.replace(parameters=[*inherited.parameters.values(), *own])

        def __init__(self: Any, *args: Any, **given: Any) -> None:
            bound = whole.bind(self, *args, **given)
            for name, default in extra.items():
                setattr(self, name, bound.kwargs.get(name, default))
            parent(*bound.args, **{k: v for k, v in bound.kwargs.items() if k not in extra})

        __init__.__signature__ = whole  # type: ignore[attr-defined]
        setattr(cls, "__init__", __init__)
        return cls

    return decorate


class Decentralized(Framed, BaseEstimator):
    """What all estimators share."""

    coef_: Floats
    intercept_: Any
    n_features_in_: int
    _file: Any
    _charged_in: int
    _model: str

    def __init__(
        self,
        epsilon: Optional[float] = 1.0,
        delta: float = 1e-6,
        *,
        bounds: Any = None,
        data_norm: Optional[float] = None,
        schema: Any = None,
        categorical_features: Any = None,
        unknown: str = "error",
        models: str = "shared",
        graph: Any = "complete",
        algorithm: Union[str, dict[str, Any]] = "dgd",
        trust: str = "local",
        colluders: Optional[int] = None,
        drop_outs: Optional[int] = None,
        rounds: Optional[int] = None,
        regularization: float = 1e-3,
        fit_intercept: bool = True,
        neighbours: str = "replace-one",
        records_per_person: Optional[int] = None,
        accountant: Optional[BudgetAccountant] = None,
        random_state: Any = None,
        progress: Optional[bool] = None,
        inference: Union[bool, float] = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.data_norm = data_norm
        self.schema = schema
        self.categorical_features = categorical_features
        self.unknown = unknown
        self.models = models
        self.graph = graph
        self.algorithm = algorithm
        self.trust = trust
        self.colluders = colluders
        self.drop_outs = drop_outs
        self.rounds = rounds
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.neighbours = neighbours
        self.records_per_person = records_per_person
        self.accountant = accountant
        self.random_state = random_state
        self.progress = progress
        self.inference = inference

    def _seeded(self) -> Optional[int]:
        return _seed(self.random_state)

    def _scales(self, X: Floats) -> tuple[Floats, Floats, float]:
        """Centre and width that columns are scaled by, and the norm that rows are clipped to: public where a budget is kept."""
        features = X.shape[1]
        norm = None if self.data_norm is None else positive("data_norm", self.data_norm)
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
        elif self.trust == "correlated":
            table = {**table, "kind": "decor"}
        elif self.trust != "local":
            raise InputError(
                f'trust={self.trust!r} must be "local" (trust nobody), "correlated" (neighbours share noise that cancels), "shares" or "masked" '
                "(only sums are revealed)"
            )
        for key, value, where in (("colluders", self.colluders, ("correlated", "shares", "masked")), ("drop_outs", self.drop_outs, ("masked",))):
            if value is None:
                continue
            if self.trust not in where:
                raise InputError(f"{key}={value!r} belongs to trust={' or '.join(map(repr, where))}")
            if not isinstance(value, numbers.Integral) or value < 0:
                raise InputError(f"{key}={value!r} must be a whole number from 0")
            table[key] = int(value)
        if self.rounds is not None:
            if not isinstance(self.rounds, numbers.Integral) or self.rounds < 1:
                raise InputError(f"rounds={self.rounds!r} must be a whole number from 1")
            table["rounds"] = int(self.rounds)
        elif self.epsilon is None and table["kind"] == "dgd":
            # Without noise only time limits how far a model converges.
            table["rounds"] = 2000
        return graph, table

    def _train(self, X: Floats, y: Floats, sites: Any, loss: dict[str, Any], labels: Optional[tuple[float, float]]) -> None:
        epsilon = None if self.epsilon is None else positive("epsilon", self.epsilon)
        delta = positive("delta", self.delta)
        if delta >= 1:
            raise InputError(f"delta={delta} must be below 1")
        if not isinstance(self.regularization, numbers.Real) or not 0 <= float(self.regularization) < math.inf:
            raise InputError(f"regularization={self.regularization!r} must be a number from 0")
        level = self._level()
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
            "inference": level,
        }
        if not _core.OPTIMIZED and X.size > 100_000:
            warnings.warn(
                "this library was built without optimisation, as cargo xtask python does for its tests: a fit takes twenty times as long "
                "as with pip install ./crates/consenso-python",
                RuntimeWarning,
                stacklevel=3,
            )
        charge = None
        if epsilon is not None:
            refuse_elsewhere(self)
            warn_of_what_is_around(type(self).__name__)
            charge = charger(accountants(self.accountant, self), type(self).__name__, lambda: most_equal(X, y))
        # The rows are read where they are, in the order of their sites.
        rows, target = (np.require(a, np.float64, ["C", "A"]) for a in (X, y))
        with progress_of(self.progress, type(self).__name__) or nullcontext() as progress:
            answer = json.loads(_core.fit(json.dumps(options), rows, target, order, progress, charge))
        self._within: Optional[tuple[Floats, Floats]] = None
        self._note(answer, names)
        self._file = answer["file"]
        if ranges is None:
            self._unscale(answer["mean"], answer["models"], centre, width)
        else:
            self._unscout(answer["mean"], answer["models"], answer["file"])
            noise = answer["file"].get("weight_noise")
            self.coef_noise_ = None if not noise else np.array(noise).reshape(-1, X.shape[1] + 1)[:, :-1] * self._slopes
            self.inference_ = answer["file"].get("inference")

    def _note(self, answer: Mapping[str, Any], names: list[str]) -> None:
        # What may be shared, and what is as private as the records.
        self.record_ = FitRecord(answer["shareable"] or answer["record"])
        self.private_record_ = answer["record"]
        self.claim_ = None if answer["claim"] is None else Claim.of(answer["claim"])
        self.sites_ = np.array(names)
        self.n_iter_ = int(self.record_["algorithms"][0]["rounds"])

    def _level(self, framed: bool = False) -> Optional[float]:
        """The level of the intervals that are asked for."""
        if self.inference is False or self.inference is None:
            return None
        if not framed and not self._scouts():
            raise InputError("inference needs bounds=…, a budget, the default algorithm and all else at its default")
        level = 0.95 if self.inference is True else self.inference
        if not isinstance(level, numbers.Real) or not 0.5 < float(level) < 1:
            raise InputError(f"inference={self.inference!r} must be True or a level between 0.5 and 1, such as 0.95")
        return float(level)

    def summary(self) -> Summary:
        """The coefficients as a table that prints, with ``to_pandas()``, ``to_polars()`` and ``rows``: with ``inference=True`` estimates,
        standard errors, intervals and p-values; else weights with the standard deviation that the privacy noise alone gives them, which
        is no confidence interval."""
        check_is_fitted(self)
        found = getattr(self, "inference_", None)
        if found:
            return Summary.inferred(found)
        coefficients, noise = np.atleast_2d(self.coef_), getattr(self, "coef_noise_", None)
        names = getattr(self, "feature_names_out_", None)
        names = self._columns(coefficients.shape[1]) if names is None else list(names)
        return Summary.of_weights(names, coefficients, noise, self.epsilon is not None)

    def card(self) -> Card:
        """The model card: what the model is, what it cost, what was taken to be public and what it says; Markdown, and HTML in a notebook.

        Under a budget it holds releases and public facts alone."""
        check_is_fitted(self)
        return Card.of(self)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if (state.get("record_") or {}).get("kind") == "shareable":
            # A pickle is made to be handed on: exact figures of the records do not go along.
            state.pop("private_record_", None)
        # Nor do models that are exact functions of one site's records.
        state.pop("_personal", None)
        return marked(state)

    def __sklearn_clone__(self) -> Any:
        clone: Any = _clone_parametrized(self)
        for mark in ("_charged_in", "_charged_to"):
            if hasattr(self, mark):
                setattr(clone, mark, getattr(self, mark))
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
        self._slopes = slope
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
        if getattr(self, "_file", None) is None or not (hasattr(self, "_model") or self._scouts()):
            raise InputError("this model has no file: fit with bounds=…, a budget and the default algorithm")
        file = json.loads(json.dumps(self._file))
        classes = getattr(self, "classes_", None)
        if classes is not None and not hasattr(self, "_model"):
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

    def _framed_answer(self, X: Any, site: Optional[str]) -> Optional[dict[str, Any]]:
        """What a model on frames says; ``None`` for one on rows of numbers."""
        check_is_fitted(self)
        if hasattr(self, "_model"):
            return self._applied(X, site)
        if site is not None:
            raise InputError("site=… needs a model on a schema or on bounds by column: fit with schema=… or bounds={…}")
        return None

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
        for left in ("_model", "_personal", "schema_", "feature_names_out_"):
            self.__dict__.pop(left, None)
        names = None
        if _streams(X):
            names, X = _arrow.columns(X)
        try:
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C", **how)
        except ValueError as error:
            if "could not convert string" not in str(error):
                raise
            raise InputError(
                f"{error}: text has no numbers. Categories come in as a data frame: a pandas or polars frame with category columns, bounds={{...}} "
                "by column, or schema=… (consenso.Schema.draft(frame) drafts one to review)"
            ) from None
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


@parameters(prevalence=None, class_weights=None)
class Classifier(_Tags, ClassifierMixin, Decentralized):
    """Classes by the sign of a score, or by the largest of several."""

    prevalence: Optional[float]
    class_weights: Any

    def decision_function(self, X: Any, site: Optional[str] = None) -> Floats:
        """Scores: positive for the second of two classes, one a class for more."""
        found = self._framed_answer(X, site)
        scores = self._scores(X) if found is None else np.array(found["scores"]).reshape(-1, found["outputs"])
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any, site: Optional[str] = None) -> Any:
        """The likeliest class of every row; ``site`` asks the model of one site, where they differ."""
        found = self._framed_answer(X, site)
        if found is not None:
            return self.classes_[np.array(found["predictions"], dtype=int)]
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def _weights(self) -> Optional[list[float]]:
        """How much the two classes count, where it is said: by given weights, or by their public shares."""
        said = self.class_weights
        if said is None or (isinstance(said, str) and said == "balanced" and self.prevalence is None):
            return None
        if isinstance(said, str):
            if said != "balanced":
                raise InputError(f'class_weights={said!r} must be "balanced" or two numbers, of the first and of the second class')
            share = float(self.prevalence or 0.0)
            return [0.5 / (1.0 - share), 0.5 / share]
        values = [said[c] for c in self.classes_] if isinstance(said, Mapping) else list(said)
        if len(values) != 2:
            raise InputError(f"class_weights has {len(values)} numbers: it is one of each of two classes")
        return [positive("class_weights", value) for value in values]

    def _several(self, y: Any) -> bool:
        """Whether there are more than two classes: those that the schema declares, or those that occur."""
        declared = None if self.schema is None else Schema(self.schema).find("label")
        if declared is not None:
            return len(declared.get("classes", [])) > 2
        if y is None:
            raise InputError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        return len({text_of(v) for v in np.asarray(y).ravel().tolist() if v is not None and v == v}) > 2

    def _check_share(self, count: int) -> None:
        if self.prevalence is None:
            return
        share = positive("prevalence", self.prevalence)
        if count > 2 or not 0.0005 <= share <= 0.9995:
            raise InputError(f"prevalence={share} must lie between 0.0005 and 0.9995, and there must be two classes ({count} here)")

    def _class_column(self, target: Any) -> dict[str, Any]:
        """The label's column of the schema, where nobody wrote one: the classes that occur are taken to be public."""
        texts = {text_of(v): v for v in target.values if v is not None}
        try:
            order = sorted(texts, key=lambda text: texts[text])
        except TypeError:
            order = sorted(texts)
        if len(order) < 2:
            raise InputError(f"y has one class only ({', '.join(order)}); two classes are needed")
        return {"classes": order}

    def _fit_classes(self, X: Any, y: Any, sites: Any, persons: Any, objective: dict[str, Any]) -> None:
        """Trains under a schema; ``classes_`` are the values of ``y`` in the order of the schema."""
        said = self.class_weights
        weights = None if isinstance(said, Mapping) else self._weights()
        if isinstance(said, str) or weights is not None:
            objective = {**objective, "class_weight": "balanced" if isinstance(said, str) else weights}
        given = {text_of(v): v for v in np.asarray(y).tolist()}
        self._fit_framed(X, y, sites, persons, objective, self._class_column)
        self.classes_ = np.array([given.get(name, name) for name in self._file["classes"]])
        self.coef_, self.intercept_ = self._linear

    def _classes(self, X: Any, y: Any) -> tuple[Floats, Floats]:
        """Checked rows, and labels as numbers of classes; ``classes_`` is set."""
        X, y = self._validate(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"y has one class only ({self.classes_[0]}); two classes are needed")
        return X, codes.astype(np.float64)


@parameters(bounds_y=None)
class Regressor(_Tags, RegressorMixin, Decentralized):
    """Numbers by a linear score."""

    bounds_y: Any

    def _range_column(self, target: Any) -> dict[str, Any]:
        """The label's column of the schema, where nobody wrote one."""
        try:
            y = np.array([v for v in target.values if v is not None], dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("y must be numbers") from None
        low, high = self._ends_of_y(y, 0.0)
        return {"min": low, "max": high}

    def _ends_of_y(self, y: Floats, room: float) -> tuple[float, float]:
        """The public range of the target; without a budget, what the records show."""
        if self.bounds_y is not None:
            try:
                low, high = map(float, self.bounds_y)
            except (TypeError, ValueError):
                raise InputError("bounds_y must be (lowest, highest), two numbers") from None
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise InputError("bounds_y: the lowest must be a finite number below the highest")
            return low, high
        if self.epsilon is not None:
            raise InputError(
                "bounds_y is missing, and it is never learnt from the data: give bounds_y=(lowest, highest), what is publicly "
                "known of the target"
            )
        if room:
            spread = float(y.std()) or 1.0
            return float(y.mean()) - room * spread, float(y.mean()) + room * spread
        low, high = float(y.min()), float(y.max())
        return (low, high) if low < high else (low - 0.5, low + 0.5)

    def _fit_numbers(self, X: Any, y: Any, sites: Any, persons: Any, objective: Mapping[str, Any]) -> None:
        """Trains under a schema."""
        self._fit_framed(X, y, sites, persons, objective, self._range_column)
        coef, intercept = self._linear
        self.coef_, self.intercept_ = coef[0], float(intercept[0])
        self.site_coefs_, self.site_intercepts_ = self.site_coefs_[:, 0], self.site_intercepts_[:, 0]

    def _fit(self, X: Any, y: Any, sites: Any, loss: Any) -> None:
        X, y = self._validate(X, y, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        low, high = self._ends_of_y(y, 1.0)
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

    def predict(self, X: Any, site: Optional[str] = None) -> Floats:
        """The prediction for every row; ``site`` asks the model of one site, where they differ."""
        found = self._framed_answer(X, site)
        return self._scores(X) if found is None else np.array(found["predictions"], dtype=np.float64)

    def predict_interval(self, X: Any, level: float = 0.9) -> Floats:
        """The interval in which the label of every row lies with this probability: one row a record, its lower and its upper end.

        Counts and amounts vary around their mean by the law of the model, numbers by a normal law whose deviation ``inference=True``
        finds; the uncertainty of the model is in it. Of the shared model, fitted under a schema or bounds by column.
        """
        check_is_fitted(self)
        if not hasattr(self, "_model"):
            raise InputError("intervals need a model on a schema or on bounds by column: fit with schema=… or bounds={…}")
        found = self._applied(X, None, float(level))
        return np.array(found["intervals"], dtype=np.float64).reshape(-1, 2)
