//! Any algorithm of gradients or minimisers on columns that were scouted first:
//! `encoding = "scouted"` for all kinds but `dgd` and `decor`.
//!
//! Scouting only decides how rows are encoded, so it is a stage before the algorithm begins, not a
//! part of it:
//!
//! 1. the first exchanges are those of [`scouted`](super::scouted): noised histograms, passed on
//!    until everybody has the same standard;
//! 2. rows are standardised by it, **shortened to the usual length R = √(d_eff + 1) where they are
//!    longer, and divided by R**. They are rows of at most unit length then, whatever the records
//!    are, so that sensitivity, smoothness and every theorem about unit rows hold as they are, and
//!    are known before anything is scouted. With bounded slopes no record's gradient is longer than
//!    slope/b: it is clipped, as a function whose convexity minimisers need. The algorithm runs on
//!    them from zero, sites weighted by N·w_i in their objectives;
//! 3. the mean of the last iterates is mixed a few times, which is free.
//!
//! A message has a part for the histograms and one for the algorithm; what a stage does not use is
//! zero. Both stages share one Gaussian budget, Σ μ_k² = μ²: scouting has its part of it, the
//! algorithm's rounds have the rest in equal parts.

use super::scouted::{MEMORY, Scouted};
use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Partial, Parts, Protocol, PublicFacts,
    Randomized, Relaying, Response, View,
};
use crate::config_error::ConfigError;
use crate::graph::Graph;
use crate::problem::{LocalObjective, Objective, Sensitivity, Workspace};
use crate::theory::{Assessment, TheoremInputs};
use std::sync::Arc;

/// An algorithm behind a scouting stage.
#[derive(Clone, Debug)]
pub struct Staged {
    scout: Scouted,
    inner: Arc<dyn Protocol>,
    /// What the algorithm was planned with: its own dimension and rounds, on unit rows.
    facts: PublicFacts,
    /// The objective on unit rows.
    objective: Objective,
    /// Of the algorithm's rounds, those before the mean begins.
    before_mean: u32,
    gossip: u32,
}

impl Staged {
    /// Puts `inner` behind the stage `scout`.
    #[must_use]
    pub fn new(
        scout: Scouted,
        inner: Arc<dyn Protocol>,
        facts: PublicFacts,
        objective: Objective,
        (before_mean, gossip): (u32, u32),
    ) -> Self {
        Self { scout, inner, facts, objective, before_mean, gossip }
    }

    /// Puts the algorithm behind its stage into longer messages.
    pub fn behind(&self, scout: Scouted) -> Self {
        Self { scout, ..self.clone() }
    }

    /// Exchanges in all.
    pub fn rounds(&self) -> u32 {
        self.done() + self.facts.rounds + self.gossip
    }

    /// What the file would say of the algorithm: rounds, the share of them in the mean, and rounds
    /// of mixing.
    pub fn timetable(&self) -> (u32, f64, u32) {
        let averaged =
            f64::from(self.facts.rounds - self.before_mean) / f64::from(self.facts.rounds);
        (self.facts.rounds, averaged, self.gossip)
    }

    /// How the budget is divided, for the claim.
    pub fn split_of_the_budget(&self) -> String {
        let scouting = (100.0 * self.scout.scouting_share()).round();
        format!(
            "one budget for both stages, as parts of μ²: {scouting:.0} % scouts the columns, {:.0} % trains; rows are shortened to a common length, and sites \
             weigh by their announced numbers of records",
            100.0 - scouting
        )
    }

    /// Exchanges before the algorithm begins.
    fn done(&self) -> u32 {
        self.scout.scouting_rounds()
    }

    /// Where the algorithm's numbers are in a message, and how many there are.
    fn place(&self) -> (usize, usize) {
        (self.scout.scouted_numbers(), self.inner.width(self.facts.dim))
    }

    /// Which round of the algorithm a round is, if it is one.
    fn inner_round(&self, round: u32) -> Option<u32> {
        round.checked_sub(self.done()).filter(|r| (1..=self.facts.rounds).contains(r))
    }

    /// The algorithm, if it only passes on what was released in its round `r`.
    fn inner_passes_on(&self, r: u32) -> Option<&dyn Relaying> {
        self.inner.parts().relaying.filter(|relaying| relaying.passes_on(r))
    }

    fn inner_view<'a>(&self, view: &View<'a>) -> View<'a> {
        let (offset, width) = self.place();
        view.part(offset, width, self.done())
    }

    /// The memory of the algorithm, behind that of scouting and the mean.
    fn inner_memory(&self) -> std::ops::Range<usize> {
        let start = self.scout.scouting_memory() + self.facts.dim;
        start..start + self.inner.memory() * self.place().1
    }

    fn mean_memory(&self) -> std::ops::Range<usize> {
        let start = self.scout.scouting_memory();
        start..start + self.facts.dim
    }
}

