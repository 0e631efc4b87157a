"""What was released, in dp-accounting's words.

Noise multipliers are scales over sensitivity, as there. Events without an accountant here have their names, so that they are
refused by name where they are added.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Union


class DpEvent:
    """What was released."""


@dataclass(frozen=True)
class NoOpDpEvent(DpEvent):
    """Nothing was released."""


@dataclass(frozen=True)
class NonPrivateDpEvent(DpEvent):
    """Something was released without protection: ε is infinite from here on."""


@dataclass(frozen=True)
class UnsupportedDpEvent(DpEvent):
    """Something that no accountant covers; refused."""


@dataclass(frozen=True)
class GaussianDpEvent(DpEvent):
    """Gaussian noise; σ over the l2 sensitivity."""

    noise_multiplier: float


@dataclass(frozen=True)
class LaplaceDpEvent(DpEvent):
    """Laplace noise; the scale over the l1 sensitivity."""

    noise_multiplier: float


@dataclass(frozen=True)
class ZCDpEvent(DpEvent):
    """Whatever has ρ-zero-concentrated privacy; a ``xi`` other than 0 is refused."""

    rho: float
    xi: float = 0.0


@dataclass(frozen=True)
class PoissonSampledDpEvent(DpEvent):
    """Laplace or Gaussian noise on a sum over a secret sample, which every record is in with this probability.

    For records that are added, removed or emptied; accountants of records that are replaced refuse it.
    """

    sampling_probability: float
    event: DpEvent


@dataclass(frozen=True)
class SelfComposedDpEvent(DpEvent):
    """The same event several times."""

    event: DpEvent
    count: int


@dataclass(frozen=True)
class ComposedDpEvent(DpEvent):
    """Several events."""

    events: list[DpEvent] = field(default_factory=list)


@dataclass(frozen=True)
class RandomizedResponseDpEvent(DpEvent):
    """Refused."""

    noise_parameter: float
    num_buckets: int


@dataclass(frozen=True)
class SampledWithReplacementDpEvent(DpEvent):
    """Refused."""

    source_dataset_size: int
    sample_size: int
    event: DpEvent


@dataclass(frozen=True)
class SampledWithoutReplacementDpEvent(DpEvent):
    """Refused."""

    source_dataset_size: int
    sample_size: int
    event: DpEvent


@dataclass(frozen=True)
class SingleEpochTreeAggregationDpEvent(DpEvent):
    """Refused."""

    noise_multiplier: float
    step_counts: Union[int, list[int]]


@dataclass(frozen=True)
class TruncatedSubsampledGaussianDpEvent(DpEvent):
    """Refused."""

    dataset_size: int
    sampling_probability: float
    truncated_batch_size: int
    noise_multiplier: float
