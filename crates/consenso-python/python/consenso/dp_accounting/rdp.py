"""``RdpAccountant`` under its name there."""

from __future__ import annotations

import math
import sys
from typing import Optional, Sequence

from .privacy_accountant import NeighboringRelation, PrivacyAccountant


class RdpAccountant(PrivacyAccountant):
    """Named as there; the best valid method answers, which is never above Rényi's, whatever the orders."""

    def __init__(
        self,
        orders: Optional[Sequence[float]] = None,
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> None:
        super().__init__(neighboring_relation)

    def get_epsilon_and_optimal_order(self, target_delta: float) -> tuple[float, float]:
        """ε at a δ, and NaN: the method that answers need not be Rényi's and has no order."""
        return self.get_epsilon(target_delta), math.nan

    def get_delta_and_optimal_order(self, target_epsilon: float) -> tuple[float, float]:
        """δ at an ε, and NaN, as :meth:`get_epsilon_and_optimal_order`."""
        return self.get_delta(target_epsilon), math.nan


# Scripts import the accountant through either name.
rdp_privacy_accountant = sys.modules[__name__]
