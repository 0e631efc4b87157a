//! The black-box auditor: how small can ε be, judging by what was released?
//!
//! A release satisfies (ε, δ) only if P(E | D) ≤ e^ε·P(E | D') + δ for every event E and all
//! neighbours D, D'. The auditor plays the adversary: it draws many releases on both sides of a
//! pair of its choice, picks one event, and counts. With Clopper–Pearson bounds on the two
//! probabilities,
//!
//! > ε ≥ ln((P_low(E | D) − δ) / P_high(E | D'))  at the stated confidence,
//!
//! whatever the mechanism is and whatever its proof says. A lower bound above the claim refutes the
//! claim; one below it proves nothing, but shows how tight the claim can at most be.
//!
//! # Why the bound is valid
//!
//! The event (a threshold of the statistic, which tail, which side is D) is chosen on one quarter
//! of the trials and counted on the others, which are independent of the choice. Two events are
//! counted, one for ε and one for μ, each with two one-sided Clopper–Pearson bounds; each of the
//! four is wrong with probability at most (1 − confidence)/4, so all hold together at the stated
//! confidence.
//!
//! # Gaussian claims
//!
//! At δ = 10⁻⁶ an event that tells ε apart is far too rare to count. But a claim made through
//! Gaussian differential privacy says more than one point (ε, δ): it says that *no* test beats that
//! of N(0, 1) against N(μ, 1). An event with P_low and P_high as above refutes every μ below
//! Φ⁻¹(P_low) − Φ⁻¹(P_high) ([`Audit::mu_lower`]), and common events serve as well as rare ones.
//! See Nasr et al., "Tight auditing of differentially private machine learning", 2023.
//!
//! ```
//! # use consenso_engine as consenso;
//! use consenso::audit::{AuditedClaim, Options, Verdict, audit, ReleaseAttack};
//! use consenso::gate::{Noise, RoundNoise};
//!
//! // Laplace noise of scale 1 on a number that moves by 2 costs ε = 2; somebody claims 1.
//! let attack = ReleaseAttack { noise: RoundNoise::new(Noise::Laplace { scale: 1.0 })?, shift: 2.0, width: 0.0 };
//! let options = Options { trials: 4000, ..Options::default() };
//! let found = audit(|trial| attack.play(trial), AuditedClaim::pure(1.0), options)?;
//! assert_eq!(found.verdict, Verdict::Violated);
//! assert!(found.epsilon_lower > 1.5 && found.epsilon_lower < 2.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agent;
mod proportion;
mod worst;

pub use agent::{AgentAttack, AttackedAgent, AttackedExchange, ReleaseFollower};
pub(crate) use proportion::{clopper_pearson_high, clopper_pearson_low};
pub use worst::{WorstNorm, WorstPair};

use crate::gate::{RoundNoise, exact};
use crate::privacy::AccountingError;
use crate::random::{Purpose, Seed};
use proportion::{normal_quantile, wilson};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Which of the two neighbouring data sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// D.
    First,
    /// D'.
    Second,
}

/// One draw of the audited release.
#[derive(Clone, Debug)]
pub struct Trial {
    /// On which data set.
    pub side: Side,
    /// Which draw.
    pub index: u32,
    /// Where its randomness comes from, its own.
    pub seed: Seed,
}

/// How much to try.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Draws on each side, at least [`LEAST_TRIALS`].
    pub trials: u32,
    /// Probability that the lower bounds hold, in (0, 1).
    pub confidence: f64,
    /// Seed of everything drawn.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { trials: 20_000, confidence: 0.95, seed: 1 }
    }
}

/// Fewest draws worth judging.
pub const LEAST_TRIALS: u32 = 40;

/// What is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditedClaim {
    /// ε.
    pub epsilon: f64,
    /// δ, 0 for a pure claim.
    pub delta: f64,
    /// μ, where the claim was made through Gaussian differential privacy.
    pub mu: Option<f64>,
}

impl AuditedClaim {
    /// ε-differential privacy.
    #[must_use]
    pub fn pure(epsilon: f64) -> Self {
        Self { epsilon, delta: 0.0, mu: None }
    }

