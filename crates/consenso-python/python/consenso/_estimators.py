"""Estimators that scikit-learn accepts, by the names people know."""

from __future__ import annotations

import math
from typing import Any, Optional

import numpy as np

from ._base import Classifier, Floats, Regressor, parameters, positive
from ._claim import Claim
from ._core import InputError
from ._survival import CoxPHSurvivalAnalysis

__all__ = [
    "Claim", "CoxPHSurvivalAnalysis", "GammaRegressor", "HuberRegressor", "LinearSVC", "LogisticRegression", "NegativeBinomialRegressor", "PoissonRegressor",
    "ProbitRegression", "QuantileRegressor", "Ridge",
]


class LogisticRegression(Classifier):
    """Logistic regression that several sites fit together, each under a privacy budget of its own.

    Parameters
    ----------
    epsilon : float or None, default=1.0
        The budget ε of every site's records; ``None`` fits without privacy.
    delta : float, default=1e-6
        The budget's δ.
    bounds : (lowest, highest) or dict, optional
        What is publicly known of each column: two numbers, or two sequences with one a column; or a dict by column, with (lowest, highest)
        for a number and a list of categories. Values outside are moved to the nearest end. Bounds are never learnt from the data.
    data_norm : float, optional
        Longest row that counts; longer ones are shortened. 1.0 after ``bounds``; without ``bounds`` rows are used as they are.
    schema : path, dict or Schema, optional
        The public schema of a frame: a schema file of the command line, a dict by column, or :meth:`consenso.Schema.draft`, reviewed. Frames
        (pandas, polars, Arrow) with categories, booleans, dates and missing values are then encoded and trained on as the command line
        does, with the same bits for the same seed. Without it, category dtypes carry their levels, which are taken to be public.
    categorical_features : "from_dtype", list or mask, optional
        Columns that are categories whatever their dtype; their categories come from ``bounds`` or ``schema``.
    unknown : {"error", "ignore", "other"}, default="error"
        What becomes of a category that is not declared. "ignore" predicts without that column, and in a fit counts as missing; "other" takes the
        category called "other".
    models : {"shared", "personal"}, default="shared"
        "personal" has every site also fit its own records around the shared model, for itself; ``predict(X, site="a")`` asks that model. It is
        an exact function of the site's records that no claim covers, costs no budget, and stays out of pickles and model files.
    graph : str, default="complete"
        Who talks to whom: "complete", "ring", "path", "star", "grid", "regular:4", "random:20", "small-world:4:0.1".
    algorithm : str or dict, default="dgd"
        The algorithm, or its ``[[algorithm]]`` table; "auto" is the recommended one, for frames under a schema.
    trust : {"local", "correlated", "shares", "masked"}, default="local"
        "local" trusts nobody: each site's messages are private by themselves. "correlated" adds noise that neighbours share and that cancels.
        "shares" reveals only sums of secret shares, with noise that sites add together; three sites or more on a complete graph. "masked"
        does the same on any connected graph.
    colluders : int, optional
        How many sites may pool what they know, for every trust but "local".
    drop_outs : int, optional
        How many sites may drop out of masked sums.
    rounds : int, optional
        Rounds that use records; chosen from public quantities by default.
    regularization : float, default=0.001
        μ of (μ/2)‖x‖² beside the mean loss, in scaled columns.
    fit_intercept : bool, default=True
        Whether to add a column of ones.
    prevalence : float, optional
        The share of the second of two classes, where it is publicly known, as ``prevalence`` of a schema's label: it need not be scouted.
    class_weights : "balanced" or two numbers, optional
        How much the two classes count. "balanced" lets each count half by ``prevalence``, or by a share that is estimated within the
        budget where columns are scouted. A rare class costs more noise.
    neighbours : {"replace-one", "add-remove"}, default="replace-one"
        Which data sets the budget makes indistinguishable.
    records_per_person : int, optional
        With ``fit(…, persons=…)``: how many records of one person count; the claim is then about all of them.
    accountant : BudgetAccountant, optional
        Charged with what a fit costs, before it begins.
    random_state : int, optional
        A seed, for science: the claim then says that it holds only for noise of the operating system, the default.
    progress : bool, optional
        Whether to show how far a fit is; by default in a terminal and in a notebook, once it takes half a second.
    inference : bool or float, default=False
        Whether to find standard errors, intervals and p-values within the budget; a number is the level of the intervals, 0.95 for True.
        Half of the budget goes there: leave it off for the best predictions.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        The mean of the sites' models, in the units of X; of a frame one a number or category, named in ``feature_names_out_``.
    schema_ : Schema
        The schema of a frame.
    coef_noise_ : ndarray or None
        The standard deviation that the privacy noise alone gives every coefficient; sampling error comes on top.
    inference_ : dict or None
        With ``inference``: ``coefficients`` (feature, estimate, std_error, low, high, p), ``covariance``, ``tests``; :meth:`summary` prints it.
    site_coefs_, site_intercepts_ : ndarray
        The model of every site.
    claim_ : Claim or None
        What is claimed about privacy.
    record_ : dict, with to_pandas()
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

    __metadata_request__fit = {"sites": True, "persons": True}

    def fit(self, X: Any, y: Any, sites: Any = None, persons: Any = None) -> "LogisticRegression":
        """Fit the model; ``sites`` names the site of every row, one site by default, and ``persons`` whom it is about."""
        if self._is_framed(X, persons) or (self.prevalence is not None and self._scouts()) or self.algorithm == "auto":
            several = self._several(y)
            self._check_share(3 if several else 2)
            self._fit_classes(X, y, sites, persons, {"loss": "softmax" if several else "logistic"})
            return self
        X, labels = self._classes(X, y)
        count = len(self.classes_)
        self._check_share(count)
        loss: dict[str, Any] = {"loss": "logistic"} if count == 2 else {"loss": "softmax", "classes": count}
        weights = self._weights()
        if weights is not None:
            if count > 2:
                raise InputError(f"class_weights is of two classes, and y has {count}")
            loss = {"loss": "weighted-logistic", "clip": 1.0, "negative": weights[0], "positive": weights[1]}
        elif self.class_weights is not None:
            raise InputError('class_weights="balanced" needs prevalence=…, the public share of the second class, or bounds by column (schema=…)')
        if count == 2:
            labels = 2.0 * labels - 1.0
        self._train(X, labels, sites, loss, None)
        self.coef_, self.intercept_ = self._linear
        return self

    def predict_proba(self, X: Any, site: Optional[str] = None) -> Floats:
        """The probability of every class; ``site`` asks the model of one site, where they differ."""
        found = self._framed_answer(X, site)
        if found is not None:
            return _probabilities(found)
        scores = self.decision_function(X)
        if scores.ndim == 1:
            second = 0.5 * (1.0 + np.tanh(0.5 * scores))
            return np.column_stack([1.0 - second, second])
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def predict_log_proba(self, X: Any, site: Optional[str] = None) -> Floats:
        """The logarithm of every probability."""
        return np.log(np.maximum(self.predict_proba(X, site), np.finfo(np.float64).tiny))


def _probabilities(found: dict[str, Any]) -> Floats:
    rows = np.array(found["probabilities"], dtype=np.float64).reshape(len(found["predictions"]), -1)
    return np.column_stack([1.0 - rows[:, 0], rows[:, 0]]) if rows.shape[1] == 1 else rows


class LinearSVC(Classifier):
    """A linear support vector machine for two classes: squared hinge loss, slopes clipped at 1, no probabilities.

    Parameters and attributes are those of :class:`LogisticRegression`.
    """

    __metadata_request__fit = {"sites": True, "persons": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sites: Any = None, persons: Any = None) -> "LinearSVC":
        """Fit the model; ``sites`` names the site of every row, one site by default, and ``persons`` whom it is about."""
        if self._is_framed(X, persons):
            if self._several(y):
                raise InputError("Only binary classification is supported: LogisticRegression takes several classes")
            self._check_share(2)
            self._fit_classes(X, y, sites, persons, {"loss": "squared-hinge"})
            return self
        X, labels = self._classes(X, y)
        if len(self.classes_) > 2:
            raise InputError(
                f"Only binary classification is supported: y has {len(self.classes_)} classes; LogisticRegression takes several"
            )
        loss: dict[str, Any] = {"loss": "squared-hinge", "clip": 1.0}
        self._check_share(2)
        weights = self._weights()
        if weights is not None:
            loss = {"loss": "weighted-squared-hinge", "clip": 1.0, "negative": weights[0], "positive": weights[1]}
        self._train(X, 2.0 * labels - 1.0, sites, loss, None)
        self.coef_, self.intercept_ = self._linear
        return self


class ProbitRegression(Classifier):
    """Two classes, whose probability is that of a normal law; frames under ``schema`` or ``bounds``.

    Parameters and attributes are those of :class:`LogisticRegression`.
    """

    __metadata_request__fit = {"sites": True, "persons": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sites: Any = None, persons: Any = None) -> "ProbitRegression":
        """Fit the model; ``sites`` names the site of every row, one site by default, and ``persons`` whom it is about."""
        if self._several(y):
            raise InputError("Only binary classification is supported: LogisticRegression takes several classes")
        self._check_share(2)
        self._fit_classes(X, y, sites, persons, {"loss": "probit"})
        return self

    def predict_proba(self, X: Any, site: Optional[str] = None) -> Floats:
        """The probability of every class; ``site`` asks the model of one site, where they differ."""
        found = self._framed_answer(X, site)
        assert found is not None
        return _probabilities(found)


@parameters(clip=1.0)
class Ridge(Regressor):
    """Least squares that several sites fit together, each under a privacy budget of its own.

    Parameters are those of :class:`LogisticRegression`, and:

    Parameters
    ----------
    bounds_y : (lowest, highest), optional
        What is publicly known of the target; needed under a budget.
    clip : float, default=1.0
        Largest residual of a record that counts under a budget, in half widths of ``bounds_y``.
    """

    clip: float
    __metadata_request__fit = {"sites": True, "persons": True}

    def fit(self, X: Any, y: Any, sites: Any = None, persons: Any = None) -> "Ridge":
        """Fit the model; ``sites`` names the site of every row, one site by default, and ``persons`` whom it is about."""
        # Without a budget nothing needs clipping; the number stands for none and is read as such.
        clip = positive("clip", self.clip) if self.epsilon is not None else 1e300
        if self._is_framed(X, persons) or self.algorithm == "auto":
            self._fit_numbers(X, y, sites, persons, {"loss": "ridge"})
            return self
        # Scouted columns clip the gradient of a record as a whole.
        loss: dict[str, Any] = {"loss": "ridge"} if self._scouts() else {"loss": "ridge", "clip": clip}
        self._fit(X, y, sites, lambda: loss)
        return self


@parameters(huber_delta=1.0)
class HuberRegressor(Regressor):
    """Robust regression that several sites fit together: residuals beyond ``huber_delta`` count linearly.

    Parameters are those of :class:`Ridge`, with ``huber_delta`` (in half widths of ``bounds_y``, or in standard deviations of y
    without a budget) instead of ``clip``.
    """

    huber_delta: float
    __metadata_request__fit = {"sites": True, "persons": True}

    def fit(self, X: Any, y: Any, sites: Any = None, persons: Any = None) -> "HuberRegressor":
        """Fit the model; ``sites`` names the site of every row, one site by default, and ``persons`` whom it is about."""
        delta = positive("huber_delta", self.huber_delta)
        if self._is_framed(X, persons) or self.algorithm == "auto":
            self._fit_numbers(X, y, sites, persons, {"loss": "huber", "huber_delta": delta})
            return self
        self._fit(X, y, sites, lambda: {"loss": "huber", "delta": delta})
        return self


class PoissonRegressor(Regressor):
    """Counts with a log link, fitted together; ``bounds_y=(0, most)`` says how many are counted at most.

    Parameters are those of :class:`Ridge` but for ``clip``; columns need ``bounds`` or ``schema`` under a budget.
    """

    __metadata_request__fit = {"sites": True, "persons": True}

    def fit(self, X: Any, y: Any, sites: Any = None, persons: Any = None) -> "PoissonRegressor":
        """Fit the model; ``sites`` names the site of every row, one site by default, and ``persons`` whom it is about."""
        self._fit_numbers(X, y, sites, persons, {"loss": "poisson"})
        return self


class GammaRegressor(Regressor):
    """Positive amounts with a log link, fitted together; parameters are those of :class:`PoissonRegressor`."""

    __metadata_request__fit = {"sites": True, "persons": True}

    def fit(self, X: Any, y: Any, sites: Any = None, persons: Any = None) -> "GammaRegressor":
        """Fit the model; ``sites`` names the site of every row, one site by default, and ``persons`` whom it is about."""
        self._fit_numbers(X, y, sites, persons, {"loss": "gamma"})
        return self


@parameters(dispersion=None)
class NegativeBinomialRegressor(Regressor):
    """Counts that vary more than Poisson's, with a log link: their variance is m + ``dispersion``·m² at a mean m.

    Parameters are those of :class:`PoissonRegressor`, and ``dispersion``, the public α; the library's default where it is ``None``.
    """

    dispersion: Optional[float]
    __metadata_request__fit = {"sites": True, "persons": True}

    def fit(self, X: Any, y: Any, sites: Any = None, persons: Any = None) -> "NegativeBinomialRegressor":
        """Fit the model; ``sites`` names the site of every row, one site by default, and ``persons`` whom it is about."""
        objective: dict[str, Any] = {"loss": "negative-binomial"}
        if self.dispersion is not None:
            objective["dispersion"] = positive("dispersion", self.dispersion)
        self._fit_numbers(X, y, sites, persons, objective)
        return self


@parameters(quantile=0.5)
class QuantileRegressor(Regressor):
    """A quantile of a number, the median by default; parameters are those of :class:`PoissonRegressor`, and ``quantile``."""

    quantile: float
    __metadata_request__fit = {"sites": True, "persons": True}

    def fit(self, X: Any, y: Any, sites: Any = None, persons: Any = None) -> "QuantileRegressor":
        """Fit the model; ``sites`` names the site of every row, one site by default, and ``persons`` whom it is about."""
        at = positive("quantile", self.quantile)
        if not at < 1.0 or math.isnan(at):
            raise InputError(f"quantile={self.quantile!r} must lie between 0 and 1")
        self._fit_numbers(X, y, sites, persons, {"loss": "quantile", "quantile": at})
        return self
