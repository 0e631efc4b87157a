//! ADMM with random penalties for problems coupled by linear constraints (docs/paper.md section 2),
//! on a complete graph.
//!
//! min Σ f_i(x_i) subject to Σ A_i x_i = c, agent i holding f_i and moving x_i only. With the
//! residual R = Σ_j A_j x_j − c, the update of the paper,
//!
//! ```text
//! x_i⁺ = argmin f_i(x) − λᵀA_i x + ½‖A_i x + Σ_{j≠i} A_j x_j − c‖²_{ρ_i} + ½‖x − x_i‖²_{Γ_i},   Γ_i = D·I − A_iᵀρ_iA_i,
//! ```
//!
//! has all its quadratic terms in D·I: they are (D/2)‖x − v_i‖² with v_i = x_i + D⁻¹A_iᵀ(λ − ρ_i
//! R). So
//!
//! ```text
//! exact:        x_i⁺ = argmin f_i(x) + (D/2)‖x − v_i‖²          first order:  x_i⁺ = v_i − ∇f_i(x_i)/D          (+ Δ_i)
//! dual:         λ⁺ = λ − ζ (Σ A_i x_i⁺ − c)
//! ```
//!
//! and limits on x_i are a projection of either. A row with ≤ has a slack s ≥ 0; it belongs to
//! nobody's data, so every agent moves it alike: s⁺ = max(0, s ± D⁻¹(λ − ρ⁰R)).
//!
//! # What is released, and what it costs
//!
//! Agent i releases x_i⁺ itself (padded to the longest x_j), not A_i x_i⁺. Then given the
//! transcript everybody knows x_i, R and λ (a function of all releases), A_i, c and D being public:
//! v_i is public up to ρ_i, and the private part of the release is −∇f_i(x_i)/D, with x_i public.
//! The shift between neighbouring f_i is at most B_q/D in every norm, or B_2/(D + m) in l2 for the
//! exact minimiser, round by round, exactly as in Algorithm 1. Had A_i x_i⁺ been released with
//! noise instead and x_i⁺ kept, the gradient would be taken at a point that is itself private, and
//! shifts would add up over the rounds.
//!
//! # In secret shares
//!
//! Nobody needs x_j, only R. So under the secret-shared exchange (Algorithm 3) agent i shares A_i
//! x_i⁺, a number a row, and Σ_j A_j x_j⁺ is all that is revealed; x_i stays with agent i. Without
//! noise the iterates are those of the plain exchange up to the rounding of the fixed point. With
//! noise there is no account, for the reason just given: x_i would be private, and every later A_i
//! x_i would depend on all earlier gradients.
//!
//! # What the random penalties are worth
//!
//! ρ_i is diagonal over the *rows*, so coordinate l of the public term is
//! `v_i[l] = x_i[l] + D⁻¹(A_iᵀλ)[l] − D⁻¹ Σ_r A_i[r,l]·ρ_r·R_r`: a sum of several uniforms, and one
//! ρ_r moves every coordinate its row touches. That is not the interval mechanism, whose uniforms
//! are independent over coordinates. Credit is taken only where it provably is one:
//! - a row r is *alone* if A_i has a single entry in it. For every coordinate at most one alone row
//!   is left open, the one whose interval `ω_l = (ρ_high − ρ_low)·|A_i[r,l]·R_r|/D` is widest (A_i
//!   and R are public, so the choice is);
//! - all other ρ_r are treated as revealed. They do not depend on f_i, so revealing them makes the
//!   release a richer one, of which the real release is a function: by post-processing its
//!   divergences are no smaller;
//! - given them, coordinate l is a public point plus ρ_r·(its own ρ_r, of no other coordinate) plus
//!   shift plus noise: the interval mechanism with width ω_l, independently over l. Coordinates
//!   without an alone row have width 0.
//!
//! So dispatch (one row, one variable an agent) has the full interval of the paper, and a dense A_i
//! has none: its ρ_i still randomise the algorithm but are credited with nothing. Under
//! `accounting = "schedule"` widths count for nothing in any case.

