"""Methods of one's own on a board."""

import math
import runpy
from pathlib import Path

import numpy as np

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_account_of_zip_dl_is_that_of_all_its_messages() -> None:
    """What it says of all rounds together is what their joint Gaussian law tells, for every agent of an uneven graph."""
    zip_dl = runpy.run_path(str(EXAMPLES / "zip_dl.py"))
    w = zip_dl["weights"](5, [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4)])
    for agent in range(5):
        for stretch in (1.0, 0.9):
            joint = zip_dl["exact"](w, agent, stretch, 3.0, 0.01, 8)
            distances = zip_dl["distances"](stretch, 8)
            ours = 0.01 / 3.0 * math.sqrt(zip_dl["shown"](w, agent) * np.sum(distances**2))
            assert abs(joint / ours - 1.0) < 1e-9


def test_noise_of_zip_dl_keeps_its_budget() -> None:
    """The noise that is needed spends the budget and no more, and cancels in the sum that a neighbourhood makes of it."""
    zip_dl = runpy.run_path(str(EXAMPLES / "zip_dl.py"))
    w = zip_dl["weights"](4, [(0, 1), (1, 2), (2, 3), (3, 0)])
    budget = zip_dl["mu_for"](1.0, 1e-5)
    noise = zip_dl["needed"](w, 0, 0.01, budget, 1.0, 10)
    spent = 0.01 / noise * math.sqrt(zip_dl["shown"](w, 0) * np.sum(zip_dl["distances"](1.0, 10) ** 2))
    assert abs(spent / budget - 1.0) < 1e-12
    assert abs(zip_dl["spent"](budget, 1e-5) - 1.0) < 1e-3
    around, mixing = zip_dl["correlation"](w, 0)
    assert np.abs(w[0, around] @ mixing).max() < 1e-15
