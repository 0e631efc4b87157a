"""scikit-learn's own checks: all of them without privacy, the same with it, but for scores, which the tag poor_score excuses."""

import pytest

import consenso

checks = pytest.importorskip("sklearn.utils.estimator_checks")

OPEN = [
    consenso.LogisticRegression(epsilon=None),
    consenso.LinearSVC(epsilon=None),
    consenso.Ridge(epsilon=None),
    consenso.HuberRegressor(epsilon=None),
]


@checks.parametrize_with_checks(OPEN)
def test_without_privacy(estimator, check):
    check(estimator)


KEPT = [
    consenso.LogisticRegression(epsilon=1.0, bounds=(-100, 100), random_state=0),
    consenso.LinearSVC(epsilon=1.0, bounds=(-100, 100), random_state=0),
    consenso.Ridge(epsilon=1.0, bounds=(-100, 100), bounds_y=(-100, 100), random_state=0),
    consenso.HuberRegressor(epsilon=1.0, bounds=(-100, 100), bounds_y=(-100, 100), random_state=0),
]


@checks.parametrize_with_checks(KEPT)
def test_under_a_budget(estimator, check):
    check(estimator)
