//! The algorithm as agents play it.

use super::calibration::SCORE_REACH;
use super::sums::Stage;
use super::{MEMORY, Scouted, largest};
use crate::config_error::ConfigError;
use crate::graph::Graph;
use crate::kernel;
use crate::problem::clipped::Standardised;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::protocol::{
    Assessed, Configured, Memory, Pairwise, Parameters, Partial, Parts, Protocol, PublicFacts,
    Relaying, View,
};
use crate::theory::{Assessment, Certainty, TheoremInputs, short};
use std::sync::Arc;

impl Protocol for Scouted {
    fn kind(&self) -> &'static str {
        if self.recipe.request.pairwise.is_some() { "decor" } else { "dgd" }
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            configured: Some(self),
            assessed: Some(self),
            partial: Some(self),
            relaying: Some(self),
            ..Parts::default()
        }
    }

    fn configure(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    fn memory(&self) -> usize {
        MEMORY
    }

    fn step_sensitivity(
        &self,
        round: u32,
        _: usize,
        _: &Sensitivity,
        _: &PublicFacts,
    ) -> Sensitivity {
        let (stage, _) = self.place(round);
        if self.passes_on(round) {
            return Sensitivity { l1: 0.0, l2: 0.0, linf: 0.0 };
        }
        if stage == Stage::Scout {
            // Counts are whole numbers, so their sums are exact.
            let (linf, one) = self.shape.counted.largest_and_sum();
            let person = f64::from(self.recipe.request.person.max(1));
            let (l1, linf) = (person * self.recipe.request.change_factor * one, person * linf);
            return Sensitivity { l1, l2: self.moves(stage), linf };
        }
        Sensitivity::from_l2(self.moves(stage), self.length(stage))
    }

    fn interval(&self, _: &View<'_>, _: &[f64], low: &mut [f64], high: &mut [f64]) {
        low.fill(0.0);
        high.fill(0.0);
    }

    fn step(
        &self,
        view: &View<'_>,
        memory: Memory<'_>,
        _: &[f64],
        local: &LocalObjective,
        work: &mut Workspace,
        step: &mut [f64],
    ) {
        let (stage, _) = self.place(view.round() + 1);
        self.site_sum(stage, memory.public, local, work, step);
    }

    fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
        let Some(position) = &self.position else { return };
        let (stage, exchange) = self.place(view.round());
        let (length, last) = (self.length(stage), exchange + 1 == self.shape.exchanges);
        let mut state = self.state(memory);
        let factors = &self.recipe.factors;
        if self.shape.complete {
            let total = &mut state.total[..length];
            total.fill(0.0);
            for (row, &factor) in view.everyone().zip(factors) {
                kernel::axpy(factor, &row[..length], total);
            }
            self.compare_sites(stage, view.everyone(), &mut state);
        } else {
            if exchange == 0 {
                state.partial[..length].fill(0.0);
                kernel::axpy(
                    factors[position.agent],
                    &view.own()[..length],
                    &mut state.partial[..length],
                );
            }
            if exchange + 1 == position.height {
                for &(place, child) in &position.children {
                    let row = view.neighbours().nth(place).expect("a child is a neighbour");
                    let factor = if exchange == 0 { factors[child] } else { 1.0 };
                    kernel::axpy(factor, &row[..length], &mut state.partial[..length]);
                }
            }
            if position.parent.is_none() && exchange + 1 == position.tree.max(1) {
                state.total[..length].copy_from_slice(&state.partial[..length]);
            }
            if let Some(parent) = position.parent
                && exchange + 1 == position.tree + position.depth
            {
                let row = view.neighbours().nth(parent).expect("a parent is a neighbour");
                state.total[..length].copy_from_slice(&row[..length]);
            }
        }
        if last {
            self.apply(stage, &mut state);
        }
    }

    fn model(&self, view: &View<'_>, memory: &[f64], model: &mut [f64]) {
        let mut memory = memory.to_vec();
        let state = self.state(&mut memory);
        let length = state.standard.len();
        model.fill(0.0);
        // Before the columns are scouted nothing is known of them.
        if view.round() <= self.shape.exchanges && state.standard[length - 1] == 0.0 {
            let blind = self.recipe.request.layout.blind(self.recipe.floor);
            self.recipe.start(&blind, &mut model[length..length + state.x.len()]);
            model[..length].copy_from_slice(&blind);
        } else {
            model[..length].copy_from_slice(state.standard);
            self.recipe.model(&state, &mut model[length..length + state.x.len()]);
            let end = length + state.x.len();
            if self.infers() && view.round() >= self.rounds() {
                let (x, rest) = model[length..].split_at_mut(state.x.len());
                let length = self.recipe.inference_len();
                self.recipe.write_estimate(&state, x, &mut rest[1..=length]);
                self.recipe.repeat_slopes(x);
                rest[0] = 1.0;
                return;
            }
            if view.round() >= self.rounds() {
                self.shrink_by_noise(state.standard, state.tally, &mut model[length..end]);
            }
            self.recipe.repeat_slopes(&mut model[length..end]);
            let width = self.recipe.request.layout.features() + 1;
            let size = |x: &[f64]| {
                let weights = x.chunks_exact(width).flat_map(|block| &block[..width - 1]);
                weights.map(|w| w * w).sum::<f64>().sqrt()
            };
            // What the last stage made of the weights, for whoever asks what noise is in them.
            let (kept, last) = (size(state.mean), size(&model[length..end]));
            model[end] = if kept > 0.0 { last / kept } else { 1.0 };
            let lengths = self.recipe.lengths(state.tally);
            model[end + 1..=end + lengths.len()].copy_from_slice(lengths);
        }
    }
}

