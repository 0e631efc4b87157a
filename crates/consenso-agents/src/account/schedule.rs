//! Noise on an agent's step: chosen or taken as given, and priced over the whole schedule or by a
//! filter.

use super::NoiseKind;
use super::wanted::{Accounting, NoiseSpec, PrivacySpec};
use super::{NoiseSchedule, Price, PricingFacts, RESERVED, caveats, each};
use crate::config_error::ConfigError;
use crate::gate::{FilterPlan, Ledger, MOST_ORDERS, Noise, Norm, RoundNoise, SchedulePlan};
use crate::privacy::calibrate::{self, Calibration, Request};
use crate::privacy::filter::RenyiFilter;
use crate::privacy::renyi_table::{IntervalNoise, RenyiTable, RoundCosts, ShiftNorms};
use crate::privacy::{Adversary, Claim, Composition, Event, Method, Sampling, compose};
use crate::problem::Sensitivity;
use crate::protocol::PublicFacts;
use std::sync::Arc;

/// One agent's rounds, before their noise is chosen.
#[derive(Clone, Copy)]
pub(super) struct UnpricedSchedule<'a> {
    /// How far the private step of each round moves between neighbours.
    pub(super) steps: &'a [Sensitivity],
    pub(super) facts: &'a PublicFacts,
    pub(super) terms: &'a PricingFacts<'a>,
    /// Some rounds are charged for others
    /// ([`Capabilities::charges_ahead`](crate::protocol::Capabilities::charges_ahead)).
    pub(super) ahead: bool,
    /// How many times more than by its own noise the agent is hidden, where others' noise hides it
    /// too.
    pub(super) gain: Option<f64>,
    /// Widths may lower a cost
    /// ([`Capabilities::intervals`](crate::protocol::Capabilities::intervals)).
    pub(super) intervals: bool,
    /// Every round's share of μ², where rounds do not share it by their sensitivities.
    pub(super) shares: Option<&'a [f64]>,
    /// How records are drawn for a round, where they are.
    pub(super) sampling: Option<Sampling>,
}

impl UnpricedSchedule<'_> {
    /// The noise of every round with its price: the user's, or as little as the budget allows.
    pub(super) fn allot(
        self,
        noise: Option<&NoiseSpec>,
        mechanism: Option<NoiseKind>,
    ) -> Result<NoiseSchedule, ConfigError> {
        let Self { steps, facts, terms, ahead, gain, intervals, shares, sampling } = self;
        let asked =
            terms.privacy.map(|p| PrivacySpec { mechanism: mechanism.or(p.mechanism), ..p });
        let privacy = asked.map(|p| if gain.is_some() { of_the_sum(p) } else { p });
        let mut calibration = None;
        let noise: Vec<Noise> = match noise {
            Some(NoiseSpec::LaplaceRate(s)) => {
                each(facts, s, |v| Noise::Laplace { scale: 1.0 / v })
            }
            Some(NoiseSpec::LaplaceScale(s)) => each(facts, s, |v| Noise::Laplace { scale: v }),
            Some(NoiseSpec::Gaussian(s)) => {
                each(facts, s, |v| Noise::Gaussian { sigma: v * gain.unwrap_or(1.0) })
            }
            Some(NoiseSpec::GammaRate(_)) => {
                return Err(no_bound());
            }
            Some(NoiseSpec::None | NoiseSpec::Calibrated(_)) | None => {
                let found = calibration.insert(self.calibrated(&privacy.ok_or_else(no_budget)?)?);
                let one = |&scale: &f64| match found.mechanism {
                    NoiseKind::Laplace => Noise::Laplace { scale },
                    NoiseKind::Gaussian => Noise::Gaussian { sigma: scale },
                };
                found.schedule.iter().map(one).collect()
            }
        };
        let rounds: Arc<[RoundNoise]> = noise
            .iter()
            .map(|&n| RoundNoise::new(n))
            .collect::<Result<_, _>>()
            .map_err(ConfigError::no_claim)?;
        let bare = NoiseSchedule::of(steps, rounds);
        let Some(privacy) = privacy else { return Ok(bare) };
        if ahead {
            chargeable_ahead(&noise, &privacy)?;
        }
        // Amplification is proved for noise of one's own on a schedule fixed in advance.
        let unproved =
            ahead || gain.is_some() || shares.is_some() || privacy.accounting == Accounting::Filter;
        if sampling.is_some() && unproved {
            return Err(no_bound());
        }
        if shares.is_some() && privacy.accounting == Accounting::Filter {
            return Err(no_bound());
        }
        if privacy.accounting == Accounting::Filter {
            let (ledger, claim) =
                filtered(&bare.steps, &noise, (facts.dim, intervals), &privacy, terms)?;
            let price = price_around(claim, serde_json::Value::Null, steps, &noise, facts);
            return Ok(NoiseSchedule { ledger, price: Some(price), ..bare });
        }
        let price = price((steps, &noise), sampling, calibration.as_ref(), facts, &privacy, terms)?;
        let allowed = match privacy.epsilon {
            Some(limit) if price.claim.epsilon > limit => {
                allowed((steps, &noise), sampling, facts, &privacy, limit)?
            }
            _ => facts.rounds,
        };
        let plan =
            SchedulePlan::new(allowed, Arc::clone(&bare.steps), facts.dim).with_sampling(sampling);
        let ledger = Ledger::schedule(Arc::new(plan));
        Ok(NoiseSchedule { ledger, price: Some(price), ..bare })
    }

    /// As little noise as the budget allows.
    fn calibrated(&self, privacy: &PrivacySpec) -> Result<Calibration, ConfigError> {
        match self.shares {
            _ if self.ahead => calibrated_ahead(self.steps, self.facts, privacy),
            Some(shares) => calibrated_by_shares(self.steps, shares, self.facts, privacy),
            None => calibrated(self.steps, self.sampling, self.facts, privacy),
        }
    }
}

