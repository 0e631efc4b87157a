//! What many releases cost together, by every method that is valid for them.

use super::error::check_delta;
use super::round::{SumUp, up};
use super::sampled::{self, Law, Sampled};
use super::{
    AccountingError, Event, Mechanism, NeighbourRelation, advanced, basic, gdp, kov, pld, rdp, zcdp,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// An upper bound on ε, or why the method has none to give.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// The releases satisfy (this ε, δ)-differential privacy.
    Value(f64),
    /// The method's theorem does not cover these releases.
    NotValid {
        /// What it does not cover.
        reason: String,
    },
}

impl Bound {
    /// The number, if there is one.
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Value(epsilon) => Some(*epsilon),
            Self::NotValid { .. } => None,
        }
    }

    /// `epsilon` raised by the engine's slack; infinite means there is no bound.
    pub(crate) fn rounded_up(epsilon: f64) -> Self {
        if epsilon == 0.0 {
            return Self::Value(0.0);
        }
        let raised = up(epsilon);
        if raised.is_finite() {
            Self::Value(raised)
        } else {
            Self::not_valid("the bound is beyond every finite number")
        }
    }

    pub(crate) fn not_valid(reason: impl Into<String>) -> Self {
        Self::NotValid { reason: reason.into() }
    }
}

/// A composition theorem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Method {
    /// Sum of the pure ε.
    Pure,
    /// Tightened advanced composition.
    Advanced,
    /// Kairouz–Oh–Viswanath.
    Kov,
    /// Zero-concentrated differential privacy.
    Zcdp,
    /// Rényi differential privacy.
    Rdp,
    /// Gaussian differential privacy.
    Gdp,
    /// Privacy loss distribution.
    Pld,
    /// Pure filter: adaptive sum of ε.
    PureFilter,
    /// Rényi filter, budgets fixed in advance.
    RenyiFilter,
    /// zCDP filter, budget fixed in advance.
    ZcdpFilter,
}

