"""The names of Google's ``dp-accounting`` over this package's accountants, so that one can switch by an import.

``from consenso import dp_accounting`` in place of ``import dp_accounting``; modules have their names too (``dp_event``,
``pld``, ``rdp``, ``privacy_accountant``, ``mechanism_calibration``). Events of Laplace and Gaussian noise, also on Poisson
samples, of zero-concentrated privacy, of nothing, and their compositions are covered; whatever is not is refused
(:class:`UnsupportedEventError`), never guessed. Noise multipliers are scales over sensitivity, as there. ε is rounded up, and
the best valid method answers: an ε of ``RdpAccountant`` is often smaller than there.

>>> from consenso.dp_accounting import GaussianDpEvent, SelfComposedDpEvent, pld
>>> accountant = pld.PLDAccountant()
>>> _ = accountant.compose(SelfComposedDpEvent(GaussianDpEvent(50.0), 1000))
>>> round(accountant.get_epsilon(1e-6), 2)
2.92
"""

from . import dp_event, dp_event_builder, mechanism_calibration, pld, privacy_accountant, rdp
from .dp_event import (
    ComposedDpEvent, DpEvent, GaussianDpEvent, LaplaceDpEvent, NonPrivateDpEvent, NoOpDpEvent, PoissonSampledDpEvent,
    RandomizedResponseDpEvent, SampledWithoutReplacementDpEvent, SampledWithReplacementDpEvent, SelfComposedDpEvent,
    SingleEpochTreeAggregationDpEvent, TruncatedSubsampledGaussianDpEvent, UnsupportedDpEvent, ZCDpEvent,
)
from .dp_event_builder import DpEventBuilder
from .mechanism_calibration import ExplicitBracketInterval, LowerEndpointAndGuess, calibrate_dp_mechanism
from .pld import PLDAccountant
from .privacy_accountant import NeighboringRelation, PrivacyAccountant, UnsupportedEventError
from .rdp import RdpAccountant

__all__ = [
    "ComposedDpEvent", "DpEvent", "DpEventBuilder", "ExplicitBracketInterval", "GaussianDpEvent", "LaplaceDpEvent",
    "LowerEndpointAndGuess", "NeighboringRelation", "NoOpDpEvent", "NonPrivateDpEvent", "PLDAccountant", "PoissonSampledDpEvent",
    "PrivacyAccountant", "RandomizedResponseDpEvent", "RdpAccountant", "SampledWithReplacementDpEvent",
    "SampledWithoutReplacementDpEvent", "SelfComposedDpEvent", "SingleEpochTreeAggregationDpEvent",
    "TruncatedSubsampledGaussianDpEvent", "UnsupportedDpEvent", "UnsupportedEventError", "ZCDpEvent", "calibrate_dp_mechanism",
    "dp_event", "dp_event_builder", "mechanism_calibration", "pld", "privacy_accountant", "rdp",
]
