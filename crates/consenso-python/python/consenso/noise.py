"""Exact noise: Laplace and Gaussian as if in real arithmetic, rounded to a grid, so that ε in floating point is the ε of the proof."""

from __future__ import annotations

import math
import numbers
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from . import _core
from ._core import InputError

__all__ = ["gaussian", "laplace"]


def laplace(values: npt.ArrayLike, scale: float, *, seed: Optional[int] = None) -> npt.NDArray[np.float64]:
    """Return ``values`` with independent Laplace noise of this scale.

    Parameters
    ----------
    values : array-like of float
        What to hide, of any shape.
    scale : float
        Scale b of the density e^(−|x|/b)/(2b).
    seed : int, optional
        Repeats the noise, for science; by default it comes from the operating system, which a privacy claim needs.
    """
    return _noise("laplace", values, scale, seed)


def gaussian(values: npt.ArrayLike, sigma: float, *, seed: Optional[int] = None) -> npt.NDArray[np.float64]:
    """Return ``values`` with independent Gaussian noise of standard deviation ``sigma``; as :func:`laplace` otherwise."""
    return _noise("gaussian", values, sigma, seed)


def _noise(kind: str, values: npt.ArrayLike, scale: float, seed: Any) -> npt.NDArray[np.float64]:
    try:
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"values are not numbers: {error}") from None
    if seed is not None and not (isinstance(seed, (int, np.integer)) and 0 <= int(seed) < 2**64):
        raise InputError(f"seed={seed!r} must be a whole number from 0")
    if not (isinstance(scale, numbers.Real) and math.isfinite(scale) and scale > 0):
        raise InputError(f"{'scale' if kind == 'laplace' else 'sigma'}={scale!r} must be a positive number")
    try:
        released, _ = _core.noise(kind, array.reshape(-1), float(scale), None if seed is None else int(seed))
    except InputError:
        if not np.isfinite(array).all():
            raise InputError("values must be finite: NaN or infinity is among them") from None
        raise
    return released.reshape(np.shape(values))