impl Method {
    /// The name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::Advanced => "advanced",
            Self::Kov => "kov",
            Self::Zcdp => "zcdp",
            Self::Rdp => "rdp",
            Self::Gdp => "gdp",
            Self::Pld => "pld",
            Self::PureFilter => "pure-filter",
            Self::RenyiFilter => "renyi-filter",
            Self::ZcdpFilter => "zcdp-filter",
        }
    }

    /// The theorem, for a reader who wants to check it.
    pub fn theorem(self) -> &'static str {
        match self {
            Self::Pure => "basic composition (sum of ε)",
            Self::Advanced => {
                "tightened advanced composition (Dwork–Rothblum–Vadhan; Kairouz–Oh–Viswanath 2015)"
            }
            Self::Kov => "optimal composition of ε-DP mechanisms (Kairouz–Oh–Viswanath 2015)",
            Self::Zcdp => "zero-concentrated differential privacy (Bun–Steinke 2016)",
            Self::Rdp => {
                "Rényi differential privacy (Mironov 2017; conversion of Canonne–Kamath–Steinke 2020)"
            }
            Self::Gdp => {
                "Gaussian differential privacy, exact (Balle–Wang 2018; Dong–Roth–Su 2019)"
            }
            Self::Pld => {
                "privacy loss distribution, connect-the-dots (Doroshenko et al. 2022), pessimistic"
            }
            Self::PureFilter => "pure privacy filter (Rogers–Roth–Ullman–Vadhan 2016)",
            Self::RenyiFilter => {
                "Rényi filter, orders and budgets fixed in advance (Feldman–Zrnic 2021)"
            }
            Self::ZcdpFilter => "zCDP filter, budget fixed in advance (Feldman–Zrnic 2021)",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Events sorted by what the theorems can do with them, identical ones merged.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profile {
    /// Laplace events: (ε, count), ε falling, all above 0.
    pub(crate) laplace: Vec<(f64, u64)>,
    /// ε-DP events of unknown kind: (ε, count), ε falling, all above 0.
    pub(crate) pure: Vec<(f64, u64)>,
    /// Σ μ² over the Gaussian events, rounded up.
    pub(crate) gaussian_mu_squared: f64,
    /// Σ ρ over the zCDP events, rounded up.
    pub(crate) rho: f64,
    /// Releases over a secret sample of the records, merged, their shifts rounded up a little.
    pub(crate) sampled: Vec<Sampled>,
    /// Whether any event is an interval mechanism.
    pub(crate) transcript_dependent: bool,
    /// Σ of the interval events' pure worst cases, rounded up.
    pub(crate) interval_pure: f64,
    /// Whether an interval has Gaussian noise, which satisfies no pure ε.
    pub(crate) interval_gaussian: bool,
}

impl Profile {
    /// Checks and sorts events.
    ///
    /// # Errors
    /// The first event that fails [`Event::check`], and sampled events of two neighbour relations.
    pub fn new(events: &[Event]) -> Result<Self, AccountingError> {
        let mut profile = Self::default();
        let (mut mu_squared, mut rho, mut interval) =
            (SumUp::default(), SumUp::default(), SumUp::default());
        for (index, event) in events.iter().enumerate() {
            event.check(index)?;
            match &event.mechanism {
                Mechanism::Laplace { epsilon } => profile.laplace.push((*epsilon, event.count)),
                Mechanism::SampledGaussian { mu, undrawn, sampling, neighbours } => {
                    let (table, drawn) = sampled::divided(*undrawn, *mu, *sampling);
                    let release =
                        sampled(Law::Gaussian, drawn, (*sampling, *neighbours), event.count);
                    match release {
                        Some(release) if release.rate < 1.0 && release.is_amplified() => {
                            profile.add_sampled(index, release)?;
                            if *undrawn > 0.0 {
                                mu_squared.add_times(event.count, table);
                            }
                        }
                        Some(_) if *undrawn == 0.0 => {
                            mu_squared.add_times(event.count, square_up(*mu));
                        }
                        // As if every record were drawn.
                        Some(_) => {
                            mu_squared.add_times(event.count, square_up((mu + undrawn).next_up()));
                        }
                        None => mu_squared.add_times(event.count, square_up(*undrawn)),
                    }
                }
                Mechanism::SampledLaplace { epsilon, sampling, neighbours } => {
                    let release =
                        sampled(Law::Laplace, *epsilon, (*sampling, *neighbours), event.count);
                    match release {
                        Some(release) if release.rate < 1.0 && release.is_amplified() => {
                            profile.add_sampled(index, release)?;
                        }
                        Some(_) => profile.laplace.push((*epsilon, event.count)),
                        None => {}
                    }
                }
                Mechanism::Pure { epsilon } => profile.pure.push((*epsilon, event.count)),
                Mechanism::Gaussian { mu } => mu_squared.add_times(event.count, square_up(*mu)),
                Mechanism::Zcdp { rho: cost } => rho.add_times(event.count, *cost),
                Mechanism::IntervalLaplace { pure, .. } => {
                    profile.transcript_dependent = true;
                    interval.add_times(event.count, *pure);
                }
                Mechanism::IntervalGaussian { .. } | Mechanism::Renyi { .. } => {
                    profile.transcript_dependent = true;
                    profile.interval_gaussian = true;
                }
                Mechanism::PostProcessing => {}
            }
        }
        profile.gaussian_mu_squared = mu_squared.value();
        profile.rho = rho.value();
        profile.interval_pure = interval.value();
        merge(&mut profile.laplace);
        merge(&mut profile.pure);
        sampled::merge(&mut profile.sampled);
        Ok(profile)
    }

    fn add_sampled(&mut self, index: usize, release: Sampled) -> Result<(), AccountingError> {
        if self.sampled.first().is_some_and(|first| first.replace != release.replace) {
            return Err(AccountingError::MixedNeighbours { index });
        }
        self.sampled.push(release);
        Ok(())
    }

    /// In how many directions a record may change: sampled releases tell adding from removing.
    pub(crate) fn directions(&self) -> usize {
        self.sampled.first().map_or(1, |release| if release.replace { 1 } else { 2 })
    }

    /// The pure ε of the sampled Laplace releases.
    pub(crate) fn sampled_pure(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.sampled.iter().filter_map(|s| Some((s.pure()?, s.count)))
    }

    /// Whether a sampled release has Gaussian noise.
    pub(crate) fn has_sampled_gaussian(&self) -> bool {
        self.sampled.iter().any(|s| s.law == Law::Gaussian)
    }

    /// Gaussian noise somewhere.
    pub(crate) fn has_gaussian(&self) -> bool {
        self.gaussian_mu_squared > 0.0 || self.interval_gaussian
    }

    /// Laplace and other ε-DP groups together.
    pub(crate) fn pure_groups(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.laplace.iter().chain(&self.pure).copied()
    }

    /// The events with every pure one, Laplace included, replaced by randomised response.
    pub(crate) fn as_randomised_responses(&self) -> Self {
        let mut profile = self.clone();
        profile.pure.append(&mut profile.laplace);
        profile.pure.extend(self.sampled_pure());
        profile.sampled.clear();
        merge(&mut profile.pure);
        profile
    }

    /// The events as if sampled releases drew every record, which costs no less: divergences are
    /// jointly convex.
    pub(crate) fn as_whole_releases(&self) -> Self {
        let mut profile = self.clone();
        let mut mu_squared = SumUp::default();
        mu_squared.add(self.gaussian_mu_squared);
        for release in profile.sampled.drain(..) {
            match release.law {
                Law::Gaussian => mu_squared.add_times(release.count, square_up(release.shift)),
                Law::Laplace => profile.laplace.push((release.shift, release.count)),
            }
        }
        profile.gaussian_mu_squared = mu_squared.value();
        merge(&mut profile.laplace);
        profile
    }

    /// Why a theorem about ε-DP mechanisms does not cover these events, if it does not.
    pub(crate) fn not_pure(&self) -> Option<Bound> {
        if self.has_gaussian() || self.has_sampled_gaussian() {
            return Some(Bound::not_valid("Gaussian noise satisfies no pure ε"));
        }
        (self.rho > 0.0).then(|| Bound::not_valid("a zCDP event declares no pure ε"))
    }

    /// Why a theorem about parameters fixed in advance does not cover these events, if it does not.
    pub(crate) fn not_fixed(&self) -> Option<Bound> {
        self.transcript_dependent.then(|| {
            Bound::not_valid(
                "the interval mechanism's costs depend on the transcript: they are added up by a filter, whose budget \
                 is the claim (or declare each release as laplace at its worst case)",
            )
        })
    }
}

/// A sampled release; `None` where it reveals nothing.
fn sampled(
    law: Law,
    shift: f64,
    (rate, neighbours): (f64, NeighbourRelation),
    count: u64,
) -> Option<Sampled> {
    let replace = neighbours == NeighbourRelation::ReplaceOne;
    (shift > 0.0 && rate > 0.0).then_some(Sampled { law, shift, rate, replace, count })
}

/// `x²`, never below it: a positive `x` whose square underflows still costs something.
fn square_up(x: f64) -> f64 {
    if x > 0.0 { (x * x).next_up() } else { 0.0 }
}

/// Sorts by falling ε, merges equal ones, drops the free ones.
fn merge(groups: &mut Vec<(f64, u64)>) {
    groups.retain(|(epsilon, _)| *epsilon > 0.0);
    groups.sort_by(|a, b| b.0.total_cmp(&a.0));
    groups.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 = kept.1.saturating_add(next.1);
        }
        same
    });
}

