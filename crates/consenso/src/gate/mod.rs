//! The gate: the only door out of an agent.
//!
//! It asks the [`Ledger`] whether the budget allows the release, draws the uniform point and the noise, and returns a [`Release`],
//! which nothing else can construct:
//!
//! ```compile_fail
//! let forged = consenso::gate::Release { round: 1, values: &[0.0] };
//! ```

pub mod exact;
mod ledger;

pub use ledger::{Ledger, StopReason};

use crate::problem::{LocalObjective, Workspace};
use crate::protocol::{Protocol, Response, View};
use crate::random::{Purpose, Seed};
use rand::{Rng, RngExt};
use std::sync::Arc;

/// The noise of one round, per coordinate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// None: a run that protects nobody.
    None,
    /// Laplace with density e^{−|y|/scale}/(2·scale).
    Laplace {
        /// 1/β.
        scale: f64,
    },
    /// Gaussian.
    Gaussian {
        /// Standard deviation.
        sigma: f64,
    },
}

/// A vector that may leave the agent: charged for, noised, or computed from releases alone.
#[derive(Debug)]
pub struct Release<'a> {
    round: u32,
    values: &'a [f64],
}

impl<'a> Release<'a> {
    /// Which exchange it belongs to, from 1.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.round
    }

    /// What is sent.
    #[must_use]
    pub fn values(&self) -> &'a [f64] {
        self.values
    }
}

/// Scratch space of a draft: one a thread.
#[derive(Debug, Default)]
pub struct Draft {
    low: Vec<f64>,
    high: Vec<f64>,
    step: Vec<f64>,
    point: Vec<f64>,
    /// Scratch of the gradient.
    pub work: Workspace,
}

/// One agent's door.
#[derive(Clone, Debug)]
pub struct Gate {
    agent: u64,
    seed: Seed,
    noise: Arc<[Noise]>,
    ledger: Ledger,
}

impl Gate {
    /// The gate of `agent`, with the noise of every round, drawing from `seed`.
    #[must_use]
    pub fn new(agent: u64, seed: Seed, noise: Arc<[Noise]>, ledger: Ledger) -> Self {
        Self { agent, seed, noise, ledger }
    }

    /// What has been charged.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Drafts, charges and noises the next message into `out`.
    ///
    /// When the budget does not allow it, the message is a mix of what was released before, which costs nothing: the others
    /// are not held up, the records are not touched, and the reason is returned.
    pub fn release<'a>(
        &mut self,
        protocol: &dyn Protocol,
        view: &View<'_>,
        memory: &mut [f64],
        local: &LocalObjective,
        draft: &mut Draft,
        out: &'a mut [f64],
    ) -> (Release<'a>, Option<StopReason>) {
        let (round, dim) = (view.round() + 1, view.dim());
        let Draft { low, high, step, point, work } = draft;
        for v in [&mut *low, &mut *high, &mut *step, &mut *point] {
            v.resize(dim, 0.0);
        }
        protocol.interval(view, memory, low, high);
        if let Err(reason) = self.ledger.charge(round, low, high) {
            return (self.forward(round, out, |out| view.mix(out)), Some(reason));
        }
        let mut stream = self.seed.stream(Purpose::Release, self.agent, u64::from(round));
        for ((point, low), high) in point.iter_mut().zip(&*low).zip(&*high) {
            *point = if low == high { *low } else { low + stream.random::<f64>() * (high - low) };
        }
        let at = match protocol.response() {
            Response::AtPoint => &*point,
            Response::Shift => &*low,
        };
        protocol.step(view, memory, at, local, work, step);
        let noise = self.noise.get(round as usize - 1).copied().unwrap_or(Noise::None);
        for ((out, point), step) in out.iter_mut().zip(&*point).zip(&*step) {
            *out = point + step + draw(noise, &mut stream);
        }
        (Release { round, values: out }, None)
    }

    /// A message computed from releases alone: post-processing, which costs nothing.
    pub fn forward<'a>(
        &self,
        round: u32,
        out: &'a mut [f64],
        public: impl FnOnce(&mut [f64]),
    ) -> Release<'a> {
        public(out);
        Release { round, values: out }
    }
}

/// One draw of plain noise.
fn draw(noise: Noise, stream: &mut impl Rng) -> f64 {
    match noise {
        Noise::None => 0.0,
        Noise::Laplace { scale } => {
            let u = stream.random::<f64>() - 0.5;
            -scale * u.signum() * libm::log1p(-2.0 * u.abs())
        }
        Noise::Gaussian { sigma } => {
            let radius = (-2.0 * libm::log(1.0 - stream.random::<f64>())).sqrt();
            sigma * radius * libm::cos(std::f64::consts::TAU * stream.random::<f64>())
        }
    }
}