    /// (ε, δ)-differential privacy.
    #[must_use]
    pub fn approximate(epsilon: f64, delta: f64) -> Self {
        Self { epsilon, delta, mu: None }
    }

    /// μ-Gaussian differential privacy, with its ε at `delta`.
    #[must_use]
    pub fn gaussian(mu: f64, delta: f64) -> Self {
        Self { epsilon: crate::privacy::gdp::epsilon_of_mu(mu, delta), delta, mu: Some(mu) }
    }
}

/// Which values of the statistic count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tail {
    /// Those at or above the threshold.
    AtLeast,
    /// Those below it.
    Below,
}

/// An event and how often it was seen on trials that had no part in choosing it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedEvent {
    /// The threshold of the statistic.
    pub threshold: f64,
    /// Which side of the threshold.
    pub tail: Tail,
    /// The data set on which the event is the likelier.
    pub likelier: Side,
    /// Times it was seen there.
    pub hits: u32,
    /// Times it was seen on the other data set.
    pub false_alarms: u32,
    /// Trials counted on each.
    pub counted: u32,
    /// Lower confidence bound on the first probability.
    pub probability_low: f64,
    /// Upper confidence bound on the second.
    pub probability_high: f64,
}

/// The outcome of an audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing seen contradicts the claim.
    Consistent,
    /// A lower bound is above the claim: at the stated confidence the claim is false.
    Violated,
}

/// What the auditor found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Audit {
    /// ε is at least this at the claim's δ, whatever the mechanism.
    pub epsilon_lower: f64,
    /// ε as claimed.
    pub epsilon_claimed: f64,
    /// δ as claimed.
    pub delta: f64,
    /// No μ-GDP mechanism with a smaller μ releases like this.
    pub mu_lower: f64,
    /// μ as claimed, if it was.
    pub mu_claimed: Option<f64>,
    /// ε at δ of a Gaussian mechanism with `mu_lower`: how much of a Gaussian claim was seen. Only
    /// with a claimed μ.
    pub epsilon_lower_if_gaussian: Option<f64>,
    /// Probability with which the lower bounds hold.
    pub confidence: f64,
    /// Draws on each side.
    pub trials: u32,
    /// The event behind `epsilon_lower`.
    pub event: ObservedEvent,
    /// The event behind `mu_lower`.
    pub mu_event: ObservedEvent,
    /// How many times too small all noise would have to be for this attack, with as many draws, to
    /// call the claim violated: what a verdict of "consistent" rules out, and no more. `None` where
    /// no shortfall would have been seen: the attack sees nothing, or there are too few draws for
    /// so large a claim.
    #[serde(default)]
    pub visible_shortfall: Option<f64>,
    /// The judgement.
    pub verdict: Verdict,
}

/// Draws `options.trials` statistics on each side and bounds ε and μ from below.
///
/// `sampler` runs the release on one side of a pair of neighbours with the trial's own seed and
/// condenses what an adversary sees to one number; the larger, the more it speaks for one of the
/// sides. Any statistic gives a valid bound, the log-likelihood ratio the best. Trials run in
/// parallel; the result depends on the seed only.
///
/// # Errors
/// [`AccountingError::BadParameter`]: too few trials, a confidence outside (0, 1), δ outside [0, 1), a claimed ε or μ that is negative or NaN.
pub fn audit(
    sampler: impl Fn(&Trial) -> f64 + Sync,
    claimed: AuditedClaim,
    options: Options,
) -> Result<Audit, AccountingError> {
    check(claimed, options)?;
    let Options { trials, confidence, seed } = options;
    let seed = Seed::from(seed);
    let draw = |side: Side| -> Vec<f64> {
        let one = |index: u32| {
            let stream = 2 * u64::from(index) + u64::from(side == Side::Second);
            sampler(&Trial { side, index, seed: seed.for_run(stream) })
        };
        (0..trials).into_par_iter().map(one).collect()
    };
    let (first, second) = (draw(Side::First), draw(Side::Second));
    let chosen_on = (trials / 4) as usize;
    let wrong = (1.0 - confidence) / 4.0;
    let sweep = Sweep::new(&first[..chosen_on], &second[..chosen_on], wrong);
    let count = |choice: Choice| choice.count(&first[chosen_on..], &second[chosen_on..], wrong);
    let event = count(sweep.best(|low, high| ratio(low, high, claimed.delta)));
    // Where thresholds are about equally good, luck would choose an extreme one and its wide
    // bounds: hence the caution.
    let mu_event =
        count(sweep.cautious().best(|low, high| normal_quantile(low) - normal_quantile(high)));
    Ok(judge(event, mu_event, claimed, options))
}