use super::admm::{ASSUMED_RESIDUAL, exact_step};
use super::parameters::positive;
use super::{
    Aggregation, Assessed, Capabilities, Configured, Couplable, Memory, Needs, Parameters, Parts,
    Protocol, PublicFacts, Randomized, Response, Summed, View, table_of,
};
use crate::config_error::ConfigError;
use crate::kernel;
use crate::problem::coupling::{Coupling, Relation};
use crate::problem::solve::Proximal;
use crate::problem::{Constraint, LocalObjective, Sensitivity, Workspace};
use crate::theory::admm::{
    Block, Certificate, Coupled, Uncertified, largest_factor, two_digits, working_rule,
};
use crate::theory::{Assessment, Certainty, CertifiedBound, TheoremInputs, short};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Linearly constrained ADMM; see the [module](self) for the update and its privacy.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearAdmm {
    /// D: weight of the proximal term; the step factor is 1/D.
    pub penalty: Option<f64>,
    /// ζ: dual step.
    pub dual_step: Option<f64>,
    /// The range ρ is drawn from, a number a row, agent and round.
    pub rho: Option<[f64; 2]>,
    /// Solve the local problem instead of taking one gradient step.
    #[serde(default)]
    pub exact: bool,
    /// Random penalties, or their fixed twin in the middle of the range.
    #[serde(default)]
    pub aggregation: Aggregation,
    /// The constraint, given by [`Couplable::couple`].
    #[serde(skip)]
    pub coupling: Option<Arc<Coupling>>,
}

impl LinearAdmm {
    fn penalty(&self) -> f64 {
        self.penalty.unwrap_or(f64::NAN)
    }

    fn dual_step(&self) -> f64 {
        self.dual_step.unwrap_or(f64::NAN)
    }

    fn rho(&self) -> [f64; 2] {
        let [low, high] = self.rho.unwrap_or([f64::NAN; 2]);
        match self.aggregation {
            Aggregation::Random => [low, high],
            Aggregation::Fixed => [0.5 * (low + high); 2],
        }
    }

    /// ρ⁰, the mean penalty.
    fn rho_mean(&self) -> f64 {
        let [low, high] = self.rho();
        0.5 * (low + high)
    }

    fn coupling(&self) -> &Coupling {
        self.coupling.as_deref().expect("coupled: check() refuses to run without")
    }

