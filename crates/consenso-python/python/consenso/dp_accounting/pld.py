"""``PLDAccountant`` under its name there."""

from __future__ import annotations

import sys

from .privacy_accountant import NeighboringRelation, PrivacyAccountant


class PLDAccountant(PrivacyAccountant):
    """Named as there; the discretisation is not needed for these events and not looked at."""

    def __init__(
        self,
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
        value_discretization_interval: float = 1e-4,
    ) -> None:
        super().__init__(neighboring_relation)


# Scripts import the accountant through either name.
pld_privacy_accountant = sys.modules[__name__]