fn check(claimed: AuditedClaim, options: Options) -> Result<(), AccountingError> {
    let bad = |name, expected, found| Err(AccountingError::BadParameter { name, expected, found });
    if options.trials < LEAST_TRIALS {
        return bad("trials", "at least 40", f64::from(options.trials));
    }
    if !(options.confidence > 0.0 && options.confidence < 1.0) {
        return bad("confidence", "strictly between 0 and 1", options.confidence);
    }
    if !(claimed.delta >= 0.0 && claimed.delta < 1.0) {
        return bad("delta", "from 0 to below 1", claimed.delta);
    }
    for (name, value) in [("epsilon", claimed.epsilon), ("mu", claimed.mu.unwrap_or(0.0))] {
        if value.is_nan() || value < 0.0 {
            return bad(name, "a number, 0 or more", value);
        }
    }
    Ok(())
}

fn judge(
    event: ObservedEvent,
    mu_event: ObservedEvent,
    claimed: AuditedClaim,
    options: Options,
) -> Audit {
    // Lower bounds lose a little to the rounding of their own computation.
    let down = |x: f64| (x * (1.0 - 1e-9) - 1e-9).max(0.0);
    let epsilon_lower = down(ratio(event.probability_low, event.probability_high, claimed.delta));
    let quantiles =
        normal_quantile(mu_event.probability_low) - normal_quantile(mu_event.probability_high);
    let mu_lower = down(quantiles);
    let violated = epsilon_lower > claimed.epsilon || claimed.mu.is_some_and(|mu| mu_lower > mu);
    let gaussian = |delta: f64| {
        if mu_lower == 0.0 { 0.0 } else { crate::privacy::gdp::epsilon_of_mu(mu_lower, delta) }
    };
    Audit {
        epsilon_lower,
        epsilon_claimed: claimed.epsilon,
        delta: claimed.delta,
        mu_lower,
        mu_claimed: claimed.mu,
        epsilon_lower_if_gaussian: claimed
            .mu
            .filter(|_| claimed.delta > 0.0)
            .map(|_| gaussian(claimed.delta)),
        confidence: options.confidence,
        trials: options.trials,
        event,
        mu_event,
        visible_shortfall: visible_shortfall(event, mu_event, claimed, options),
        verdict: if violated { Verdict::Violated } else { Verdict::Consistent },
    }
}

/// The least factor by which noise could be too small and be found out; see
/// [`Audit::visible_shortfall`].
///
/// What the attack saw, μ̂ (or ε̂), grows with the factor: noise k times too small shows k·μ̂. So the
/// factor is the least μ whose expected counts would put the lower bound above the claim, divided
/// by μ̂. For ε the counts are those of the event with equal errors, e^ε/(1 + e^ε), as a randomised
/// response of that ε has.
fn visible_shortfall(
    event: ObservedEvent,
    mu_event: ObservedEvent,
    claimed: AuditedClaim,
    options: Options,
) -> Option<f64> {
    let wrong = (1.0 - options.confidence) / 4.0;
    let bounds = |right: f64, n: u32| {
        let hits = (right * f64::from(n)).floor() as u32;
        (clopper_pearson_low(hits, n, wrong), clopper_pearson_high(n - hits, n, wrong))
    };
    // Half a count, where nothing was counted.
    let share = |count: u32, n: u32| {
        (f64::from(count) / f64::from(n)).clamp(0.5 / f64::from(n), 1.0 - 0.5 / f64::from(n))
    };
    let by_mu = claimed.mu.and_then(|claim| {
        let n = mu_event.counted;
        let seen = normal_quantile(share(mu_event.hits, n))
            - normal_quantile(share(mu_event.false_alarms, n));
        let bound = |mu: f64| {
            let (low, high) = bounds(0.5 * libm::erfc(-0.5 * mu / std::f64::consts::SQRT_2), n);
            normal_quantile(low) - normal_quantile(high)
        };
        Some(least(bound, claim)? / positive(seen)?)
    });
    let by_epsilon = || {
        let n = event.counted;
        let seen = libm::log(share(event.hits, n) / share(event.false_alarms, n));
        let bound = |epsilon: f64| {
            let (low, high) = bounds(1.0 / (1.0 + libm::exp(-epsilon)), n);
            ratio(low, high, claimed.delta)
        };
        Some(least(bound, claimed.epsilon)? / positive(seen)?)
    };
    let found = match claimed.mu {
        Some(_) => by_mu,
        None => by_epsilon(),
    };
    found.map(|factor| factor.max(1.0))
}