    /// Σ_j A_j x_j ± s − c at the start, where everybody is at zero.
    fn first_residual(coupling: &Coupling) -> impl Iterator<Item = f64> + '_ {
        coupling.rhs().iter().map(|c| -c)
    }

    /// σ²_max over the agents, and over a slack.
    fn sigma_squared(coupling: &Coupling) -> f64 {
        let slack = coupling.relations().iter().any(|&r| r != Relation::Equal);
        coupling.sigma_squared().iter().copied().fold(if slack { 1.0 } else { 0.0 }, f64::max)
    }

    /// The two sides of the working rule: D, and what it must exceed.
    fn rule(&self, coupling: &Coupling, facts: &PublicFacts) -> (f64, f64) {
        let curvature = (facts.strong_convexity, facts.smoothness);
        working_rule(
            self.penalty(),
            self.rho_mean(),
            self.dual_step(),
            coupling.norm_squared(),
            curvature,
            self.exact,
        )
    }

    /// The problem and these parameters, as the theorems see them.
    fn coupled(&self, inputs: &TheoremInputs) -> Coupled {
        let (coupling, facts) = (self.coupling(), &inputs.facts);
        let [low, high] = self.rho();
        let block = |&sigma_squared: &f64| Block {
            strong_convexity: facts.strong_convexity,
            smoothness: facts.smoothness,
            sigma_squared,
            rho: (low, high),
            penalty: self.penalty(),
        };
        Coupled {
            agents: coupling.agents(),
            blocks: coupling.sigma_squared().iter().map(block).collect(),
            sigma_min_squared: coupling.sigma_min_squared(),
            dual_step: self.dual_step(),
            exact: self.exact,
            noisy: !inputs.noise.is_empty(),
        }
    }

    fn certified(&self, inputs: &TheoremInputs) -> Result<Certificate, Uncertified> {
        if inputs.constraint != Constraint::None {
            Err(Uncertified::Limits)
        } else if self.coupling().relations().iter().any(|&r| r != Relation::Equal) {
            Err(Uncertified::Inequality)
        } else {
            self.coupled(inputs).certify()
        }
    }

    /// The widest range of penalties proportional to this one, and the dual step it then allows,
    /// that are certified; D is kept if it can be.
    fn nearest_certified(&self, inputs: &TheoremInputs) -> Option<Parameters> {
        let [low, high] = self.rho?;
        let floor = if self.exact { 0.0 } else { two_digits(1.6 * inputs.facts.smoothness) };
        let at = |scale: f64| {
            let mut one = self.clone();
            one.exact &= inputs.noise.is_empty();
            one.penalty = Some(self.penalty().max(floor));
            one.rho = Some([scale * low, scale * high]);
            // The dual step may be up to 2ρ⁰ − N/α; a quarter of 2ρ⁰ leaves α room.
            one.dual_step = Some(self.dual_step().min(0.25 * scale * (low + high)));
            one
        };
        let found = largest_factor(|scale| at(scale).certified(inputs).is_ok())?;
        let mut one = at(0.7 * found);
        one.dual_step = one.dual_step.map(two_digits);
        one.rho = one.rho.map(|range| range.map(two_digits));
        one.certified(inputs).is_ok().then(|| table_of(&one))
    }
}

