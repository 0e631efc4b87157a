"""scikit-learn's own checks: all of them without privacy, all but those named here with it."""

import pytest

import consenso

checks = pytest.importorskip("sklearn.utils.estimator_checks")

# Why a check cannot pass under a budget that is kept.
NOISY = {
    "check_fit2d_1sample": "one record leaves nothing to learn under a budget",
}

OPEN = [consenso.LogisticRegression(epsilon=None), consenso.Ridge(epsilon=None), consenso.HuberRegressor(epsilon=None)]


@checks.parametrize_with_checks(OPEN)
def test_without_privacy(estimator, check):
    check(estimator)


KEPT = [
    consenso.LogisticRegression(epsilon=1.0, bounds=(-100, 100), random_state=0),
    consenso.Ridge(epsilon=1.0, bounds=(-100, 100), bounds_y=(-100, 100), random_state=0),
]


@checks.parametrize_with_checks(KEPT, expected_failed_checks=lambda _: NOISY)
def test_under_a_budget(estimator, check):
    check(estimator)
