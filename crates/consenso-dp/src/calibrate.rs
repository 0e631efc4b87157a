//! From a budget to noise: the least noise whose certified cost meets (ε, δ).
//!
//! Round `k` releases a private step `α_k·g` with `‖g − ĝ‖_q ≤ B_q` between neighbours, under noise
//! of scale `c·shape_k` a coordinate. Everything depends on the ratios `r_k = α_k/shape_k` and on
//! `c`, the multiplier that is looked for.
//!
//! - **Gaussian.** `μ² = Σ (B₂ r_k/c)²` and δ(ε) is exact, so `c` is a closed form in the largest
//!   admissible μ.
//! - **Laplace.** Three valid descriptions of a round, and the one that needs least noise is used:
//!   one release of `ε_k = B₁ r_k/c` (l1, see [`Mechanism::Laplace`](super::Mechanism)), through
//!   the loss distribution; `d` releases of `B_∞ r_k/c` each, through the loss distribution; and
//!   all norms at once in Rényi terms. For the last, `f(e) = D_a` of one coordinate is convex in
//!   `e` with `f(0) = 0`, so `Σ f(e_l) ≤ (E₁/E_∞)·f(E_∞)` under `‖e‖₁ ≤ E₁`, `‖e‖_∞ ≤ E_∞`; and
//!   concave in `e²` (`f″ ∝ sech²` falls, so `f′/e` falls), so `Σ f(e_l) ≤ d·f(E₂/√d)` under
//!   `‖e‖₂ ≤ E₂`.
//!
//!   Loss distributions under all norms at once would need the worst of all shifts. What was tried:
//!   for a fixed `‖e‖₁` vectors that are more spread tell less at every ε that was computed (δ(ε)
//!   of (1.5, 0, 0), (1, ½, 0), (¾, ¾, 0) and (½, ½, ½) falls in that order), as concentrating a
//!   shift does in the proof of one coordinate ([`Mechanism::Laplace`](super::Mechanism)); but the
//!   kernel of that proof joins coordinates into one and does not move a part of one to another, so
//!   that this order is not proved. Were it so, bounds on `‖e‖₁` and `‖e‖_∞` would have one worst
//!   shift, and a bound on `‖e‖₂` beside them still leaves a family whose worst member depends on
//!   ε: the largest loss asks for few large coordinates, small losses for many equal ones. A
//!   composition would then have to hold for a different member in every round, and no loss
//!   distribution of one of them covers it. The Rényi bound stands, 6 to 27 % above the worst
//!   shifts found.
//!
//! - **Sampled.** Where every record is drawn for a round with a secret chance ([`Sampling`]), one
//!   event a round with the l2 norm (Gaussian) or the l1 norm (Laplace), through the loss
//!   distribution. The coordinates of a round share one draw, so that they are no independent
//!   events, and the routes of the l∞ norm and of all norms at once are closed.
//!
//! Of the two mechanisms the one with less variance a coordinate is returned (`2b²` against `σ²`),
//! unless one is asked for.

use super::compose::{Bound, Method, Profile};
use super::error::{check_delta, check_epsilon, check_positive};
use super::{AccountingError, Event, Mechanism, gdp, pld, rdp};
use crate::Sensitivity;
use crate::sampled::{self, Sampling};
use serde::{Deserialize, Serialize};

/// How far below the budget the certified ε may stay, relatively.
pub const TOLERANCE: f64 = 1e-3;

/// A kind of noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoiseKind {
    /// Independent Laplace coordinates; the scale is `b`, the variance `2b²`.
    Laplace,
    /// Independent Gaussian coordinates; the scale is σ.
    Gaussian,
}

/// What is to be calibrated.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The budget's ε.
    pub epsilon: f64,
    /// The budget's δ.
    pub delta: f64,
    /// Dimension of the released vector.
    pub dim: usize,
    /// B_q of the private step before its factor.
    pub sensitivity: Sensitivity,
    /// Step factors α_k, one a round.
    pub steps: Vec<f64>,
    /// Relative noise scale of each round.
    pub shape: Vec<f64>,
    /// The noise asked for; whichever needs less variance if `None`.
    pub noise: Option<NoiseKind>,
    /// How records are drawn for a round; all of them if `None`. Sensitivities are then those of a
    /// round that draws the record in question.
    pub sampling: Option<Sampling>,
}

