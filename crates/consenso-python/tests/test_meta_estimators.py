"""Whatever scikit-learn does with an estimator, every private fit is charged to the accountant around it, or refused."""

import json

import numpy as np
import pytest

import consenso
from consenso import _core

pytest.importorskip("sklearn")
from sklearn import calibration, compose, ensemble, feature_selection, model_selection, multiclass, multioutput, pipeline, semi_supervised  # noqa: E402
from sklearn.experimental import enable_halving_search_cv  # noqa: E402, F401
from sklearn.preprocessing import FunctionTransformer  # noqa: E402

GRID = {"regularization": [1e-3, 1e-2]}


def classifier():
    return consenso.LogisticRegression(epsilon=1.0, bounds=(-4, 8), random_state=1)


def regressor():
    return consenso.Ridge(epsilon=1.0, bounds=(-4, 8), bounds_y=(-4, 8), random_state=1)


rng = np.random.default_rng(0)
y3 = rng.integers(3, size=240)
X = rng.normal(size=(240, 3)) + 3.0 * np.eye(3)[y3]
y2 = (y3 > 0).astype(int)
two = np.column_stack([y2, (y3 > 1).astype(int)])
numbers = np.column_stack([X[:, 0], X[:, 1]])
unlabelled = np.where(np.arange(240) % 3 == 0, -1, y2)

CASES = {
    "grid": lambda: model_selection.GridSearchCV(classifier(), GRID, cv=2, error_score="raise").fit(X, y2),
    "random": lambda: model_selection.RandomizedSearchCV(classifier(), GRID, n_iter=2, cv=2, error_score="raise").fit(X, y2),
    "halving": lambda: model_selection.HalvingGridSearchCV(classifier(), GRID, cv=2, error_score="raise").fit(X, y2),
    "score": lambda: model_selection.cross_val_score(classifier(), X, y2, cv=3, error_score="raise"),
    "validate": lambda: model_selection.cross_validate(classifier(), X, y2, cv=2, error_score="raise"),
    "predict": lambda: model_selection.cross_val_predict(classifier(), X, y2, cv=2),
    "learning curve": lambda: model_selection.learning_curve(classifier(), X, y2, cv=2, train_sizes=[0.5, 1.0], error_score="raise"),
    "validation curve": lambda: model_selection.validation_curve(
        classifier(), X, y2, param_name="regularization", param_range=[1e-3, 1e-2], cv=2, error_score="raise"
    ),
    "permutations": lambda: model_selection.permutation_test_score(classifier(), X, y2, cv=2, n_permutations=2),
    "threshold": lambda: model_selection.TunedThresholdClassifierCV(classifier(), cv=2).fit(X, y2),
    "fixed threshold": lambda: model_selection.FixedThresholdClassifier(classifier()).fit(X, y2),
    "bagging": lambda: ensemble.BaggingClassifier(classifier(), n_estimators=2).fit(X, y2),
    "pasting": lambda: ensemble.BaggingClassifier(classifier(), n_estimators=2, bootstrap=False, max_samples=0.5).fit(X, y2),
    "bagged regression": lambda: ensemble.BaggingRegressor(regressor(), n_estimators=2).fit(X, X[:, 0]),
    "boosting": lambda: ensemble.AdaBoostClassifier(classifier(), n_estimators=2).fit(X, y2),
    "voting": lambda: ensemble.VotingClassifier([("a", classifier()), ("b", classifier())]).fit(X, y2),
    "voting regression": lambda: ensemble.VotingRegressor([("a", regressor()), ("b", regressor())]).fit(X, X[:, 0]),
    "stacking": lambda: ensemble.StackingClassifier([("a", classifier())], cv=2).fit(X, y2),
    "one against rest": lambda: multiclass.OneVsRestClassifier(classifier()).fit(X, y3),
    "one against one": lambda: multiclass.OneVsOneClassifier(classifier()).fit(X, y3),
    "codes": lambda: multiclass.OutputCodeClassifier(classifier(), random_state=0).fit(X, y3),
    "chain": lambda: multioutput.ClassifierChain(classifier()).fit(X, two),
    "outputs": lambda: multioutput.MultiOutputClassifier(classifier()).fit(X, two),
    "output numbers": lambda: multioutput.MultiOutputRegressor(regressor()).fit(X, numbers),
    "chain of numbers": lambda: multioutput.RegressorChain(regressor()).fit(X, numbers),
    "calibration": lambda: calibration.CalibratedClassifierCV(classifier(), cv=2).fit(X, y2),
    "self-training": lambda: semi_supervised.SelfTrainingClassifier(classifier(), max_iter=2).fit(X, unlabelled),
    "elimination": lambda: feature_selection.RFE(classifier(), n_features_to_select=1).fit(X, y2),
    "elimination by folds": lambda: feature_selection.RFECV(classifier(), cv=2).fit(X, y2),
    "selection": lambda: feature_selection.SequentialFeatureSelector(classifier(), n_features_to_select=1, cv=2).fit(X, y2),
    "pipeline": lambda: pipeline.make_pipeline(FunctionTransformer(np.tanh), classifier()).fit(X, y2),
    "target": lambda: compose.TransformedTargetRegressor(regressor(), func=np.tanh, inverse_func=np.arctanh).fit(X, X[:, 0]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_every_fit_is_charged_or_refused(name, monkeypatch):
    fits, real = [], _core.fit

    def counted(options, *rest):
        fits.append(json.loads(options)["epsilon"])
        return real(options, *rest)

    monkeypatch.setattr(_core, "fit", counted)
    refused = None
    with consenso.BudgetAccountant(100.0, 1e-6) as budget:
        try:
            CASES[name]()
        except (consenso.InputError, ValueError) as error:
            refused = error
    studies = json.loads(budget._budget.standing())["studies"]
    assert studies == len(fits), "a private fit that nobody counted"
    assert studies > 0 or refused is not None
    if refused is not None:
        assert "records are equal" in str(refused) or "sample_weight" in str(refused), refused
