"""Private decentralized machine learning.

Several sites train one model together; each keeps its records, sends only noised vectors to its neighbours,
and accounts for what it gave away with local differential privacy.

>>> import consenso
>>> clf = consenso.LogisticRegression(epsilon=1.0, bounds=(0, 100))  # doctest: +SKIP
>>> clf.fit(X, y, sites=hospital)                                    # doctest: +SKIP
>>> print(clf.claim_)                                                # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import accounting, benchmark, datasets, dp, noise
from ._ask import ask
from ._budget import BudgetAccountant, BudgetSpent
from ._claim import Claim
from ._cli import cli
from ._core import ConsensoError, InputError, __version__
from ._custom import CustomFit, CustomProblem, UpdateGate
from ._experiments import Record, built_in, reproduce, run
from ._model import Model, load_model
from ._schema import Schema
from ._site import Site, network

if TYPE_CHECKING:
    from . import preprocessing
    from ._estimators import (
        CoxPHSurvivalAnalysis,
        GammaRegressor,
        HuberRegressor,
        LinearSVC,
        LogisticRegression,
        NegativeBinomialRegressor,
        PoissonRegressor,
        ProbitRegression,
        QuantileRegressor,
        Ridge,
    )

__all__ = [
    "BudgetAccountant", "BudgetSpent", "Claim", "ConsensoError", "CoxPHSurvivalAnalysis", "CustomFit", "CustomProblem", "GammaRegressor", "HuberRegressor", "InputError",
    "LinearSVC", "LogisticRegression", "Model", "NegativeBinomialRegressor", "PoissonRegressor", "ProbitRegression", "QuantileRegressor",
    "Record", "Ridge", "Schema", "Site", "UpdateGate", "__version__", "accounting", "ask", "benchmark", "built_in", "cli", "datasets", "dp", "load_model", "network",
    "noise", "preprocessing", "reproduce", "run",
]

_ESTIMATORS = (
    "CoxPHSurvivalAnalysis", "GammaRegressor", "HuberRegressor", "LinearSVC", "LogisticRegression", "NegativeBinomialRegressor", "PoissonRegressor", "ProbitRegression",
    "QuantileRegressor", "Ridge",
)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    # scikit-learn takes most of a second to import: accounting and experiments do without it.
    if name in _ESTIMATORS:
        try:
            from . import _estimators
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "sklearn":
                raise
            raise ImportError(f"consenso.{name} is a scikit-learn estimator: pip install 'scikit-learn>=1.6'") from None

        return getattr(_estimators, name)
    if name == "preprocessing":
        import importlib

        return importlib.import_module(".preprocessing", __name__)
    raise AttributeError(f"module 'consenso' has no attribute {name!r}")