impl Request {
    /// `rounds` equal rounds with step factor 1.
    pub fn new(
        epsilon: f64,
        delta: f64,
        rounds: usize,
        dim: usize,
        sensitivity: Sensitivity,
    ) -> Self {
        let ones = vec![1.0; rounds];
        Self {
            epsilon,
            delta,
            dim,
            sensitivity,
            steps: ones.clone(),
            shape: ones,
            noise: None,
            sampling: None,
        }
    }

    fn check(&self) -> Result<(), AccountingError> {
        check_epsilon(self.epsilon)?;
        check_delta(self.delta)?;
        if self.steps.is_empty() {
            let found = 0.0;
            return Err(AccountingError::BadParameter {
                name: "rounds",
                expected: "at least 1",
                found,
            });
        }
        if self.dim == 0 {
            let found = 0.0;
            return Err(AccountingError::BadParameter {
                name: "dim",
                expected: "at least 1",
                found,
            });
        }
        if self.shape.len() != self.steps.len() {
            let (expected, found) = (self.steps.len(), self.shape.len());
            return Err(AccountingError::BadLength { name: "shape", expected, found });
        }
        if let Some(Sampling { rate, neighbours }) = self.sampling {
            sampled::check(rate, neighbours)?;
        }
        check_positive("sensitivity l1", self.sensitivity.l1)?;
        check_positive("sensitivity l2", self.sensitivity.l2)?;
        check_positive("sensitivity linf", self.sensitivity.linf)?;
        self.steps.iter().try_for_each(|&step| check_positive("step", step))?;
        self.shape.iter().try_for_each(|&shape| check_positive("shape", shape))?;
        let square: f64 =
            self.steps.iter().zip(&self.shape).map(|(step, shape)| (step / shape).powi(2)).sum();
        check_positive("sum of squared step over shape", square)
    }
}

/// Completes partly known sensitivities: `‖t‖_∞ ≤ ‖t‖₂ ≤ ‖t‖₁ ≤ √d‖t‖₂ ≤ d‖t‖_∞`, and tightens
/// those that are given.
///
/// # Errors
/// None given, `dim` zero, or one that is not positive and finite.
pub fn complete_sensitivity(
    l1: Option<f64>,
    l2: Option<f64>,
    linf: Option<f64>,
    dim: usize,
) -> Result<Sensitivity, AccountingError> {
    for (name, value) in
        [("sensitivity l1", l1), ("sensitivity l2", l2), ("sensitivity linf", linf)]
    {
        value.map_or(Ok(()), |value| check_positive(name, value))?;
    }
    if dim == 0 {
        return Err(AccountingError::BadParameter {
            name: "dim",
            expected: "at least 1",
            found: 0.0,
        });
    }
    let (d, none) = (dim as f64, f64::INFINITY);
    let (l1, l2, linf) = (l1.unwrap_or(none), l2.unwrap_or(none), linf.unwrap_or(none));
    let root = d.sqrt().next_up();
    let completed = Sensitivity {
        l1: l1.min((root * l2).next_up()).min((d * linf).next_up()),
        l2: l2.min(l1).min((root * linf).next_up()),
        linf: linf.min(l2).min(l1),
    };
    check_positive("sensitivity (give one of l1, l2, linf)", completed.linf)?;
    Ok(completed)
}

/// The certified cost of a calibrated schedule.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CertifiedCost {
    /// ε, an upper bound, at most the budget's and within [`TOLERANCE`] of it.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// The theorem behind ε.
    pub method: Method,
}

/// Noise that meets a budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The kind of noise.
    pub mechanism: NoiseKind,
    /// Its scale in each round: `b_k` for Laplace, `σ_k` for Gaussian.
    pub schedule: Vec<f64>,
    /// The multiplier `c`: `schedule[k] = c·shape[k]`.
    pub multiplier: f64,
    /// What it costs.
    pub spent: CertifiedCost,
    /// The releases as events to compose, where the certificate is a composition of events; empty
    /// where all norms were used at once.
    pub events: Vec<Event>,
}

impl Calibration {
    /// Noise variance a coordinate, relative to `shape²`.
    pub fn variance(&self) -> f64 {
        match self.mechanism {
            NoiseKind::Laplace => 2.0 * self.multiplier * self.multiplier,
            NoiseKind::Gaussian => self.multiplier * self.multiplier,
        }
    }
}