impl Scouted {
    /// One site's sum of a stage; `memory` is a function of releases.
    pub(super) fn site_sum(
        &self,
        stage: Stage,
        memory: &[f64],
        local: &LocalObjective,
        work: &mut Workspace,
        step: &mut [f64],
    ) {
        if stage == Stage::Scout {
            return self.recipe.count(local, step);
        }
        let (_, rest) = memory.split_at(2 * self.shape.width);
        let (standard, rest) = rest.split_at(self.recipe.request.layout.standard_len());
        if let Stage::Look(_) = stage {
            let looks = self.recipe.looks(standard, self.widths(memory));
            return self.recipe.count_look(&looks, local, step);
        }
        let (x, rest) = rest.split_at(self.recipe.coefficients());
        let (mean, tally) = rest.split_at(self.recipe.coefficients());
        if self.infers() {
            self.inference_step(stage, local, standard, (x, mean), step);
            return self.share_among_strangers(local, step);
        }
        let records = local.mean_loss().expect("only records have columns");
        let rows: Arc<Standardised> = records.under(standard).expect("scouted records are raw");
        let loss = self.recipe.loss(standard);
        match stage {
            Stage::Train(_) => {
                let clip = self.recipe.usual_now(tally) * self.recipe.clip(standard);
                rows.clipped_sum(loss, x, clip, step, work);
            }
            Stage::Length(_) => {
                step[0] = rows.length_sum(loss, x, self.recipe.length_reach(standard));
            }
            _ => {
                let at = match stage {
                    Stage::Calibrate(0) => self.recipe.trained(mean),
                    _ => tally[1..2 + self.recipe.request.loss.outputs()].to_vec(),
                };
                let clip = self.recipe.calibration_clip;
                let loss = self.recipe.request.loss;
                rows.calibration_sum(loss, mean, SCORE_REACH, &at, clip, step);
            }
        }
        self.share_among_strangers(local, step);
    }

    /// Where a person may have several records and nobody knows whom these are about, each counts
    /// for one over the most that a person has: all of a person's are then no longer than one.
    fn share_among_strangers(&self, local: &LocalObjective, step: &mut [f64]) {
        let known = local.mean_loss().is_some_and(|l| !l.records().persons().is_empty());
        if let (most @ 2.., false) = (self.recipe.request.person, known) {
            step.iter_mut().for_each(|s| *s /= f64::from(most));
        }
    }
}

impl Configured for Scouted {
    fn pairwise(&self, _: &PublicFacts) -> Option<Pairwise> {
        self.recipe.request.pairwise.map(|(pairwise, _)| pairwise)
    }

    fn resolve(&mut self, _: &PublicFacts) {}

    fn default_rounds(&self, _: &PublicFacts) -> u32 {
        self.rounds()
    }

    fn check(&self, _: &PublicFacts) -> Result<Option<String>, ConfigError> {
        let recipe = &self.recipe;
        let (heavy, weight) = largest(recipe.weights.iter().copied());
        let all: f64 = recipe.factors.iter().map(|f| f * f).sum();
        let (loud, noise) = largest(recipe.factors.iter().map(|f| f * f / all));
        let several = recipe.weights.len() > 2;
        let noisy = several
            && recipe.request.mu.is_some()
            && noise > 0.5
            && !recipe.request.weights.is_precise();
        let mut said = Vec::new();
        if several && weight > 0.5 {
            said.push(format!(
                "site {} has {:.0} % of the weight: the model is mostly about its records; data.weights = \"equal\" makes all sites count \
                 the same, at the price of more noise",
                heavy + 1,
                100.0 * weight
            ));
        }
        if noisy {
            said.push(format!(
                "site {} brings {:.0} % of the noise; data.weights = \"precision\" lets it count for less",
                loud + 1,
                100.0 * noise
            ));
        }
        Ok((!said.is_empty()).then(|| said.join("; ")))
    }

