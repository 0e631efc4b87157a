"""``RdpAccountant`` under its name there."""

from __future__ import annotations

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


# Scripts import the accountant through either name.
rdp_privacy_accountant = sys.modules[__name__]