/// The least noise of the kinds allowed whose certified cost is within the budget.
///
/// # Errors
/// A parameter out of range ([`AccountingError::BadParameter`], [`AccountingError::BadLength`]), or
/// a budget nothing meets ([`AccountingError::Unreachable`]).
///
/// ```
/// use consenso_dp::calibrate::{Request, calibrate, complete_sensitivity};
/// let sensitivity = complete_sensitivity(None, Some(2.0 / 3000.0), None, 105)?;
/// let found = calibrate(&Request::new(1.0, 1e-6, 200, 105, sensitivity))?;
/// assert!(found.spent.epsilon <= 1.0 && found.spent.epsilon > 0.999);
/// # Ok::<(), consenso_dp::AccountingError>(())
/// ```
pub fn calibrate(request: &Request) -> Result<Calibration, AccountingError> {
    request.check()?;
    let rounds = Rounds::new(request);
    if let Some(sampling) = request.sampling.filter(|s| s.rate < 1.0) {
        return rounds.sampled(sampling);
    }
    match request.noise {
        Some(NoiseKind::Gaussian) => rounds.gaussian(),
        Some(NoiseKind::Laplace) => rounds.laplace(f64::INFINITY),
        None => {
            let gaussian = match rounds.gaussian() {
                Ok(gaussian) => gaussian,
                // Where ε and δ are so small that no float tells Gaussian noise from none, a pure
                // claim still answers.
                Err(cause) => return rounds.laplace(f64::INFINITY).map_err(|_| cause),
            };
            match rounds.laplace(gaussian.variance()) {
                Ok(laplace) if laplace.variance() < gaussian.variance() => Ok(laplace),
                _ => Ok(gaussian),
            }
        }
    }
}

/// Laplace releases of a vector, by how far their means are apart in units of the noise's scale: in
/// three norms, each of which says something the others do not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaplaceShift {
    /// ‖shift‖₁/b.
    pub l1: f64,
    /// ‖shift‖₂/b.
    pub l2: f64,
    /// ‖shift‖_∞/b.
    pub linf: f64,
    /// Coordinates.
    pub dim: u64,
    /// Releases.
    pub count: u64,
}

impl LaplaceShift {
    /// Rényi cost of order `order` of all of them: the smaller of the two bounds at the head of
    /// this module.
    fn cost(&self, order: f64) -> f64 {
        let d = self.dim as f64;
        let linf = self.linf.min(self.l1);
        if linf == 0.0 {
            return 0.0;
        }
        let sparse = (self.l1 / linf) * rdp::laplace_cost(linf, order);
        let spread = d * rdp::laplace_cost(linf.min(self.l2 / d.sqrt()), order);
        self.count as f64 * sparse.min(spread)
    }

    fn pure(&self) -> f64 {
        self.l1.min(self.linf * self.dim as f64) * self.count as f64
    }
}

/// ε at δ of Laplace releases with all norms at once: Rényi, or the plain sum where that is
/// smaller. Rounded up.
#[must_use]
pub fn joint_epsilon(shifts: &[LaplaceShift], delta: f64) -> (Method, f64) {
    let slack = 1.0 + 1e-13 + shifts.len() as f64 * f64::EPSILON;
    let curve = |order: f64| shifts.iter().map(|s| s.cost(order)).sum::<f64>() * slack;
    let sum = shifts.iter().map(LaplaceShift::pure).sum::<f64>() * (1.0 + 1e-12);
    let found = rdp::minimise(curve, curve(2.0) / 2.0, delta);
    let renyi = found.epsilon * (1.0 + 1e-12);
    if sum <= renyi { (Method::Pure, sum.next_up()) } else { (Method::Rdp, renyi.next_up()) }
}

/// A request with its rounds grouped by their ratio of step to noise.
struct Rounds<'a> {
    request: &'a Request,
    /// (α_k/shape_k rounded up, how many rounds).
    ratios: Vec<(f64, u64)>,
}

/// A description of a Laplace round by events.
#[derive(Clone, Copy)]
enum Route {
    /// One event with the l1 sensitivity.
    L1,
    /// One event a coordinate with the l∞ sensitivity.
    Linf,
}

impl<'a> Rounds<'a> {
    fn new(request: &'a Request) -> Self {
        let mut ratios: Vec<f64> = request
            .steps
            .iter()
            .zip(&request.shape)
            .map(|(step, shape)| (step / shape).next_up())
            .collect();
        ratios.sort_by(f64::total_cmp);
        let groups =
            ratios.chunk_by(|a, b| a == b).map(|group| (group[0], group.len() as u64)).collect();
        Self { request, ratios: groups }
    }

