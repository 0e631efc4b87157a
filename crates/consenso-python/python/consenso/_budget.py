"""A budget that several fits share."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from typing import Any, Callable, Optional, Union

import numpy as np

from . import _core
from ._core import ConsensoError, InputError


class BudgetSpent(ConsensoError):
    """A fit would spend more than the accountant's limit; nothing was run."""


class BudgetAccountant:
    """Adds up what fits on the same records spend, and refuses the one that would exceed the limit.

    Costs are added as the ledger of the command line adds them: fits with Gaussian noise by Gaussian differential privacy (ten fits
    of ε = 1 are ε = 3.5 at δ = 1e-6), others by concentrated privacy or by plain sums, which the first fit decides. Each rule holds
    whatever is chosen after looking at earlier results. A search that fits on folds of the same records is charged for every fit.

    Parameters
    ----------
    epsilon : float
        Limit of ε.
    delta : float, default=0.0
        Limit of δ; with Gaussian noise, the δ at which ε is counted.
    equal_records : {"refuse", "charge", "people"}, default="refuse"
        What equal records of a fit are. Bootstrapping (``BaggingClassifier``, ``resample``) puts a record in several times, and a
        claim about one record says less about all its copies. A fit on records of which some are equal is refused, or charged as
        what it costs somebody whose records are as many as the most that are equal; ``"people"`` declares that equal records are of
        different people.
    path : path, optional
        A file that keeps what was spent, in the format of the command line's ledgers. Processes lock it, so that ``n_jobs=2`` is
        counted. Its limit can be lowered later and never raised, and fits with ``random_state`` are refused.
    rule : {None, "sum"}, default=None
        ``"sum"`` adds ε and δ whatever the noise.

    Examples
    --------
    >>> from consenso import BudgetAccountant
    >>> with BudgetAccountant(epsilon=3.0, delta=1e-5) as budget:
    ...     budget.spend(1.0, 1e-6)
    >>> budget.spent
    (1.0, 1e-06)
    """

    _active: list["BudgetAccountant"] = []

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        equal_records: str = "refuse",
        path: Union[str, "os.PathLike[str]", None] = None,
        rule: Optional[str] = None,
    ) -> None:
        if equal_records not in ("refuse", "charge", "people"):
            raise InputError(f'equal_records={equal_records!r} must be "refuse", "charge" or "people"')
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise InputError(f"epsilon={epsilon} must be a positive number")
        if not 0.0 <= delta < 1.0:
            raise InputError(f"delta={delta} must be at least 0 and below 1")
        self.epsilon = float(epsilon)
        self.delta = float(delta)
        self.equal_records = equal_records
        self.path = None if path is None else os.path.abspath(path)
        self.rule = rule
        self._budget = _core.Budget(self.epsilon, self.delta, rule, self.path)
        self._process = os.getpid()

    @property
    def spent(self) -> tuple[float, float]:
        """What was spent so far: ε at δ, or the sums of both."""
        found = json.loads(self._budget.standing())["spent"]
        return float(found["epsilon"]), float(found["delta"])

    @property
    def remaining(self) -> tuple[float, float]:
        """What one more fit may spend, rounded down."""
        found = json.loads(self._budget.standing())["remaining"]
        return (self.epsilon, self.delta) if found is None else (float(found["epsilon"]), float(found["delta"]))

    def spend(self, epsilon: float, delta: float) -> None:
        """Charge a cost before the work that has it begins.

        Raises
        ------
        BudgetSpent
            If all would cost more than the limit; nothing is charged then.
        InputError
            In another process than the one that made it (a fork holds a copy, whose spending nobody adds up), unless it has a ``path``.
        """
        if not (epsilon >= 0 and delta >= 0):
            raise InputError(f"a cost of ({epsilon}, {delta}) is not one")
        self._charge("spent by hand", _core.claimed(float(epsilon), float(delta)))

    def _charge(self, name: str, cost: str, copies: int = 1) -> None:
        if self.path is None and os.getpid() != self._process:
            raise InputError(
                "this BudgetAccountant is a copy that a fork made: what is spent here would not be counted in the process that made it; use "
                'n_jobs=1, threads with joblib.parallel_config(backend="threading"), or BudgetAccountant(path=…)'
            )
        refused = self._budget.spend(name, cost, copies)
        if refused is not None:
            raise BudgetSpent(f"{name}: {refused}")

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
        if self.path is None:
            raise InputError(
                "a BudgetAccountant cannot leave its process: what others spend would not be counted; use n_jobs=1 or BudgetAccountant(path=…)"
            )
        return _reopened, (self.epsilon, self.delta, self.equal_records, self.path, self.rule)

    def __repr__(self) -> str:
        epsilon, delta = self.spent
        return f"BudgetAccountant(spent ε={epsilon:g} of {self.epsilon:g}, δ={delta:g} of {self.delta:g})"


