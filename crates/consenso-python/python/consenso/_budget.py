"""A budget that several fits share."""

from __future__ import annotations

import math
import os
import threading
from typing import Any, Optional

from ._core import ConsensoError, InputError


class BudgetSpent(ConsensoError):
    """A fit would spend more than the accountant's limit; nothing was run."""


class BudgetAccountant:
    """Adds up what fits on the same records spend, and refuses the one that would exceed the limit.

    Costs are added (basic composition), which holds whatever is chosen after looking at earlier results. A search that
    fits on folds of the same records is charged for every fit.

    Parameters
    ----------
    epsilon : float
        Limit of the sum of ε.
    delta : float, default=0.0
        Limit of the sum of δ.

    Examples
    --------
    >>> from consenso import BudgetAccountant
    >>> with BudgetAccountant(epsilon=3.0, delta=1e-5) as budget:
    ...     budget.spend(1.0, 1e-6)
    >>> budget.spent
    (1.0, 1e-06)
    """

    _active: list["BudgetAccountant"] = []

    def __init__(self, epsilon: float, delta: float = 0.0) -> None:
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise InputError(f"epsilon={epsilon} must be a positive number")
        if not 0.0 <= delta < 1.0:
            raise InputError(f"delta={delta} must be at least 0 and below 1")
        self.epsilon = float(epsilon)
        self.delta = float(delta)
        self._costs: list[tuple[float, float]] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    @property
    def spent(self) -> tuple[float, float]:
        """What was spent so far: Σ ε and Σ δ."""
        epsilon, delta = _sum(self._costs)
        return epsilon, delta

    @property
    def remaining(self) -> tuple[float, float]:
        """What may still be spent, rounded down."""
        epsilon, delta = self.spent
        return max(0.0, math.nextafter(self.epsilon - epsilon, 0.0)), max(0.0, self.delta - delta)

    def spend(self, epsilon: float, delta: float) -> None:
        """Charge a cost before the work that has it begins.

        Raises
        ------
        BudgetSpent
            If the sum would exceed the limit; nothing is charged then.
        InputError
            In another process than the one that made it (a fork holds a copy, whose spending nobody adds up).
        """
        if os.getpid() != self._process:
            raise InputError(
                "this BudgetAccountant is a copy that a fork made: what is spent here would not be counted in the process that made it; use "
                'n_jobs=1, or threads with joblib.parallel_config(backend="threading")'
            )
        if not (epsilon >= 0 and delta >= 0):
            raise InputError(f"a cost of ({epsilon}, {delta}) is not one")
        with self._lock:
            # The exact sum, rounded once: ten parts of a tenth of the limit fit, and nothing beyond does.
            after = _sum([*self._costs, (epsilon, delta)])
            if after[0] > self.epsilon or after[1] > self.delta:
                spent = _sum(self._costs)
                raise BudgetSpent(
                    f"this fit would spend ε = {epsilon:g}, δ = {delta:g} beside ε = {spent[0]:g}, δ = {spent[1]:g} "
                    f"spent already, and the limit is ε = {self.epsilon:g}, δ = {self.delta:g}"
                )
            self._costs.append((float(epsilon), float(delta)))

    def __enter__(self) -> "BudgetAccountant":
        BudgetAccountant._active.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        BudgetAccountant._active.remove(self)

    def __deepcopy__(self, _: Any) -> "BudgetAccountant":
        # scikit-learn copies parameters of every estimator it clones: copies of a budget would be a larger budget.
        return self

    def __copy__(self) -> "BudgetAccountant":
        return self

    def __reduce__(self) -> Any:
        raise InputError(
            "a BudgetAccountant cannot leave its process: what others spend would not be counted; use n_jobs=1"
        )

    def __repr__(self) -> str:
        epsilon, delta = self.spent
        return f"BudgetAccountant(spent ε={epsilon:g} of {self.epsilon:g}, δ={delta:g} of {self.delta:g})"


def _sum(costs: list[tuple[float, float]]) -> tuple[float, float]:
    return math.fsum(c[0] for c in costs), math.fsum(c[1] for c in costs)


def marked(state: dict[str, Any]) -> dict[str, Any]:
    """What goes to another process, with the mark that a budget is kept in this one, where it is."""
    if BudgetAccountant._active:
        state.setdefault("_charged_in", os.getpid())
    return state


def refuse_elsewhere(given: Any) -> None:
    """Refuse what was marked in another process: nobody would count what it spends."""
    if getattr(given, "_charged_in", os.getpid()) != os.getpid():
        raise InputError(
            f"this {type(given).__name__} came from another process, where a BudgetAccountant counts what is spent: a fit here would not "
            'be counted; use n_jobs=1, or threads with joblib.parallel_config(backend="threading")'
        )


def accountants(own: Optional[BudgetAccountant]) -> list[BudgetAccountant]:
    """All that a fit is charged to: the estimator's own and those of enclosing `with` blocks, each once."""
    found = list(BudgetAccountant._active)
    if own is not None and own not in found:
        found.append(own)
    return found