    fn result(
        &self,
        mechanism: NoiseKind,
        multiplier: f64,
        spent: (Method, f64),
        events: Vec<Event>,
    ) -> Calibration {
        let schedule =
            self.request.shape.iter().map(|shape| (multiplier * shape).next_up()).collect();
        let spent = CertifiedCost { epsilon: spent.1, delta: self.request.delta, method: spent.0 };
        Calibration { mechanism, schedule, multiplier, spent, events }
    }

    fn gaussian(&self) -> Result<Calibration, AccountingError> {
        let Request { epsilon, delta, sensitivity, .. } = self.request;
        let mu = gdp::mu_for(*epsilon, *delta)?;
        let square: f64 =
            self.ratios.iter().map(|(ratio, count)| ratio * ratio * *count as f64).sum();
        let mut multiplier = sensitivity.l2 * square.sqrt() / mu;
        // Rounding up everywhere may put the certified ε a hair above the budget; a hair more noise
        // mends it, a larger one where ε is tiny.
        let mut hair = 1e-11;
        for _ in 0..40 {
            let event = |&(ratio, count): &(f64, u64)| {
                Event::gaussian((sensitivity.l2 * ratio / multiplier).next_up(), count)
            };
            let events: Vec<Event> = self.ratios.iter().map(event).collect();
            if let Bound::Value(spent) = gdp::epsilon(&Profile::new(&events)?, *delta)?
                && spent <= *epsilon
            {
                return Ok(self.result(
                    NoiseKind::Gaussian,
                    multiplier,
                    (Method::Gdp, spent),
                    events,
                ));
            }
            multiplier *= 1.0 + hair;
            hair *= 2.0;
        }
        Err(self.unreachable("rounding exceeds the budget"))
    }

    /// Noise on rounds that draw every record with a secret chance.
    fn sampled(&self, sampling: Sampling) -> Result<Calibration, AccountingError> {
        match self.request.noise {
            Some(kind) => self.amplified(kind, sampling, f64::INFINITY),
            None => {
                let gaussian = self.amplified(NoiseKind::Gaussian, sampling, f64::INFINITY)?;
                match self.amplified(NoiseKind::Laplace, sampling, gaussian.variance()) {
                    Ok(laplace) if laplace.variance() < gaussian.variance() => Ok(laplace),
                    _ => Ok(gaussian),
                }
            }
        }
    }

    /// The least noise of a kind on sampled rounds, or an error early if it is clear that its
    /// variance would exceed `limit`.
    fn amplified(
        &self,
        kind: NoiseKind,
        sampling: Sampling,
        limit: f64,
    ) -> Result<Calibration, AccountingError> {
        let sensitivity = self.request.sensitivity;
        let events = |multiplier: f64| -> Vec<Event> {
            let event = |&(ratio, count): &(f64, u64)| {
                let shift = |bound: f64| (bound * ratio / multiplier).next_up().next_up();
                let mechanism = match kind {
                    NoiseKind::Gaussian => Mechanism::SampledGaussian {
                        mu: shift(sensitivity.l2),
                        sampling: sampling.rate,
                        neighbours: sampling.neighbours,
                    },
                    NoiseKind::Laplace => Mechanism::SampledLaplace {
                        epsilon: shift(sensitivity.l1),
                        sampling: sampling.rate,
                        neighbours: sampling.neighbours,
                    },
                };
                Event { mechanism, count }
            };
            self.ratios.iter().map(event).collect()
        };
        let delta = self.request.delta;
        let by = |method: Method| {
            move |multiplier: f64| {
                let profile = Profile::new(&events(multiplier)).ok()?;
                let found = match method {
                    Method::Rdp => rdp::epsilon(&profile, delta),
                    _ => pld::epsilon(&profile, delta),
                };
                Some((method, found.ok()?.value()?))
            }
        };
        // Drawing every record needs more noise than drawing some.
        let whole = match kind {
            NoiseKind::Gaussian => self.gaussian()?.multiplier,
            NoiseKind::Laplace => self.pure_sum(1.0) / self.request.epsilon,
        };
        let start = self.solve(whole, by(Method::Rdp)).map_or(whole, |found| found.0);
        let variance = |c: f64| if kind == NoiseKind::Laplace { 2.0 * c * c } else { c * c };
        // The loss distribution has never gained a third on the moments.
        if variance(start) * 0.5 > limit {
            return Err(self.unreachable("another kind of noise needs less"));
        }
        let (multiplier, spent) = self.solve(0.96 * start, by(Method::Pld))?;
        Ok(self.result(kind, multiplier, spent, events(multiplier)))
    }