impl Protocol for LinearAdmm {
    fn kind(&self) -> &'static str {
        "linear-admm"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // Of the others only Σ A_j x_j.
            needs: Needs::Total,
            complete: true,
            coupled: true,
            ..Capabilities::default()
        }
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            configured: Some(self),
            assessed: Some(self),
            summed: Some(self),
            couplable: Some(self),
            tossing: Some(self),
            ..Parts::default()
        }
    }

    fn configure(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    fn memory(&self) -> usize {
        // Four numbers a row, in vectors of the (padded) length of x_i.
        self.coupling.as_ref().map_or(0, |c| (4 * c.rows()).div_ceil(c.block(0).columns()))
    }

    fn response(&self, _: u32, _: usize) -> Response {
        if self.exact { Response::AtPoint { weight: self.penalty() } } else { Response::Shift }
    }

    fn step_sensitivity(
        &self,
        _: u32,
        _: usize,
        gradient: &Sensitivity,
        facts: &PublicFacts,
    ) -> Sensitivity {
        if self.exact {
            let strength = self.penalty() + facts.strong_convexity;
            Sensitivity::from_l2((gradient.l2 + 2.0 * ASSUMED_RESIDUAL) / strength, facts.dim)
        } else {
            gradient.scaled(1.0 / self.penalty())
        }
    }

    fn interval(&self, view: &View<'_>, memory: &[f64], low: &mut [f64], high: &mut [f64]) {
        let coupling = self.coupling();
        let (rows, block, penalty) =
            (coupling.rows(), coupling.block(view.place()), self.penalty());
        let (dual, rho) = (&memory[..rows], &memory[3 * rows..4 * rows]);
        let start: Vec<f64>;
        let residual = if view.round() == 0 {
            start = Self::first_residual(coupling).collect();
            &start[..]
        } else {
            &memory[2 * rows..3 * rows]
        };
        let shrink = if self.exact { 0.0 } else { view.regularization() / penalty };
        for (low, x) in low.iter_mut().zip(view.own()) {
            *low = x - shrink * x;
        }
        block.add_transposed(1.0 / penalty, dual, low);
        let [least, most] = self.rho();
        let fixed = self.aggregation == Aggregation::Fixed;
        // The widest row of each coordinate that is alone in its row; the others count as revealed.
        let mut open: Vec<Option<(usize, f64)>> = vec![None; low.len()];
        if !fixed {
            for &(r, c, v) in block.single() {
                let pull = v * residual[r];
                if open[c].is_none_or(|(_, widest): (usize, f64)| pull.abs() > widest.abs()) {
                    open[c] = Some((r, pull));
                }
            }
        }
        for &(r, c, v) in block.entries() {
            if open[c].is_some_and(|(row, _)| row == r) {
                continue;
            }
            let rho = if fixed { least } else { rho[r] };
            low[c] -= rho * v * residual[r] / penalty;
        }
        high.copy_from_slice(low);
        for (l, open) in open.into_iter().enumerate() {
            if let Some((_, pull)) = open {
                low[l] -= least * pull / penalty;
                high[l] -= most * pull / penalty;
            }
        }
    }

    fn step(
        &self,
        view: &View<'_>,
        _: Memory<'_>,
        point: &[f64],
        local: &LocalObjective,
        work: &mut Workspace,
        step: &mut [f64],
    ) {
        if self.exact {
            let proximal = Proximal { centre: point, weight: self.penalty() };
            step.copy_from_slice(view.own());
            exact_step(local, proximal, view.constraint(), step, work);
            kernel::axpy(-1.0, point, step);
        } else {
            local.data_gradient(view.own(), step, work);
            let scale = -1.0 / self.penalty();
            step.iter_mut().for_each(|s| *s *= scale);
        }
    }

    /// Everybody's x_i are different things: mixing them would mean nothing, so an agent that may
    /// not go on repeats itself.
    fn idle(&self, view: &View<'_>, out: &mut [f64]) {
        out.copy_from_slice(view.own());
    }

    fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
        let coupling = self.coupling();
        let rows = coupling.rows();
        let (dual, rest) = memory.split_at_mut(rows);
        let (slack, rest) = rest.split_at_mut(rows);
        let residual = &mut rest[..rows];
        if view.round() == 1 {
            residual
                .iter_mut()
                .zip(Self::first_residual(coupling))
                .for_each(|(r, first)| *r = first);
        }
        // The slacks answer the exchange before this one, like everybody else.
        for ((s, relation), (l, r)) in
            slack.iter_mut().zip(coupling.relations()).zip(dual.iter().zip(residual.iter()))
        {
            let sign = relation.slack();
            *s = (*s + sign * (l - self.rho_mean() * r) / self.penalty()).max(0.0);
            if sign == 0.0 {
                *s = 0.0;
            }
        }
        match view.total() {
            Some(total) => {
                for ((r, total), c) in residual.iter_mut().zip(total).zip(coupling.rhs()) {
                    *r = total - c;
                }
            }
            None => coupling.residual(view.everyone(), residual),
        }
        for ((r, s), relation) in residual.iter_mut().zip(slack.iter()).zip(coupling.relations()) {
            *r += relation.slack() * s;
        }
        kernel::axpy(-self.dual_step(), residual, dual);
    }
}

impl Configured for LinearAdmm {
    fn default_rounds(&self, facts: &PublicFacts) -> u32 {
        if facts.private { 300 } else { 3_000 }
    }