impl Protocol for Staged {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { intervals: self.inner.capabilities().intervals, ..Capabilities::default() }
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            configured: Some(self),
            assessed: Some(self),
            partial: Some(self),
            relaying: Some(self),
            tossing: self.inner.parts().tossing.map(|_| self as &dyn Randomized),
            ..Parts::default()
        }
    }

    fn configure(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    fn width(&self, dim: usize) -> usize {
        let (offset, width) = self.place();
        dim.max(offset + width)
    }

    fn memory(&self) -> usize {
        // Scouting's vectors, the mean, and the algorithm's, none longer than a message.
        MEMORY + 1 + self.inner.memory()
    }

    fn private_memory(&self) -> usize {
        self.inner.private_memory()
    }

    fn response(&self, round: u32, degree: usize) -> Response {
        let inner = self.inner.response(self.inner_round(round).unwrap_or(1), degree);
        match (self.inner_round(round), inner) {
            (Some(_), _) | (None, Response::Shift) => inner,
            (None, Response::AtPoint { .. }) => Response::AtPoint { weight: 1.0 },
            (None, Response::AtNoisedPoint { .. }) => Response::AtNoisedPoint { weight: 1.0 },
        }
    }

    fn step_sensitivity(
        &self,
        round: u32,
        degree: usize,
        gradient: &Sensitivity,
        facts: &PublicFacts,
    ) -> Sensitivity {
        match self.inner_round(round) {
            Some(r) => self.inner.step_sensitivity(r, degree, gradient, &self.facts),
            None if round <= self.done() => {
                self.scout.step_sensitivity(round, degree, gradient, facts)
            }
            None => Sensitivity { l1: 0.0, l2: 0.0, linf: 0.0 },
        }
    }

    fn idle(&self, view: &View<'_>, out: &mut [f64]) {
        let (offset, width) = self.place();
        out.fill(0.0);
        self.inner.idle(&self.inner_view(view), &mut out[offset..offset + width]);
    }

    fn interval(&self, view: &View<'_>, memory: &[f64], low: &mut [f64], high: &mut [f64]) {
        if self.inner_round(view.round() + 1).is_some() {
            return self.inner.interval(
                &self.inner_view(view),
                &memory[self.inner_memory()],
                low,
                high,
            );
        }
        self.scout.interval(view, memory, low, high);
    }

    fn step(
        &self,
        view: &View<'_>,
        memory: Memory<'_>,
        point: &[f64],
        local: &LocalObjective,
        work: &mut Workspace,
        step: &mut [f64],
    ) {
        if self.inner_round(view.round() + 1).is_none() {
            return self.scout.step(view, memory, point, local, work, step);
        }
        let standard = self.scout.known_standard(memory.public);
        let records = local.mean_loss().expect("only records have columns");
        let rows = records.under(standard).expect("scouted records are raw");
        let unit =
            rows.in_units(self.objective, self.scout.usual_length(standard), records.weight());
        let private = &mut memory.private[..self.inner.private_memory() * self.place().1];
        let memory = Memory { public: &memory.public[self.inner_memory()], private };
        self.inner.step(&self.inner_view(view), memory, point, unit, work, step);
    }

    fn keep(&self, view: &View<'_>, memory: &mut [f64]) {
        if self.inner_round(view.round() + 1).is_some() {
            self.inner.keep(&self.inner_view(view), &mut memory[self.inner_memory()]);
        }
    }

    fn remember(&self, release: &[f64], memory: &mut [f64]) {
        // While columns are scouted this is the zero that the algorithm starts from.
        let (offset, width) = self.place();
        self.inner.remember(&release[offset..offset + width], &mut memory[self.inner_memory()]);
    }

    fn send(&self, view: &View<'_>, memory: &[f64], release: &mut [f64]) {
        if self.inner_round(view.round() + 1).is_some() {
            let (offset, width) = self.place();
            let (memory, release) =
                (&memory[self.inner_memory()], &mut release[offset..offset + width]);
            self.inner.send(&self.inner_view(view), memory, release);
        }
    }

    fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
        let round = view.round();
        let Some(r) = self.inner_round(round) else {
            if round <= self.done() {
                self.scout.absorb(view, memory);
            }
            return;
        };
        let inside = self.inner_view(view);
        self.inner.absorb(&inside, &mut memory[self.inner_memory()]);
        if r > self.before_mean {
            let count = f64::from(r - self.before_mean);
            for (mean, x) in memory[self.mean_memory()].iter_mut().zip(inside.own()) {
                *mean += (x - *mean) / count;
            }
        }
    }

    fn model(&self, view: &View<'_>, memory: &[f64], model: &mut [f64]) {
        model.fill(0.0);
        let (round, dim) = (view.round(), self.facts.dim);
        let known = round >= self.done();
        let standard = if known {
            self.scout.known_standard(memory).to_vec()
        } else {
            self.scout.blind_standard()
        };
        model[..standard.len()].copy_from_slice(&standard);
        let x = &mut model[standard.len()..standard.len() + dim];
        let last = self.done() + self.facts.rounds;
        if round > last {
            view.part(self.place().0, dim, 0).mix(x);
        } else if round > self.done() + self.before_mean {
            x.copy_from_slice(&memory[self.mean_memory()]);
        } else if round > self.done() {
            x.copy_from_slice(&self.inner_view(view).own()[..dim]);
        }
        // Rows were divided by R; a model speaks of standardised columns.
        let length = self.scout.usual_length(&standard);
        x.iter_mut().for_each(|x| *x /= length);
    }
}