/// The budget of the Gaussian mechanism alone, where others' noise hides an agent: what is left of
/// δ after [`RESERVED`].
fn of_the_sum(privacy: PrivacySpec) -> PrivacySpec {
    let delta = privacy.delta * (1.0 - RESERVED);
    PrivacySpec { delta, mechanism: Some(NoiseKind::Gaussian), ..privacy }
}

/// Nothing to calibrate noise to.
pub(super) fn no_budget() -> ConfigError {
    ConfigError::at("privacy.epsilon", "privacy.epsilon is missing")
}

/// Noise in proportion to each round's sensitivity, as little as the budget allows: Gaussian or
/// Laplace, whichever certifies less.
fn calibrated(
    steps: &[Sensitivity],
    sampling: Option<Sampling>,
    facts: &PublicFacts,
    privacy: &PrivacySpec,
) -> Result<Calibration, ConfigError> {
    let epsilon = privacy.epsilon.ok_or_else(no_budget)?;
    // Rounds differ by a factor α_k; the bounds before it are the largest quotients, so that they
    // hold in every round.
    let factors: Vec<f64> = steps.iter().map(|s| s.l2 / steps[0].l2).collect();
    let largest = |norm: fn(&Sensitivity) -> f64| {
        steps.iter().zip(&factors).map(|(s, f)| (norm(s) / f).next_up()).fold(0.0, f64::max)
    };
    let sensitivity =
        Sensitivity { l1: largest(|s| s.l1), l2: largest(|s| s.l2), linf: largest(|s| s.linf) };
    let request = Request {
        epsilon,
        delta: privacy.delta,
        dim: facts.dim,
        sensitivity,
        steps: factors.clone(),
        shape: factors,
        noise: privacy.mechanism,
        sampling,
    };
    calibrate::calibrate(&request).map_err(ConfigError::no_claim)
}

/// Calibrates noise where rounds are charged for others: only those that are charged say what noise
/// is needed, and all get it.
fn calibrated_ahead(
    steps: &[Sensitivity],
    facts: &PublicFacts,
    privacy: &PrivacySpec,
) -> Result<Calibration, ConfigError> {
    if privacy.mechanism == Some(NoiseKind::Laplace) {
        return Err(no_bound());
    }
    let charged: Vec<Sensitivity> = steps.iter().copied().filter(|s| s.l2 > 0.0).collect();
    let gaussian = PrivacySpec { mechanism: Some(NoiseKind::Gaussian), ..*privacy };
    let mut found = calibrated(&charged, None, facts, &gaussian)?;
    // They are all the same: an account of rounds that charge ahead has one σ.
    found.schedule = vec![found.schedule[0]; steps.len()];
    Ok(found)
}