    fn parameters(&self) -> Parameters {
        let mut table = Parameters::new();
        if let Some((pairwise, _)) = self.recipe.request.pairwise {
            table.insert("colluders".into(), pairwise.colluders.into());
            table.insert("correlation".into(), pairwise.correlation.into());
        }
        let without = &self.recipe.request.without;
        if !without.is_empty() {
            table.insert("without".into(), serde_json::json!(without));
        }
        table
    }

    fn of_agent(
        &self,
        agent: usize,
        graph: &Graph,
        records: &[usize],
    ) -> Option<Arc<dyn Protocol>> {
        Some(Arc::new(self.placed(agent, graph, records)?))
    }
}

impl Assessed for Scouted {
    fn assess(&self, _: &TheoremInputs) -> Assessment {
        let recipe = &self.recipe;
        let steps = f64::from(self.shape.steps);
        let blind = recipe.request.layout.blind(recipe.floor);
        let time = |mu| recipe.time(self.shape.training(), &blind, mu);
        let product = recipe.request.mu.map_or(1.0, |mu| (time(mu) / steps).min(0.2));
        let inequality = format!("step·h = {} ≤ 1 on standardised columns", short(product));
        let promise = format!(
            "all sites end with the same model; noise-to-signal q = {}, {} exchanges a step",
            short(recipe.q),
            self.shape.exchanges
        );
        let why = "no theorem here covers gradients that are clipped record by record";
        Assessment {
            promise: Some(promise),
            not_certified: Some(why.into()),
            ..Assessment::new(Certainty::PredictedStable, "bounded steps", inequality)
        }
    }

    /// A record's share in a sum is bounded, so a site of b records releases a vector of at most
    /// b·s, s the bound, plus noise: a site that lies has no more influence than one whose records
    /// are as bad as they can be. What is passed on is a weighted mean of such vectors.
    fn admits(&self, round: u32, place: usize) -> Option<(usize, f64)> {
        let (stage, exchange) = self.place(round);
        let length = self.length(stage);
        if exchange > 0 {
            return Some((length, self.largest_mean(stage)?));
        }
        let position = self.position.as_ref()?;
        let sender = *position.neighbours.get(place)?;
        let records = self.recipe.weights.get(sender)? / self.recipe.factors.get(sender)?;
        Some((length, records * self.largest_share(stage)? + self.largest_noise(stage)))
    }
}

impl Partial for Scouted {
    fn active(&self, round: u32, _: usize) -> Vec<u32> {
        (0..self.length(self.place(round).0) as u32).collect()
    }
}

impl Relaying for Scouted {
    fn passes_on(&self, round: u32) -> bool {
        // Where everything is known already the first sum is empty.
        let (stage, exchange) = self.place(round);
        exchange > 0 || stage == Stage::Scout && self.shape.counted.is_empty()
    }

    fn pass_on(&self, view: &View<'_>, memory: &[f64], out: &mut [f64]) {
        let exchange = self.place(view.round() + 1).1;
        let down = self.position.as_ref().is_some_and(|s| exchange >= s.tree);
        out.copy_from_slice(if down {
            &memory[self.shape.width..2 * self.shape.width]
        } else {
            &memory[..self.shape.width]
        });
        // Several neighbours that lie within their limits may lead an honest sum beyond its own.
        let stage = self.place(view.round() + 1).0;
        let counted = &mut out[..self.length(stage)];
        if let Some(most) = self.largest_mean(stage) {
            let norm = kernel::norm(counted);
            if norm > most {
                // A little less, so that rounding does not lead it out again.
                let scale = most / norm * (1.0 - 1e-12);
                counted.iter_mut().for_each(|x| *x *= scale);
            }
        }
    }

    fn shares(&self) -> Option<Vec<f64>> {
        self.recipe.request.mu?;
        let share = |round: u32| match self.place(round) {
            _ if self.passes_on(round) => 0.0,
            (stage, _) => self.share_of(stage),
        };
        Some((1..=self.rounds()).map(share).collect())
    }
}
