//! Numbers that can be split into shares: fixed point, and why vectors do not fit.

use super::{Round, RoundNoise};
use crate::privacy::distributed_noise::{LEAST_STEPS, TAIL};
use thiserror::Error;

/// Why vectors cannot be exchanged in shares.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ShareError {
    /// Fewer than three agents.
    #[error(
        "secret sharing needs at least 3 agents, not {agents}: of two, each learns the other's vector from the sum"
    )]
    TooFew {
        /// N.
        agents: usize,
    },
    /// Somebody does not talk to somebody.
    #[error("secret sharing needs a complete graph: every agent sends a share to every other")]
    NotComplete,
    /// The algorithm looks at more than sums.
    #[error("{kind} looks at every neighbour's own vector, which secret sharing hides")]
    NeedsRows {
        /// The algorithm.
        kind: &'static str,
    },
    /// The range is not a positive number.
    #[error("the range is {range}; it must be a positive number")]
    Range {
        /// What was given.
        range: f64,
    },
    /// The sum could wrap around.
    #[error(
        "{agents} agents × range {range} × 2^{fraction_bits} is not below 2^63, so their sum could overflow; use fewer fraction bits"
    )]
    Overflow {
        /// N.
        agents: usize,
        /// The declared range.
        range: f64,
        /// f.
        fraction_bits: u32,
    },
    /// An algorithm in which agents go on from vectors of their own.
    #[error(
        "{kind} goes on from each agent's own vector, which sharing keeps private, so what a round reveals has no bound of its own; \
         noise needs an algorithm that goes on from the mean alone: gd with aggregation = \"fixed\""
    )]
    Noise {
        /// The algorithm.
        kind: &'static str,
    },
    /// Noise that is no part of a common one.
    #[error("the noise of a shared vector must be Gaussian, on the grid of the fixed point")]
    Part,
    /// Rounding would show.
    #[error(
        "an agent's noise is only {steps:.2} steps of the fixed point, and must be at least 4; use more fraction bits"
    )]
    Coarse {
        /// Deviation in steps.
        steps: f64,
    },
    /// Noise would need more than 52 bits.
    #[error(
        "range {range} × 2^{fraction_bits} is not below 2^52, which exact noise needs; use fewer fraction bits"
    )]
    Fine {
        /// The declared range.
        range: f64,
        /// f.
        fraction_bits: u32,
    },
    /// Noise could leave the range.
    #[error(
        "noise of deviation {sigma:e} needs a range of 132 times that, and it is {range}; declare a larger range"
    )]
    NoRoom {
        /// An agent's own.
        sigma: f64,
        /// The declared range.
        range: f64,
    },
    /// A vector does not fit; which number it was stays private.
    #[error(
        "a number of agent {agent} is outside the declared range ±{range} in round {round}; nothing was sent, declare a larger range"
    )]
    OutOfRange {
        /// Whose.
        agent: u64,
        /// When.
        round: Round,
        /// The declared range.
        range: f64,
    },
    /// What a round revealed, or was said to, is no mean of this study.
    #[error(
        "what agents go on from in round {round} is beyond ±{half}, half of the range, which no honest sum of this study is: somebody sent what is no vector of it, or the range is too small. \
         Without its part of the noise this agent sends nothing, and the run is over"
    )]
    MeanOutOfRange {
        /// The round that it would begin.
        round: Round,
        /// Half of the declared range.
        half: f64,
    },
    /// A vector would have been charged out of turn.
    #[error(
        "charge {number} does not follow charge {charged}: without a charge there is no noise, and without noise nothing is sent, so the run is over"
    )]
    ChargeOutOfTurn {
        /// The number of the vector.
        number: u32,
        /// The last that was charged.
        charged: u32,
    },
    /// Two agents do not agree on what a round revealed.
    #[error(
        "agents {by} and {word_of} say different things of what round {round} revealed: one of them lies, or was lied to, and the run is over"
    )]
    TwoMeans {
        /// Who says another thing.
        by: u32,
        /// Whose word this agent went on from.
        word_of: u32,
        /// The round.
        round: Round,
    },
    /// Somebody's shares add up to no vector.
    #[error(
        "the sum of round {round} is beyond what {agents} vectors within ±{range} add up to: somebody sent what is no share. Whoever it was, this agent's own vector was in range; \
         whose it was cannot be seen without opening everybody's, so the run is over"
    )]
    Forged {
        /// When.
        round: Round,
        /// N.
        agents: usize,
        /// The declared range.
        range: f64,
    },
    /// A vector of a gate without masks was asked for under some.
    #[error("this agent has no masks: its vectors do not leave under any")]
    NoMasks,
    /// The secret of an edge is still to be agreed on.
    #[error("the secret of the edge to agent {with} is still to be agreed on; nothing was sent")]
    NoSecret {
        /// The other end.
        with: u32,
    },
    /// The others go on without this agent.
    #[error("the others have given this agent up in round {round} and go on without it")]
    GivenUp {
        /// When.
        round: Round,
    },
    /// A vector was changed on its way.
    #[error(
        "the vector of agent {of} in round {round} came another way than by agent {by} with other content: one of the two ways changed it, and the run is over"
    )]
    TwoVersions {
        /// Whose it is.
        of: u32,
        /// Who brought it last.
        by: u32,
        /// When.
        round: Round,
    },
    /// One more than the threshold is gone.
    #[error(
        "{gone} agents dropped out by round {round}, and the claim is for at most {most} (drop_outs = {most}): without them the sum stays hidden, and the run is over"
    )]
    TooManyGone {
        /// How many.
        gone: usize,
        /// t.
        most: usize,
        /// When.
        round: Round,
    },
    /// Those left have no way to each other.
    #[error(
        "without agents {gone:?} the graph falls apart in round {round}: those left cannot add up their vectors, and the run is over"
    )]
    FallenApart {
        /// Who dropped out.
        gone: Vec<u32>,
        /// When.
        round: Round,
    },
    /// Somebody left: the shares it holds are needed.
    #[error(
        "agent {from} dropped out in round {round}: without its shares the sum stays hidden, and the run is over"
    )]
    Dropped {
        /// Who.
        from: u32,
        /// When.
        round: Round,
    },
}