/// Calibrates noise where every round has its share of μ²: Gaussian noise, σ_k ∝ B_k/√share_k.
/// Rounds without a share move nothing and draw nothing; their entry keeps the place of the round.
fn calibrated_by_shares(
    steps: &[Sensitivity],
    shares: &[f64],
    facts: &PublicFacts,
    privacy: &PrivacySpec,
) -> Result<Calibration, ConfigError> {
    if privacy.mechanism == Some(NoiseKind::Laplace) {
        return Err(no_bound());
    }
    let charged = || steps.iter().zip(shares).filter(|(step, _)| step.l2 > 0.0);
    let largest = charged().map(|(step, _)| step.l2).fold(0.0, f64::max);
    let request = Request {
        epsilon: privacy.epsilon.ok_or_else(no_budget)?,
        delta: privacy.delta,
        dim: facts.dim,
        sensitivity: Sensitivity::from_l2(largest, facts.dim),
        steps: charged().map(|(step, _)| (step.l2 / largest).next_up()).collect(),
        shape: charged().map(|(step, share)| step.l2 / largest / share.sqrt()).collect(),
        noise: Some(NoiseKind::Gaussian),
        sampling: None,
    };
    let mut found = calibrate::calibrate(&request).map_err(ConfigError::no_claim)?;
    let least = found.schedule.iter().copied().fold(f64::INFINITY, f64::min);
    let mut scales = found.schedule.iter().copied();
    let one =
        |step: &Sensitivity| if step.l2 > 0.0 { scales.next().unwrap_or(f64::NAN) } else { least };
    found.schedule = steps.iter().map(one).collect();
    Ok(found)
}

/// Refuses what an account that charges some rounds for others cannot rest on.
fn chargeable_ahead(noise: &[Noise], privacy: &PrivacySpec) -> Result<(), ConfigError> {
    if privacy.accounting == Accounting::Filter {
        return Err(no_bound());
    }
    if noise.iter().any(|n| !matches!(n, Noise::Gaussian { .. })) {
        return Err(no_bound());
    }
    match noise.windows(2).position(|w| w[0] != w[1]) {
        None => Ok(()),
        Some(k) => Err(ConfigError::at(
            "noise",
            format!(
                "noise: σ changes in round {}, and one charge covers a whole epoch of coordinates: give one number",
                k + 2
            ),
        )),
    }
}

/// The steps of a schedule and the noise on them.
type Noised<'a> = (&'a [Sensitivity], &'a [Noise]);

/// The compositions of a schedule, one for every norm that bounds it.
fn compositions(
    (steps, noise): Noised<'_>,
    sampling: Option<Sampling>,
    dim: usize,
    delta: f64,
) -> Result<Vec<(Norm, Composition)>, ConfigError> {
    let norms = noise.first().map_or(&[][..], |&noise| Norm::that_bound(noise, sampling));
    let one = |&norm: &Norm| {
        let event = |(step, noise): (&Sensitivity, &Noise)| norm.event(step, *noise, dim, sampling);
        let events: Vec<Event> = steps.iter().zip(noise).map(event).collect();
        let composed = compose(&events, delta).map_err(ConfigError::no_claim)?;
        Ok((norm, composed))
    };
    norms.iter().map(one).collect()
}

/// Nothing that bounds what was asked for. What the rules of an experiment refuse with a reason
/// (`experiment/rules.rs`) ends here if it comes so far.
#[must_use]
pub fn no_bound() -> ConfigError {
    ConfigError::no_claim("no bound is valid for this schedule")
}