/// The ε of a list of events at one δ, by every method.
///
/// In JSON each method is a number or null, and `reasons` says why for each null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "CompositionJson", from = "CompositionJson")]
pub struct Composition {
    /// The δ at which every method but `pure` answers; `pure` holds at δ = 0.
    pub delta: f64,
    /// Sum of ε.
    pub pure: Bound,
    /// Tightened advanced composition.
    pub advanced: Bound,
    /// Kairouz–Oh–Viswanath.
    pub kov: Bound,
    /// zCDP.
    pub zcdp: Bound,
    /// RDP.
    pub rdp: Bound,
    /// GDP.
    pub gdp: Bound,
    /// PLD.
    pub pld: Bound,
}

impl Composition {
    /// Every method with its bound, in the order of the table in the module's documentation.
    pub fn bounds(&self) -> [(Method, &Bound); 7] {
        [
            (Method::Pure, &self.pure),
            (Method::Advanced, &self.advanced),
            (Method::Kov, &self.kov),
            (Method::Zcdp, &self.zcdp),
            (Method::Rdp, &self.rdp),
            (Method::Gdp, &self.gdp),
            (Method::Pld, &self.pld),
        ]
    }

    /// The smallest valid ε and the method that proves it; on a tie the simpler method.
    pub fn best(&self) -> Option<(Method, f64)> {
        let valid =
            self.bounds().into_iter().filter_map(|(method, bound)| Some((method, bound.value()?)));
        valid.min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// Composes `events` at `delta` by every method.
///
/// The events must be a schedule fixed in advance: ε_k, μ_k and ρ_k may not depend on what was
/// released before, though *which* query is asked may. Interval events do depend on it, and only
/// `pure` answers for them.
///
/// # Errors
/// `delta` outside (0, 1), or an event that fails [`Event::check`].
///
/// ```
/// use consenso_dp::{Event, Method, compose};
/// let composition = compose(&[Event::laplace(0.01, 1400)], 1e-6)?;
/// let (method, epsilon) = composition.best().unwrap();
/// assert_eq!(method, Method::Pld);
/// assert!((epsilon - 1.6369).abs() < 1e-4); // the plain sum is 14
/// # Ok::<(), consenso_dp::AccountingError>(())
/// ```
pub fn compose(events: &[Event], delta: f64) -> Result<Composition, AccountingError> {
    check_delta(delta)?;
    let profile = Profile::new(events)?;
    Ok(Composition {
        delta,
        pure: basic::epsilon(&profile),
        advanced: advanced::epsilon(&profile, delta)?,
        kov: kov::epsilon(&profile, delta)?,
        zcdp: zcdp::epsilon(&profile, delta)?,
        rdp: rdp::epsilon(&profile, delta)?,
        gdp: gdp::epsilon(&profile, delta)?,
        pld: pld::epsilon(&profile, delta)?,
    })
}

/// The JSON form of a [`Composition`].
#[derive(Serialize, Deserialize)]
struct CompositionJson {
    delta: f64,
    pure: Option<f64>,
    advanced: Option<f64>,
    kov: Option<f64>,
    zcdp: Option<f64>,
    rdp: Option<f64>,
    gdp: Option<f64>,
    pld: Option<f64>,
    reasons: BTreeMap<String, String>,
}

impl From<Composition> for CompositionJson {
    fn from(composition: Composition) -> Self {
        let reasons = composition
            .bounds()
            .into_iter()
            .filter_map(|(method, bound)| match bound {
                Bound::NotValid { reason } => Some((method.name().to_owned(), reason.clone())),
                Bound::Value(_) => None,
            })
            .collect();
        Self {
            delta: composition.delta,
            pure: composition.pure.value(),
            advanced: composition.advanced.value(),
            kov: composition.kov.value(),
            zcdp: composition.zcdp.value(),
            rdp: composition.rdp.value(),
            gdp: composition.gdp.value(),
            pld: composition.pld.value(),
            reasons,
        }
    }
}

impl From<CompositionJson> for Composition {
    fn from(json: CompositionJson) -> Self {
        let bound = |method: Method, value: Option<f64>| match value {
            Some(epsilon) => Bound::Value(epsilon),
            None => Bound::not_valid(
                json.reasons.get(method.name()).map_or("not stated", String::as_str),
            ),
        };
        Self {
            delta: json.delta,
            pure: bound(Method::Pure, json.pure),
            advanced: bound(Method::Advanced, json.advanced),
            kov: bound(Method::Kov, json.kov),
            zcdp: bound(Method::Zcdp, json.zcdp),
            rdp: bound(Method::Rdp, json.rdp),
            gdp: bound(Method::Gdp, json.gdp),
            pld: bound(Method::Pld, json.pld),
        }
    }
}
