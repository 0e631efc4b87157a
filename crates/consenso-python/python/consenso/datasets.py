"""Records that come with the package, to try things on."""

from __future__ import annotations

import json
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from . import _core

__all__ = ["Adult", "load_adult"]

Floats = npt.NDArray[np.float64]


class Adult:
    """UCI Adult (Becker and Kohavi, 1996): does a person earn more than 50,000 dollars a year?

    Attributes
    ----------
    data, test_data : ndarray of shape (30162, 14) and (15060, 14)
        The features as numbers; a category is its place in ``categories``.
    target, test_target : ndarray
        1.0 for an income above 50,000 dollars, 0.0 otherwise.
    feature_names : list of str
        Names of the columns.
    categories : list of (list of str or None)
        The categories of every column, from the public documentation; ``None`` where it holds a number.
    bounds : (list of float, list of float)
        The public range of every column, as the estimators' ``bounds``.
    """

    def __init__(self) -> None:
        train, labels, test, test_labels, about = _core.adult()
        columns: list[dict[str, Any]] = json.loads(about)
        self.feature_names = [str(column["name"]) for column in columns]
        self.categories: list[Optional[list[str]]] = [column.get("categories") for column in columns]
        self.bounds = ([float(column["low"]) for column in columns], [float(column["high"]) for column in columns])
        self.data: Floats = train.reshape(-1, len(columns))
        self.target: Floats = labels
        self.test_data: Floats = test.reshape(-1, len(columns))
        self.test_target: Floats = test_labels

    def one_hot(self, rows: Floats) -> Floats:
        """Give every category a column of its own, and scale numbers to [0, 1] by their public range."""
        parts = []
        for column, (names, low, high) in enumerate(zip(self.categories, *self.bounds)):
            values = rows[:, column]
            if names is None:
                parts.append(((np.clip(values, low, high) - low) / (high - low))[:, None])
            else:
                parts.append((values[:, None] == np.arange(len(names))).astype(np.float64))
        return np.concatenate(parts, axis=1)

    def __repr__(self) -> str:
        return f"Adult({len(self.data)} records and {len(self.test_data)} to test on, {len(self.feature_names)} columns)"


def load_adult() -> Adult:
    """The bundled Adult records, without those that have a missing value.

    Returns
    -------
    Adult

    Examples
    --------
    >>> from consenso.datasets import load_adult
    >>> load_adult().data.shape
    (30162, 14)
    """
    return Adult()
