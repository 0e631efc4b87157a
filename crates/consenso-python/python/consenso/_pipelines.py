"""What goes on around a private fit that a claim does not cover."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Iterator

__all__ = ["warn_of_what_is_around"]


def _around(kind: str, name: str) -> Iterator[Any]:
    """Objects of a scikit-learn class, or below it, whose methods are running."""
    module = sys.modules.get(kind)
    cls = getattr(module, name, None)
    frame = sys._getframe(2) if cls is not None else None
    while frame is not None:
        found = frame.f_locals.get("self")
        if cls is not None and isinstance(found, cls):
            yield found
        frame = frame.f_back


def warn_of_what_is_around(estimator: str) -> None:
    """Warn where a pipeline learns exact figures of the records before a private fit, or an ensemble draws records several times."""
    for pipeline in _around("sklearn.pipeline", "Pipeline"):
        for name, step in pipeline.steps[:-1]:
            if step in (None, "passthrough") or not _learns(step):
                continue
            warnings.warn(
                f'the step "{name}" of the pipeline ({type(step).__name__}) learns exact figures of the records, which the claim of {estimator} does '
                "not cover: use consenso.preprocessing.StandardScaler or KBinsDiscretizer, which learn them within a budget, or a step that learns "
                "nothing (FunctionTransformer with public numbers)",
                UserWarning,
                stacklevel=5,
            )
        break
    for ensemble in _around("sklearn.ensemble", "BaseEnsemble"):
        if getattr(ensemble, "bootstrap", False):
            warnings.warn(
                f"{type(ensemble).__name__} draws records with replacement: whoever is drawn k times is told about k times as much as the claim of "
                f"{estimator} says; use bootstrap=False",
                UserWarning,
                stacklevel=5,
            )
        break


def _learns(step: Any) -> bool:
    """Whether a transformer learns from records; ours do so within a budget."""
    if getattr(step, "_consenso_private", False):
        return False
    try:
        from sklearn.utils import get_tags

        return bool(get_tags(step).requires_fit)
    except Exception:  # an object that has no tags may do anything
        return True