impl ShareError {
    /// Whether what others sent, or that they are gone, is the reason: another start may go better,
    /// and nothing of this site's own is to be mended.
    #[must_use]
    pub fn is_about_others(&self) -> bool {
        matches!(
            self,
            Self::Forged { .. }
                | Self::TwoVersions { .. }
                | Self::TwoMeans { .. }
                | Self::MeanOutOfRange { .. }
                | Self::TooManyGone { .. }
                | Self::FallenApart { .. }
                | Self::GivenUp { .. }
                | Self::Dropped { .. }
        )
    }
}

/// Numbers in [−range, range] as multiples of 2^−f, so that N of them add up below 2^63.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FixedPoint {
    agents: u32,
    range: f64,
    fraction_bits: u32,
    limit: i64,
}

impl FixedPoint {
    /// Fixed point for sums over `agents` agents.
    ///
    /// # Errors
    /// Fewer than three agents, a range that is not positive, or N·range·2^f ≥ 2^63.
    pub fn new(agents: usize, range: f64, fraction_bits: u32) -> Result<Self, ShareError> {
        if agents < 3 {
            return Err(ShareError::TooFew { agents });
        }
        if !(range > 0.0 && range.is_finite()) {
            return Err(ShareError::Range { range });
        }
        let overflow = ShareError::Overflow { agents, range, fraction_bits };
        let steps = if fraction_bits < 63 {
            (range * power_of_two(fraction_bits)).floor()
        } else {
            f64::INFINITY
        };
        // Compared as integers: below 2^63 the cast is exact.
        let limit = if steps < (1u64 << 63) as f64 { steps as i64 } else { return Err(overflow) };
        match i64::try_from(agents).ok().and_then(|n| limit.checked_mul(n)) {
            Some(_) => Ok(Self { agents: agents as u32, range, fraction_bits, limit }),
            None => Err(overflow),
        }
    }

    /// N.
    #[must_use]
    pub fn agents(&self) -> usize {
        self.agents as usize
    }

    /// The declared range.
    #[must_use]
    pub fn range(&self) -> f64 {
        self.range
    }

    /// The largest number that agents may go on from: the rest is for a step and for noise.
    #[must_use]
    pub fn half(&self) -> f64 {
        0.5 * self.range
    }

    /// f.
    #[must_use]
    pub fn fraction_bits(&self) -> u32 {
        self.fraction_bits
    }

    /// Whether this noise can be an agent's part of a sum's: Gaussian, on this grid, wide enough
    /// for its rounding not to show, with room for its tail (see
    /// [`Gate::share`](crate::gate::Gate::share)).
    ///
    /// # Errors
    /// What it is not.
    pub fn holds(&self, noise: &RoundNoise) -> Result<(), ShareError> {
        let (grid, range, fraction_bits) = (noise.grid(), self.range, self.fraction_bits);
        let sigma = noise.gaussian_sigma().filter(|_| grid.exponent() == -(fraction_bits as i32));
        let sigma = sigma.ok_or(ShareError::Part)?;
        let steps = sigma / grid.step();
        if steps < LEAST_STEPS {
            return Err(ShareError::Coarse { steps });
        }
        if range / grid.step() >= (1u64 << 52) as f64 {
            return Err(ShareError::Fine { range, fraction_bits });
        }
        if (TAIL + 1.0) * sigma > 0.25 * range {
            return Err(ShareError::NoRoom { sigma, range });
        }
        Ok(())
    }

    /// round(x·2^f), or `None` outside the range (a NaN is outside).
    #[must_use]
    pub fn encode(&self, x: f64) -> Option<i64> {
        if x.is_nan() || x.abs() > self.range {
            return None;
        }
        // At the very end of the range rounding may step over it.
        Some(
            (super::round(x * power_of_two(self.fraction_bits)) as i64)
                .clamp(-self.limit, self.limit),
        )
    }

    /// What an encoding stands for.
    #[must_use]
    pub fn value(&self, q: i64) -> f64 {
        q as f64 / power_of_two(self.fraction_bits)
    }

    /// The nearest encoding within the range.
    #[must_use]
    pub fn saturate(&self, q: i64) -> i64 {
        q.clamp(-self.limit, self.limit)
    }

    /// Whether sums modulo 2^64 can be of N numbers within the range.
    #[must_use]
    pub fn adds_up_to(&self, sums: &[u64]) -> bool {
        let most = self.limit.saturating_mul(i64::from(self.agents)).unsigned_abs();
        sums.iter().all(|sum| sum.cast_signed().unsigned_abs() <= most)
    }

    /// The mean of N numbers whose encodings add up to `sum` modulo 2^64.
    #[must_use]
    pub fn mean(&self, sum: u64) -> f64 {
        self.mean_of(sum, self.agents())
    }

    /// The mean of `members` numbers, at most N, whose encodings add up to `sum` modulo 2^64.
    #[must_use]
    pub fn mean_of(&self, sum: u64, members: usize) -> f64 {
        sum.cast_signed() as f64 / power_of_two(self.fraction_bits) / members as f64
    }
}

fn power_of_two(e: u32) -> f64 {
    (1u64 << e) as f64
}