def _reopened(epsilon: float, delta: float, equal_records: str, path: str, rule: Optional[str]) -> BudgetAccountant:
    return BudgetAccountant(epsilon, delta, equal_records=equal_records, path=path, rule=rule)


def charger(found: list[BudgetAccountant], name: str, most_equal: Callable[[], int]) -> Optional[Callable[[str], None]]:
    """What charges a fit to all of these accountants once its cost is known, before it begins; ``most_equal`` counts equal records."""
    if not found:
        return None
    copies = most_equal() if any(accountant.equal_records != "people" for accountant in found) else 1
    for accountant in found:
        if copies > 1 and accountant.equal_records == "refuse":
            raise InputError(
                f"up to {copies} records are equal: if they are copies of one (bootstrap=True of a bagging estimator, resample), this fit costs "
                'whoever it is about more than is charged; use bootstrap=False, or BudgetAccountant(…, equal_records="charge"), or '
                '"people" if equal records are of different people'
            )

    def charge(cost: str) -> None:
        for accountant in found:
            accountant._charge(name, cost, copies if accountant.equal_records == "charge" else 1)

    return charge


def most_equal(X: Any, y: Any) -> int:
    """How many records are equal, at most."""
    rows, labels = np.asarray(X), np.asarray(y)
    # What it says, whether or not it is numbers.
    parts = [
        a.reshape(len(a), -1) if a.dtype != object else np.array([[repr(row)] for row in a.tolist()])
        for a in (rows, labels)
    ]
    keys = [np.ascontiguousarray(part) for part in parts]
    return max(Counter(a.tobytes() + b"|" + b.tobytes() for a, b in zip(*keys)).values())


def marked(state: dict[str, Any]) -> dict[str, Any]:
    """What goes to another process: the accountants that are in files go along, and of others the mark that they are kept here."""
    shared = [accountant for accountant in BudgetAccountant._active if accountant.path is not None]
    if shared:
        state["_charged_to"] = [*state.get("_charged_to", []), *shared]
    if len(shared) < len(BudgetAccountant._active):
        state.setdefault("_charged_in", os.getpid())
    return state


def refuse_elsewhere(given: Any) -> None:
    """Refuse what was marked in another process: nobody would count what it spends."""
    if getattr(given, "_charged_in", os.getpid()) != os.getpid():
        raise InputError(
            f"this {type(given).__name__} came from another process, where a BudgetAccountant counts what is spent: a fit here would not "
            'be counted; use n_jobs=1, threads with joblib.parallel_config(backend="threading"), or BudgetAccountant(path=…)'
        )


def accountants(own: Optional[BudgetAccountant], given: Any = None) -> list[BudgetAccountant]:
    """All that a fit is charged to: the estimator's own, those of enclosing `with` blocks here and where it came from, each once."""
    found: list[BudgetAccountant] = []
    for one in [*BudgetAccountant._active, *getattr(given, "_charged_to", []), *([] if own is None else [own])]:
        if not any(one is other or (one.path is not None and one.path == other.path) for other in found):
            found.append(one)
    return found