fn positive(x: f64) -> Option<f64> {
    (x > 0.0 && x.is_finite()).then_some(x)
}

/// The least value, of those up to a hundred, at which an increasing bound exceeds the claim.
fn least(bound: impl Fn(f64) -> f64, claim: f64) -> Option<f64> {
    const MOST: f64 = 100.0;
    let exceeds = |x: f64| bound(x) > claim;
    if !exceeds(MOST) {
        return None;
    }
    let (mut low, mut high) = (0.0, MOST);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        *(if exceeds(middle) { &mut high } else { &mut low }) = middle;
    }
    Some(high)
}

/// ln((low − δ)/high), or −∞ where there is nothing to compare.
fn ratio(low: f64, high: f64, delta: f64) -> f64 {
    if low <= delta { f64::NEG_INFINITY } else { libm::log((low - delta) / high) }
}

/// An event before it is counted.
#[derive(Clone, Copy, Debug)]
struct Choice {
    threshold: f64,
    tail: Tail,
    likelier: Side,
}

impl Choice {
    /// Counts the event on fresh trials and bounds both probabilities, each wrong with probability
    /// at most `wrong`.
    fn count(self, first: &[f64], second: &[f64], wrong: f64) -> ObservedEvent {
        let Self { threshold, tail, likelier } = self;
        let seen = |sample: &[f64]| {
            let inside = |s: &&f64| match tail {
                Tail::AtLeast => **s >= threshold,
                Tail::Below => **s < threshold,
            };
            sample.iter().filter(inside).count() as u32
        };
        let (hits, false_alarms) = match likelier {
            Side::First => (seen(first), seen(second)),
            Side::Second => (seen(second), seen(first)),
        };
        let counted = first.len() as u32;
        ObservedEvent {
            threshold,
            tail,
            likelier,
            hits,
            false_alarms,
            counted,
            probability_low: clopper_pearson_low(hits, counted, wrong),
            probability_high: clopper_pearson_high(false_alarms, counted, wrong),
        }
    }
}

/// All events of the choosing trials.
struct Sweep {
    first: Vec<f64>,
    second: Vec<f64>,
    /// Normal deviate of one confidence bound.
    deviate: f64,
}

impl Sweep {
    fn new(first: &[f64], second: &[f64], wrong: f64) -> Self {
        let sorted = |sample: &[f64]| {
            let mut sample: Vec<f64> = sample.iter().copied().filter(|s| !s.is_nan()).collect();
            sample.sort_unstable_by(f64::total_cmp);
            sample
        };
        Self { first: sorted(first), second: sorted(second), deviate: -normal_quantile(wrong) }
    }

    /// Moves the bounds three times as far away.
    fn cautious(&self) -> Self {
        Self { first: self.first.clone(), second: self.second.clone(), deviate: 3.0 * self.deviate }
    }