    /// ρ⁰·‖A‖² = √(m·M), the middle of the curvatures that meet in the constraint; ζ = ρ⁰; D a
    /// fifth above the working rule, and large enough to keep Γ positive.
    fn resolve(&mut self, facts: &PublicFacts) {
        let Some(coupling) = self.coupling.clone() else { return };
        let (m, smoothness) =
            (facts.strong_convexity.max(1e-3 * facts.smoothness), facts.smoothness);
        let rho = (m * smoothness).sqrt() / coupling.norm_squared().max(1e-300);
        let [_, high] = *self.rho.get_or_insert([0.0, 2.0 * rho]);
        self.dual_step.get_or_insert(self.rho_mean());
        if self.penalty.is_none() {
            let (_, needed) = self.rule(&coupling, facts);
            self.penalty = Some(1.2 * needed.max(high * Self::sigma_squared(&coupling)));
        }
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        let Some(coupling) = &self.coupling else {
            // Refused before: there is no linear constraint.
            return Ok(None);
        };
        positive("penalty", self.penalty())?;
        positive("dual_step", self.dual_step())?;
        let [low, high] = self.rho();
        if !(0.0 <= low && low <= high && high.is_finite()) {
            return Err(ConfigError::at(
                "rho",
                format!("rho = [{low}, {high}] must be a range of numbers ≥ 0"),
            ));
        }
        let sigma = Self::sigma_squared(coupling);
        if high * sigma >= self.penalty() {
            let message = format!(
                "penalty = {} does not keep D·I − Aᵀ_iρA_i positive: it must exceed ρ_max·σ²_max = {}",
                self.penalty(),
                short(high * sigma)
            );
            return Err(ConfigError::at("penalty", message));
        }
        let (d, needed) = self.rule(coupling, facts);
        Ok((d <= needed).then(|| {
            format!(
                "predicted unstable: penalty = {} is not above [(2ρ⁰+ζ)‖A‖² {}]/4 = {} (‖A‖² = {}); use a larger penalty",
                short(d),
                if self.exact { "− 2m" } else { "+ 2M" },
                short(needed),
                short(coupling.norm_squared())
            )
        }))
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for LinearAdmm {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let (coupling, facts) = (self.coupling(), &inputs.facts);
        let coupled = self.coupled(inputs);
        let certificate = self.certified(inputs);
        match certificate {
            Ok(found) => Assessment {
                rate: Some(coupled.envelope(&found, facts.dim, &inputs.noise).factor),
                bound: Some(CertifiedBound::Distance(coupled.envelope(
                    &found,
                    facts.dim,
                    &inputs.noise,
                ))),
                promise: Some(format!(
                    "E‖u − u*‖²_G shrinks by 1/(1 + p) a round, p = {}",
                    short(found.p)
                )),
                ..Assessment::new(
                    Certainty::Certified,
                    coupled.theorem(),
                    format!("holds with α = {}, ρ⁰ = {}", short(found.alpha), short(found.rho)),
                )
            },
            Err(why) => {
                let (d, needed) = self.rule(coupling, facts);
                let stable = d > needed;
                let (standing, sign) = if stable {
                    (Certainty::PredictedStable, ">")
                } else {
                    (Certainty::Unstable, "≤")
                };
                let inequality = format!(
                    "D = {} {sign} [(2ρ⁰+ζ)‖A‖² {}]/4 = {}",
                    short(d),
                    if self.exact { "− 2m" } else { "+ 2M" },
                    short(needed)
                );
                Assessment {
                    not_certified: Some(format!("{}: {why}", coupled.theorem())),
                    nearest_certified: self.nearest_certified(inputs),
                    ..Assessment::new(standing, "working stability rule", inequality)
                }
            }
        }
    }
}

impl Summed for LinearAdmm {
    fn contribution(&self, _: usize) -> usize {
        self.coupling().rows()
    }

    /// A_i x_i.
    fn contribute(&self, agent: usize, own: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        self.coupling().block(agent).add_to(own, out);
    }
}

impl Couplable for LinearAdmm {
    fn couple(&self, coupling: &Arc<Coupling>) -> Box<dyn Protocol> {
        Box::new(Self { coupling: Some(Arc::clone(coupling)), ..self.clone() })
    }
}

impl Randomized for LinearAdmm {
    /// A penalty a row, for the rows that are treated as revealed.
    fn coins(&self) -> usize {
        match self.aggregation {
            Aggregation::Random => self.coupling().rows(),
            Aggregation::Fixed => 0,
        }
    }

    fn toss(&self, coins: &[f64], memory: &mut [f64]) {
        let rows = self.coupling().rows();
        let [low, high] = self.rho();
        for (rho, coin) in memory[3 * rows..4 * rows].iter_mut().zip(coins) {
            *rho = low + coin * (high - low);
        }
    }
}