fn price(
    (steps, noise): Noised<'_>,
    sampling: Option<Sampling>,
    calibration: Option<&Calibration>,
    facts: &PublicFacts,
    privacy: &PrivacySpec,
    terms: &PricingFacts<'_>,
) -> Result<Price, ConfigError> {
    let compositions = compositions((steps, noise), sampling, facts.dim, privacy.delta)?;
    let bounds: serde_json::Map<String, serde_json::Value> = compositions
        .iter()
        .map(|(norm, c)| (norm.name().to_owned(), serde_json::to_value(c).unwrap_or_default()))
        .collect();
    let best = |c: &Composition| c.best().map_or(f64::INFINITY, |b| b.1);
    let (norm, composition) = compositions
        .into_iter()
        .min_by(|a, b| best(&a.1).total_cmp(&best(&b.1)))
        .ok_or_else(no_bound)?;
    let mut claim =
        Claim::from_composition(composition, privacy.neighbours, sampler(noise, terms.seeded))
            .ok_or_else(no_bound)?;
    let mut norms = format!("sensitivity in the {} norm, the best of those known", norm.name());
    // Calibration certified the very same schedule; where it used all norms at once its bound is
    // the smaller one.
    if let Some(Calibration { spent, .. }) = calibration
        && spent.epsilon < claim.epsilon
    {
        if spent.method != claim.method {
            norms = "sensitivity in the l1, l2 and l∞ norms at once".into();
            claim.bounds = None;
        }
        (claim.epsilon, claim.delta, claim.method) = (spent.epsilon, spent.delta, spent.method);
    }
    let claim = caveats(claim, terms).with_caveat(norms);
    let mut price = price_around(claim, bounds.into(), steps, noise, facts);
    // Theorem 2.2 looks at a release that every record is in.
    price.realised &= sampling.is_none();
    Ok(price)
}

fn price_around(
    claim: Claim,
    bounds: serde_json::Value,
    steps: &[Sensitivity],
    noise: &[Noise],
    facts: &PublicFacts,
) -> Price {
    let dim = facts.dim as f64;
    let (mut l1, mut linf, mut laplace) = (0.0, 0.0, true);
    let paper_worst_case: Vec<f64> = steps
        .iter()
        .zip(noise)
        .map(|(s, n)| {
            laplace &= matches!(n, Noise::Laplace { .. });
            l1 += s.l1 / n.scale();
            linf += dim * s.linf / n.scale();
            linf
        })
        .collect();
    let up = |x: f64| x * (1.0 + 1e-12);
    Price {
        claim,
        bounds,
        worst_case_pure: laplace.then(|| up(l1.min(linf))),
        paper_worst_case: if laplace { paper_worst_case } else { Vec::new() },
        realised: laplace,
    }
}

fn sampler(noise: &[Noise], seeded: bool) -> String {
    let kind = match noise.first() {
        Some(Noise::Laplace { .. }) => "Laplace",
        _ => "Gaussian",
    };
    let source = if seeded { "a seeded ChaCha12 stream" } else { "ChaCha12 keyed by OS entropy" };
    format!("exact {kind} rounded to a public grid, {source}")
}

/// The longest prefix of the schedule that stays within ε.
fn allowed(
    (steps, noise): Noised<'_>,
    sampling: Option<Sampling>,
    facts: &PublicFacts,
    privacy: &PrivacySpec,
    limit: f64,
) -> Result<u32, ConfigError> {
    let (mut low, mut high) = (0, steps.len());
    while low + 1 < high {
        let middle = low.midpoint(high);
        let part = (&steps[..middle], &noise[..middle]);
        let all = compositions(part, sampling, facts.dim, privacy.delta)?;
        let epsilon =
            all.iter().filter_map(|c| c.1.best()).map(|b| b.1).fold(f64::INFINITY, f64::min);
        if epsilon <= limit { low = middle } else { high = middle }
    }
    Ok(low as u32)
}

/// Orders of the filter around the best one for the schedule: each has its share of δ, so there are
/// few.
const FILTER_ORDERS: [f64; MOST_ORDERS] = [0.75, 1.0, 1.35, 1.9];