    /// The event with the best score of its two (approximate, Wilson) confidence bounds.
    fn best(&self, score: impl Fn(f64, f64) -> f64) -> Choice {
        let (n, m) = (self.first.len(), self.second.len());
        let mut best = Choice { threshold: 0.0, tail: Tail::AtLeast, likelier: Side::First };
        let mut most = f64::NEG_INFINITY;
        let (mut i, mut j) = (0, 0);
        while i < n || j < m {
            let at = |sample: &[f64], k: usize| sample.get(k).copied().unwrap_or(f64::INFINITY);
            let threshold = at(&self.first, i).min(at(&self.second, j));
            // Before they move past it, i and j count what lies below the threshold.
            for (tail, a, b) in [(Tail::AtLeast, n - i, m - j), (Tail::Below, i, j)] {
                for (likelier, (hits, of), (alarms, among)) in
                    [(Side::First, (a, n), (b, m)), (Side::Second, (b, m), (a, n))]
                {
                    let found =
                        score(wilson(hits, of, -self.deviate), wilson(alarms, among, self.deviate));
                    if found > most {
                        most = found;
                        best = Choice { threshold, tail, likelier };
                    }
                }
            }
            i += self.first[i..].iter().take_while(|s| **s <= threshold).count();
            j += self.second[j..].iter().take_while(|s| **s <= threshold).count();
        }
        best
    }
}

/// One number through the exact noise: a point of an interval of `width`, moved by `shift` on the
/// second data set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReleaseAttack {
    /// The noise and its grid.
    pub noise: RoundNoise,
    /// How far the number moves between the neighbours.
    pub shift: f64,
    /// ω of the interval, 0 for none.
    pub width: f64,
}

impl ReleaseAttack {
    /// One release; the released number is the statistic (its likelihood ratio is monotone).
    ///
    /// A number that does not fit its grid gives NaN, which counts for no event.
    #[must_use]
    pub fn play(&self, trial: &Trial) -> f64 {
        let y = if trial.side == Side::First { 0.0 } else { self.shift };
        let mut stream = trial.seed.stream(Purpose::Audit, 0, 0);
        let width = [self.width];
        let width = if self.width == 0.0 { &[][..] } else { &width[..] };
        let mut out = [0];
        match exact::release(
            &mut stream,
            &[y],
            width,
            self.noise.noise(),
            self.noise.grid(),
            &mut out,
        ) {
            Ok(()) => self.noise.grid().value(out[0]),
            Err(_) => f64::NAN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Noise;

    /// The statement beside a verdict, held to what the auditor does: noise that is a little more
    /// too small is found out, noise that is clearly less is not.
    #[test]
    fn a_verdict_says_what_shortfall_it_would_have_seen() {
        let options = Options { trials: 20_000, confidence: 0.99, seed: 5 };
        let judged = |shift: f64, laplace: bool| {
            let noise = match laplace {
                true => Noise::Laplace { scale: 1.0 },
                false => Noise::Gaussian { sigma: 1.0 },
            };
            let noise = RoundNoise::new(noise).unwrap();
            let claimed =
                if laplace { AuditedClaim::pure(1.0) } else { AuditedClaim::gaussian(1.0, 1e-6) };
            let attack = ReleaseAttack { noise, shift, width: 0.0 };
            audit(|trial| attack.play(trial), claimed, options).unwrap()
        };
        for laplace in [false, true] {
            let honest = judged(1.0, laplace);
            let factor = honest.visible_shortfall.expect("a sharp attack sees something");
            assert_eq!(honest.verdict, Verdict::Consistent);
            assert!((1.0..1.5).contains(&factor), "laplace {laplace}: {factor}");
            // Laplace releases have a better event than the one with equal errors.
            assert_eq!(judged(1.15 * factor, laplace).verdict, Verdict::Violated, "{factor}");
            if !laplace {
                assert_eq!(judged(0.85 * factor, laplace).verdict, Verdict::Consistent);
            }
        }
        // Nothing to see, or a claim beyond what so many draws can refute.
        assert_eq!(judged(0.0, false).visible_shortfall.filter(|f| *f < 10.0), None);
        let noise = RoundNoise::new(Noise::Laplace { scale: 1.0 }).unwrap();
        let attack = ReleaseAttack { noise, shift: 20.0, width: 0.0 };
        let vast = audit(|trial| attack.play(trial), AuditedClaim::pure(20.0), options).unwrap();
        assert_eq!((vast.verdict, vast.visible_shortfall), (Verdict::Consistent, None));
    }
}