    /// Laplace noise, or an error early if it is clear that its variance would exceed `limit`.
    fn laplace(&self, limit: f64) -> Result<Calibration, AccountingError> {
        // Scaling c down by this is more than the loss distribution has ever gained on the Rényi
        // bound.
        const GAIN: f64 = 0.75;
        let start = self.pure_sum(1.0) / self.request.epsilon;
        let joint = self.solve(start, |c| Some(self.joint(c)))?;
        let mut best = self.result(NoiseKind::Laplace, joint.0, (joint.1.0, joint.1.1), Vec::new());
        if GAIN * GAIN * best.variance() > limit {
            return Ok(best);
        }
        for route in [Route::L1, Route::Linf] {
            // A route whose Rényi cost at the joint scale is far beyond the budget cannot catch up.
            let profile = self.profile(route, GAIN * best.multiplier)?;
            let cheap =
                rdp::epsilon(&profile, self.request.delta)?.value().unwrap_or(f64::INFINITY);
            if cheap * GAIN * GAIN > self.request.epsilon * 2.0 {
                continue;
            }
            let certified = |c: f64| {
                let profile = self.profile(route, c).ok()?;
                Some((Method::Pld, pld::epsilon(&profile, self.request.delta).ok()?.value()?))
            };
            if let Ok((multiplier, spent)) = self.solve(best.multiplier, certified)
                && multiplier < best.multiplier
            {
                best = self.result(
                    NoiseKind::Laplace,
                    multiplier,
                    spent,
                    self.events(route, multiplier),
                );
            }
        }
        Ok(best)
    }

    fn pure_sum(&self, multiplier: f64) -> f64 {
        let Sensitivity { l1, linf, .. } = self.request.sensitivity;
        let reach = l1.min(linf * self.request.dim as f64);
        let sum: f64 = self.ratios.iter().map(|(ratio, count)| ratio * *count as f64).sum();
        reach * sum / multiplier * (1.0 + 1e-12)
    }

    /// ε with all norms at once.
    fn joint(&self, multiplier: f64) -> (Method, f64) {
        let Sensitivity { l1, l2, linf } = self.request.sensitivity;
        let shift = |&(ratio, count): &(f64, u64)| {
            let scaled = |bound: f64| bound * ratio / multiplier * (1.0 + 1e-14);
            let [l1, l2, linf] = [l1, l2, linf].map(scaled);
            LaplaceShift { l1, l2, linf, dim: self.request.dim as u64, count }
        };
        let shifts: Vec<LaplaceShift> = self.ratios.iter().map(shift).collect();
        joint_epsilon(&shifts, self.request.delta)
    }

    fn events(&self, route: Route, multiplier: f64) -> Vec<Event> {
        let (bound, copies) = match route {
            Route::L1 => (self.request.sensitivity.l1, 1),
            Route::Linf => (self.request.sensitivity.linf, self.request.dim as u64),
        };
        let event = |&(ratio, count): &(f64, u64)| {
            Event::laplace((bound * ratio / multiplier).next_up().next_up(), count * copies)
        };
        self.ratios.iter().map(event).collect()
    }

    fn profile(&self, route: Route, multiplier: f64) -> Result<Profile, AccountingError> {
        Profile::new(&self.events(route, multiplier))
    }