fn filtered(
    steps: &Arc<[Sensitivity]>,
    noise: &[Noise],
    (dim, intervals): (usize, bool),
    privacy: &PrivacySpec,
    terms: &PricingFacts<'_>,
) -> Result<(Ledger, Claim), ConfigError> {
    let epsilon = privacy.epsilon.ok_or_else(no_bound)?;
    let rates: Vec<f64> = noise.iter().map(|n| 1.0 / n.scale()).collect();
    let norms: Vec<ShiftNorms> = steps
        .iter()
        .zip(&rates)
        .map(|(s, r)| ShiftNorms {
            inf: (s.linf * r).next_up(),
            two: Some((s.l2 * r).next_up()),
            one: Some((s.l1 * r).next_up()),
        })
        .collect();
    let gaussian = noise.iter().all(|n| matches!(n, Noise::Gaussian { .. }));
    let mu: Vec<f64> = if gaussian {
        let ratio = |(s, n): (&Sensitivity, &Noise)| (s.l2 / n.scale()).next_up();
        steps.iter().zip(noise).map(ratio).collect()
    } else {
        Vec::new()
    };
    let (filter, rounds) = tracks(&norms, &mu, intervals, epsilon, privacy.delta)?;
    let plan = FilterPlan::new(rounds, rates, Arc::clone(steps), dim).with_gaussian(mu);
    let claim = Claim {
        epsilon,
        delta: privacy.delta,
        method: Method::RenyiFilter,
        neighbours: privacy.neighbours,
        adversary: Claim::COLLUDING_NEIGHBOURS.into(),
        against: Adversary::Local,
        sampler: sampler(noise, terms.seeded),
        caveats: vec![if filter.orders().is_empty() {
            "filter over Σ μ²: the budget fixed in advance is the claim; releases stop before it is exceeded"
                .into()
        } else {
            "Rényi filter: the budget fixed in advance is the claim; releases stop before it is exceeded"
                .into()
        }],
        bounds: None,
    };
    Ok((Ledger::filter(Arc::new(plan), filter), caveats(claim, terms)))
}

/// The filter of a schedule, and what each round costs at its orders.
///
/// Gaussian noise has Σ μ² in it, which widths do not touch. It stands alone, with all of δ, where
/// widths can add nothing: the algorithm has no intervals, or the whole schedule fits without them.
/// All of this is decided from public numbers before the first release.
fn tracks(
    norms: &[ShiftNorms],
    mu: &[f64],
    intervals: bool,
    epsilon: f64,
    delta: f64,
) -> Result<(RenyiFilter, Vec<RoundCosts>), ConfigError> {
    let gaussian = !mu.is_empty();
    if gaussian {
        let filter =
            RenyiFilter::with_gaussian(&[], epsilon, delta).map_err(ConfigError::no_claim)?;
        let mut all = filter.clone();
        if !intervals || mu.iter().all(|&mu| all.try_charge_gaussian(&[], mu).is_ok()) {
            return Ok((filter, Vec::new()));
        }
    }
    let rho: f64 = norms.iter().filter_map(|n| n.two).map(|v| 0.5 * v * v).sum();
    // The order that zCDP would use for this budget, from public numbers alone.
    let best = 1.0 + (libm::log(1.0 / delta) / rho.max(1e-300)).sqrt();
    let best = best.clamp(1.5, 1.0 + 2.0 * libm::log(1.0 / delta) / epsilon);
    let orders: Vec<f64> = FILTER_ORDERS.iter().map(|f| 1.0 + (best - 1.0) * f).collect();
    let (filter, kind) = if gaussian {
        (RenyiFilter::with_gaussian(&orders, epsilon, delta), IntervalNoise::Gaussian)
    } else {
        (RenyiFilter::new(&orders, epsilon, delta), IntervalNoise::Laplace)
    };
    let reach =
        || norms.iter().map(|n| n.inf.min(n.two.unwrap_or(n.inf)).min(n.one.unwrap_or(n.inf)));
    let (low, high) = (reach().fold(f64::INFINITY, f64::min), reach().fold(0.0, f64::max));
    let table = RenyiTable::new(kind, low, high, &orders).map_err(ConfigError::no_claim)?;
    let rounds = norms
        .iter()
        .map(|&n| table.round(n))
        .collect::<Result<_, _>>()
        .map_err(ConfigError::no_claim)?;
    Ok((filter.map_err(ConfigError::no_claim)?, rounds))
}