impl Configured for Staged {
    fn resolve(&mut self, _: &PublicFacts) {}

    fn check(&self, _: &PublicFacts) -> Result<Option<String>, ConfigError> {
        let said = [self.inner.check(&self.facts)?, self.scout.check(&self.facts)?];
        let said: Vec<String> = said.into_iter().flatten().collect();
        Ok((!said.is_empty()).then(|| said.join("; ")))
    }

    fn parameters(&self) -> Parameters {
        self.inner.parameters()
    }

    fn seated(&self, agent: usize, graph: &Graph, records: &[usize]) -> Option<Arc<dyn Protocol>> {
        let scout = self.scout.at_seat(agent, graph, records)?;
        let inner =
            self.inner.seated(agent, graph, records).unwrap_or_else(|| Arc::clone(&self.inner));
        Some(Arc::new(Self { scout, inner, ..self.clone() }))
    }
}

impl Assessed for Staged {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        self.inner.assess(&TheoremInputs { facts: self.facts, noise: Vec::new(), ..inputs.clone() })
    }

    fn admits(&self, round: u32, place: usize) -> Option<(usize, f64)> {
        if round <= self.done() { self.scout.admits(round, place) } else { None }
    }
}

impl Partial for Staged {
    fn active(&self, round: u32, dim: usize) -> Vec<u32> {
        let Some(r) = self.inner_round(round) else { return self.scout.active(round, dim) };
        let (offset, width) = self.place();
        let all = || (0..width as u32).collect();
        let active = self.inner.active(r, width).unwrap_or_else(all);
        active.into_iter().map(|l| l + offset as u32).collect()
    }

    fn hold(&self, view: &View<'_>, memory: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        if self.inner_round(view.round() + 1).is_some() {
            let (offset, width) = self.place();
            let part = &mut out[offset..offset + width];
            let (inside, memory) = (self.inner_view(view), &memory[self.inner_memory()]);
            match self.inner.parts().partial {
                Some(partial) => partial.hold(&inside, memory, part),
                None => part.copy_from_slice(inside.own()),
            }
        }
    }

    /// The histograms of the message before are no iterate, however many records they count.
    fn iterate<'a>(&self, view: &View<'a>) -> &'a [f64] {
        match self.inner_round(view.round() + 1) {
            Some(_) => self.inner_view(view).own(),
            None => &[],
        }
    }
}

impl Relaying for Staged {
    fn passes_on(&self, round: u32) -> bool {
        if round <= self.done() {
            return self.scout.passes_on(round);
        }
        // Where the algorithm itself only passes on, no record may be used: nothing is charged.
        self.inner_round(round).is_none_or(|r| self.inner_passes_on(r).is_some())
    }

    fn pass_on(&self, view: &View<'_>, memory: &[f64], out: &mut [f64]) {
        let next = view.round() + 1;
        out.fill(0.0);
        if next <= self.done() {
            // As long as a message of scouting alone; all beyond its histograms is zero.
            let length = self.scout.message_width();
            return self.scout.pass_on(view, memory, &mut out[..length]);
        }
        let (offset, dim) = (self.place().0, self.facts.dim);
        if let Some(relaying) = self.inner_round(next).and_then(|r| self.inner_passes_on(r)) {
            let (part, memory) =
                (&mut out[offset..offset + self.place().1], &memory[self.inner_memory()]);
            return relaying.pass_on(&self.inner_view(view), memory, part);
        }
        let part = &mut out[offset..offset + dim];
        if next == self.done() + self.facts.rounds + 1 {
            part.copy_from_slice(&memory[self.mean_memory()]);
        } else {
            view.part(offset, dim, 0).mix(part);
        }
    }

    fn shares(&self) -> Option<Vec<f64>> {
        let scouting = self.scout.scouting_share();
        let using = (1..=self.facts.rounds).filter(|r| self.inner_passes_on(*r).is_none()).count();
        let training = (1.0 - scouting) / using.max(1) as f64;
        let share = |round: u32| match self.inner_round(round) {
            _ if self.passes_on(round) => 0.0,
            Some(_) => training,
            None => self.scout.scouting_share_of(round),
        };
        Some((1..=self.rounds()).map(share).collect())
    }
}

impl Randomized for Staged {
    fn coins(&self) -> usize {
        self.inner.parts().tossing.map_or(0, Randomized::coins)
    }

    fn toss(&self, coins: &[f64], memory: &mut [f64]) {
        if let Some(tossing) = self.inner.parts().tossing {
            tossing.toss(coins, &mut memory[self.inner_memory()]);
        }
    }
}