    /// A multiplier whose certified ε lies within the budget and within half the tolerance of it,
    /// from `start`.
    ///
    /// ln ε is nearly linear in ln c, so a secant there takes a few steps; a bracket guards it.
    fn solve(
        &self,
        start: f64,
        certified: impl Fn(f64) -> Option<(Method, f64)>,
    ) -> Result<(f64, (Method, f64)), AccountingError> {
        let budget = self.request.epsilon;
        let aim = budget * (1.0 - TOLERANCE / 4.0);
        let (mut refused, mut accepted) = (0.0, None);
        let (mut multiplier, mut last, mut slope) = (start, None::<(f64, f64)>, 1.2);
        for _ in 0..80 {
            let Some(found) = certified(multiplier) else { break };
            let epsilon = found.1;
            if epsilon <= budget {
                accepted = Some((multiplier, found));
                if epsilon >= budget * (1.0 - TOLERANCE / 2.0) {
                    break;
                }
            } else {
                refused = multiplier;
            }
            if let Some((c, e)) = last
                && epsilon > 0.0
                && e > 0.0
                && c != multiplier
            {
                slope = (-(epsilon / e).ln() / (multiplier / c).ln()).clamp(0.5, 4.0);
            }
            last = Some((multiplier, epsilon));
            let mut next = multiplier * ((epsilon / aim).powf(1.0 / slope)).clamp(0.25, 4.0);
            if let Some((high, _)) = accepted
                && !(next > refused && next < high)
            {
                next = if refused > 0.0 { (refused * high).sqrt() } else { high / 4.0 };
            }
            multiplier = next;
        }
        accepted.ok_or_else(|| self.unreachable("no scale was certified within it"))
    }

