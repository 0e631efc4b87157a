"""Which rows are whose."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from ._core import InputError


def by_site(sites: Any, rows: int) -> tuple[Optional[npt.NDArray[np.int64]], list[int], list[str]]:
    """The order of rows by site (``None``: as they are), how many each has, and their names; one site where nothing is said."""
    if sites is None:
        return None, [rows], ["site 1"]
    labels = np.asarray(sites)
    if labels.ndim != 1 or len(labels) != rows:
        raise InputError(f"sites must name the site of each of the {rows} rows; its shape is {labels.shape}")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise InputError("sites: some rows have no site (NaN)")
    if labels.dtype == object and any(name is None or name != name for name in labels):
        raise InputError("sites: some rows have no site (None)")
    names, codes = np.unique(labels.astype(str) if labels.dtype == object else labels, return_inverse=True)
    counts = np.bincount(codes, minlength=len(names))
    sorted_already = bool((codes[:-1] <= codes[1:]).all())
    order = None if sorted_already else np.argsort(codes, kind="stable").astype(np.int64, copy=False)
    return order, counts.tolist(), [str(n) for n in names]