    fn unreachable(&self, reason: &'static str) -> AccountingError {
        AccountingError::Unreachable {
            epsilon: self.request.epsilon,
            delta: self.request.delta,
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NeighbourRelation, compose};

    fn request(epsilon: f64, delta: f64, rounds: usize, dim: usize, bounds: [f64; 3]) -> Request {
        let [l1, l2, linf] = bounds;
        Request::new(epsilon, delta, rounds, dim, Sensitivity { l1, l2, linf })
    }

    fn assert_spends(found: &Calibration, request: &Request) {
        assert!(found.spent.epsilon <= request.epsilon, "{found:?}");
        assert!(found.spent.epsilon >= request.epsilon * (1.0 - TOLERANCE), "{:?}", found.spent);
        assert_eq!(found.schedule.len(), request.steps.len());
        if !found.events.is_empty() {
            let (_, epsilon) = compose(&found.events, request.delta).unwrap().best().unwrap();
            assert!(epsilon <= request.epsilon, "composing the schedule afresh gives {epsilon}");
        }
    }

    #[test]
    fn every_kind_of_noise_meets_the_budget_from_below() {
        for (rounds, dim, bounds) in [
            (200, 105, [0.0068, 0.00067, 0.00067]),
            (1400, 1, [0.01; 3]),
            (1, 1, [1.0; 3]),
            (30, 14, [0.14, 0.0374, 0.01]),
        ] {
            for noise in [NoiseKind::Laplace, NoiseKind::Gaussian] {
                for delta in [1e-6, 1e-10] {
                    let mut request = request(1.0, delta, rounds, dim, bounds);
                    request.noise = Some(noise);
                    let found = calibrate(&request).unwrap();
                    assert_eq!(found.mechanism, noise);
                    assert_spends(&found, &request);
                }
            }
        }
    }

    #[test]
    fn the_noise_with_less_variance_is_chosen() {
        // Many rounds of a wide vector: Gaussian. One round of one number at a tiny δ: Laplace.
        let many = calibrate(&request(1.0, 1e-6, 200, 105, [0.0068, 0.00067, 0.00067])).unwrap();
        assert_eq!(many.mechanism, NoiseKind::Gaussian);
        let once = request(1.0, 1e-9, 1, 1, [1.0; 3]);
        let found = calibrate(&once).unwrap();
        assert_eq!(found.mechanism, NoiseKind::Laplace);
        assert!((found.multiplier - 1.0).abs() < 1e-3, "ε = 1 needs scale 1: {}", found.multiplier);
        assert_spends(&found, &once);
    }

    #[test]
    fn the_smallest_budgets_get_an_answer() {
        for (epsilon, delta) in [(1e-9, 1e-15), (1e-12, 1e-18), (1e-6, 1e-12)] {
            let request = request(epsilon, delta, 10, 3, [1.0; 3]);
            let found = calibrate(&request).unwrap();
            assert!(found.spent.epsilon <= epsilon && found.spent.delta <= delta, "{found:?}");
            assert!(found.multiplier.is_finite() && found.multiplier > 1.0);
        }
    }

    #[test]
    fn a_growing_schedule_keeps_its_shape() {
        let mut request = request(1.0, 1e-6, 100, 14, [0.037, 0.01, 0.01]);
        request.steps = (0..100).map(|k| 0.97f64.powi(k)).collect();
        request.shape = (0..100).map(|k| 1.02f64.powi(-k)).collect();
        let found = calibrate(&request).unwrap();
        assert_spends(&found, &request);
        let ratio = found.schedule[10] / found.schedule[0];
        assert!((ratio - 1.02f64.powi(-10)).abs() < 1e-12);
    }

    /// With one coordinate the norms are one, and so are the two ways to the Rényi bound.
    #[test]
    fn joint_norms_of_one_coordinate_are_plain_composition() {
        for (shift, count) in [(0.01, 1400), (0.2, 30), (1.0, 1)] {
            let one = LaplaceShift { l1: shift, l2: shift, linf: shift, dim: 1, count };
            let plain =
                compose(&[Event::laplace(shift, count)], 1e-6).unwrap().rdp.value().unwrap();
            let (_, joint) = joint_epsilon(&[one], 1e-6);
            assert!((joint / plain - 1.0).abs() < 1e-9, "{joint} {plain}");
        }
    }

    #[test]
    fn joint_norms_beat_each_norm_alone() {
        // Five coordinates of fourteen may move by 0.01 each: neither l1 nor l∞ alone says that.
        let bounds = [0.05, 0.05 / 5f64.sqrt(), 0.01];
        let mut all = request(1.0, 1e-6, 100, 14, bounds);
        all.noise = Some(NoiseKind::Laplace);
        let found = calibrate(&all).unwrap();
        let mut only_l1 = all.clone();
        only_l1.sensitivity = complete_sensitivity(Some(0.05), None, None, 14).unwrap();
        let mut only_linf = all.clone();
        only_linf.sensitivity = complete_sensitivity(None, None, Some(0.01), 14).unwrap();
        for other in [only_l1, only_linf] {
            assert!(found.multiplier < calibrate(&other).unwrap().multiplier * 0.9);
        }
    }

    #[test]
    fn sampled_rounds_need_less_noise_and_spend_their_budget() {
        for neighbours in [NeighbourRelation::AddRemove, NeighbourRelation::ReplaceOne] {
            for (noise, rate) in [(NoiseKind::Gaussian, 0.05), (NoiseKind::Laplace, 0.2)] {
                let mut whole = request(1.0, 1e-6, 100, 3, [0.2, 0.15, 0.1]);
                whole.noise = Some(noise);
                let mut part = whole.clone();
                part.sampling = Some(Sampling { rate, neighbours });
                let found = calibrate(&part).unwrap();
                assert_spends(&found, &part);
                assert_eq!(found.mechanism, noise);
                assert!(found.multiplier < calibrate(&whole).unwrap().multiplier);
                part.sampling = Some(Sampling { rate: 1.0, neighbours });
                assert_eq!(calibrate(&part).unwrap(), calibrate(&whole).unwrap());
            }
        }
    }

    #[test]
    fn bad_requests_say_what_is_wrong() {
        let good = request(1.0, 1e-6, 10, 3, [1.0; 3]);
        let refused = |change: fn(&mut Request)| {
            let mut bad = good.clone();
            change(&mut bad);
            calibrate(&bad).unwrap_err().to_string()
        };
        assert!(refused(|r| r.epsilon = 0.0).starts_with("epsilon must be"));
        assert!(refused(|r| r.epsilon = f64::NAN).starts_with("epsilon must be"));
        assert!(refused(|r| r.delta = 1.0).starts_with("delta must be"));
        assert!(refused(|r| r.sensitivity.l2 = 0.0).starts_with("sensitivity l2 must be"));
        assert!(
            refused(|r| r.sensitivity.linf = f64::INFINITY).starts_with("sensitivity linf must be")
        );
        assert!(refused(|r| r.steps.clear()).starts_with("rounds must be at least 1"));
        assert!(refused(|r| r.dim = 0).starts_with("dim must be at least 1"));
        assert!(refused(|r| r.shape.push(1.0)).starts_with("shape has 11 entries"));
        assert!(refused(|r| r.steps[4] = -1.0).starts_with("step must be"));
        let sampling = |rate, neighbours| Some(Sampling { rate, neighbours });
        let mut bad = good.clone();
        bad.sampling = sampling(0.0, NeighbourRelation::AddRemove);
        assert!(calibrate(&bad).unwrap_err().to_string().starts_with("sampling must be"));
        bad.sampling = sampling(0.5, NeighbourRelation::Paper);
        assert!(calibrate(&bad).unwrap_err().to_string().contains("neighbour"));
        assert!(complete_sensitivity(None, None, None, 3).is_err());
    }
}
