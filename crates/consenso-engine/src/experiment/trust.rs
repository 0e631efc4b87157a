//! Who can learn what about whom: the pairwise map of an experiment, and the attack on the same
//! records without noise.

use super::check::Experiment;
use super::planned::Planned;
use super::rules;
use super::view_attack::MapAttack;
use crate::account::PrivacySpec;
use crate::audit::views::{CoalitionView, Gossip, PairwiseMap, reconstruction};
use crate::config_error::ConfigError;
use crate::gate::{Pair, Pairs, exact};
use crate::graph::Mixing;
use crate::kernel;
use crate::privacy::gdp;
use crate::problem::{LocalObjective, Workspace};
use crate::random::{Purpose, Seed};
use rayon::prelude::*;
use serde::Serialize;

/// What one observer makes of gossip without noise.
#[derive(Clone, Debug, Serialize)]
pub struct ExposureReport {
    /// What was attacked.
    pub attacked: &'static str,
    /// Rounds of gossip that were observed.
    pub rounds: u32,
    /// The agent that reconstructs the most.
    pub observer: u32,
    /// One entry for each other agent.
    pub agents: Vec<Exposed>,
    /// Agents, not neighbours of the observer, whose gradient it knows to a relative error of 10⁻⁶
    /// without noise.
    pub non_neighbours_reconstructed: usize,
    /// How many are reconstructed under the noise of the experiment's first private algorithm;
    /// `None` without one.
    pub reconstructed_under_noise: Option<usize>,
    /// The ε of that algorithm's claim.
    pub epsilon: Option<f64>,
    /// The best relative error at which any observer knows the gradient of an agent it never talks
    /// to, under other budgets, for every algorithm with Gaussian noise.
    pub error_by_epsilon: Vec<ErrorAt>,
    /// What the same observer would know of an agent with a single record.
    pub record: Option<ExposedRecord>,
    /// The pairwise map under attack; `None` where no algorithm has one.
    pub map_attack: Option<MapAttack>,
}

/// How well the attack does under the noise of a budget.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorAt {
    /// Whose noise: the algorithm's name.
    pub label: String,
    /// ε.
    pub epsilon: f64,
    /// The smallest ‖reconstructed − gradient‖/‖gradient‖ over all observers and agents that are
    /// not their neighbours.
    pub least: f64,
    /// The median of the same.
    pub median: f64,
}

/// A record that was read off a gradient.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ExposedRecord {
    /// Whose it is.
    pub agent: u32,
    /// Steps from the observer.
    pub distance: u32,
    /// ‖reconstructed − record‖/‖record‖ without noise.
    pub error: f64,
    /// The relative error under the claim's noise, for an agent with as many records as it has;
    /// `None` without a claim.
    pub error_under_noise: Option<f64>,
}

/// One agent as the observer reconstructs it.
#[derive(Clone, Debug, Serialize)]
pub struct Exposed {
    /// Its number.
    pub agent: u32,
    /// Steps from the observer.
    pub distance: u32,
    /// ‖reconstructed − gradient‖/‖gradient‖ without noise; `None` where the messages do not
    /// determine it.
    pub error: Option<f64>,
    /// The relative error under the claim's noise.
    pub error_under_noise: Option<f64>,
}

/// A reconstruction that close counts as one.
const EXACT: f64 = 1e-6;

/// Why there is no map of what scouted columns tell.
/// An algorithm without noise has no account, and so no view that a map could be made of.
pub(super) fn no_account() -> ConfigError {
    ConfigError::of("no account")
}

impl Experiment {
    /// ε of every agent against every other one, seen through the first `rounds` rounds of the
    /// first algorithm with fixed weights and Gaussian noise.
    ///
    /// # Errors
    /// [`ConfigError`]: no algorithm whose view is linear, or nothing claimed.
    pub fn pairwise_map(&self, rounds: u32) -> Result<PairwiseMap, ConfigError> {
        self.map_with(rounds, &[])
    }

    /// The map for the page of a run: of few agents and the first rounds, so that it takes no time;
    /// `None` where no view is linear.
    pub(super) fn page_map(&self) -> Option<PairwiseMap> {
        const AGENTS: usize = 16;
        const ROUNDS: u32 = 10;
        if self.graphs[0].agents() > AGENTS { None } else { self.pairwise_map(ROUNDS).ok() }
    }

    /// [`Self::pairwise_map`] with what `observers` tell together beside it; none if there are no
    /// observers.
    ///
    /// # Errors
    /// As [`Self::pairwise_map`], and for an observer that is no agent.
    pub fn map_with(&self, rounds: u32, observers: &[u32]) -> Result<PairwiseMap, ConfigError> {
        if let Some(bad) = observers.iter().find(|&&o| o as usize >= self.graphs[0].agents()) {
            return Err(ConfigError::of(format!(
                "there is no agent {bad}: they are numbered from 0 to {}",
                self.graphs[0].agents() - 1
            )));
        }
        let (planned, privacy) = self.linear()?;
        let rounds = rounds.clamp(1, planned.timetable.rounds);
        let map = |rounds: u32| self.map_of(planned, rounds, privacy.delta);
        let coalition = match observers {
            [] => None,
            some => Some(CoalitionView {
                observers: some.to_vec(),
                epsilon: self
                    .views_of(planned, rounds, privacy.delta, &[some.to_vec()])?
                    .swap_remove(0),
            }),
        };
        let epsilon = map(rounds)?;
        let half = map(rounds.div_ceil(2))?;
        let graph = &self.graphs[0];
        let n = graph.agents();
        let distance: Vec<Vec<u32>> = (0..n).map(|i| distances(graph, i)).collect();
        let pairs = || (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).filter(|(i, j)| i != j);
        let mean = |e: &[Vec<f64>]| {
            pairs().map(|(i, j)| e[i][j]).sum::<f64>() / pairs().count().max(1) as f64
        };
        let farthest =
            pairs().map(|(i, j)| distance[i][j]).filter(|&d| d < u32::MAX).max().unwrap_or(0);
        let at = |d: u32| {
            let all: Vec<f64> =
                pairs().filter(|&(i, j)| distance[i][j] == d).map(|(i, j)| epsilon[i][j]).collect();
            all.iter().sum::<f64>() / all.len().max(1) as f64
        };
        let claimed = {
            let noise_schedule = planned
                .account
                .noise_schedule(0, self.site_weight(0), graph.degree(0))
                .ok_or_else(no_account)?;
            let hides = |k: usize| {
                noise_schedule
                    .hidden_by
                    .get(k)
                    .map_or(noise_schedule.noise[k].noise().scale(), |n| n.scale())
            };
            let mu: f64 = (0..rounds as usize)
                .map(|k| (noise_schedule.steps[k].l2 / hides(k)).powi(2))
                .sum::<f64>()
                .sqrt();
            gdp::epsilon_of_mu(mu.next_up(), privacy.delta)
        };
        Ok(PairwiseMap {
            label: planned.label.clone(),
            view: "non-adaptive view: gradients are taken as fixed, so this is no claim".into(),
            agents: n,
            rounds,
            delta: privacy.delta,
            mean: mean(&epsilon),
            mean_after_half: mean(&half),
            mean_by_distance: (1..=farthest).map(at).collect(),
            claimed,
            coalition,
            epsilon,
            distance,
        })
    }

    /// The first algorithm whose views are linear.
    pub(super) fn linear(&self) -> Result<(&Planned, PrivacySpec), ConfigError> {
        rules::check_run(rules::MAP, self)?;
        let planned = self.planned.iter().find(|p| p.has_linear_view());
        planned.zip(self.spec.privacy).ok_or_else(no_account)
    }

    fn map_of(
        &self,
        planned: &Planned,
        rounds: u32,
        delta: f64,
    ) -> Result<Vec<Vec<f64>>, ConfigError> {
        let n = self.graphs[0].agents();
        let alone: Vec<Vec<u32>> = (0..n as u32).map(|j| vec![j]).collect();
        let columns = self.views_of(planned, rounds, delta, &alone)?;
        Ok((0..n).map(|i| (0..n).map(|j| columns[j][i]).collect()).collect())
    }

    /// ε of every agent against each of these coalitions.
    fn views_of(
        &self,
        planned: &Planned,
        rounds: u32,
        delta: f64,
        coalitions: &[Vec<u32>],
    ) -> Result<Vec<Vec<f64>>, ConfigError> {
        let mixing = Mixing::metropolis(&self.graphs[0]);
        let gossip = self.gossip_of(planned, rounds, &mixing)?;
        let epsilon = |mu: f64| if mu > 0.0 { gdp::epsilon_of_mu(mu, delta) } else { 0.0 };
        Ok(coalitions
            .par_iter()
            .map(|c| gossip.seen_by(c).into_iter().map(epsilon).collect())
            .collect())
    }

    /// The first rounds of `planned` as linear gossip.
    pub(super) fn gossip_of<'a>(
        &'a self,
        planned: &Planned,
        rounds: u32,
        mixing: &'a Mixing,
    ) -> Result<Gossip<'a>, ConfigError> {
        let graph = &*self.graphs[0];
        let noise_schedule = |i: usize| {
            planned
                .account
                .noise_schedule(i, self.site_weight(i), graph.degree(i))
                .ok_or_else(no_account)
        };
        let scale = |i: usize, k: usize| {
            Ok::<f64, ConfigError>(noise_schedule(i)?.noise[k].noise().scale())
        };
        let rounds = (rounds as usize).min(noise_schedule(0)?.noise.len());
        // Noise that neighbours share is measured by the least own noise of all.
        let least = |k: usize| {
            let mut all = (0..graph.agents()).map(|i| scale(i, k));
            all.try_fold(f64::INFINITY, |least, s| Ok::<f64, ConfigError>(least.min(s?)))
        };
        let base =
            |k: usize| if planned.account.correlated.is_some() { least(k) } else { scale(0, k) };
        let deviations = (0..rounds).map(base).collect::<Result<Vec<f64>, _>>()?;
        let (mut shifts, mut relative) = (Vec::new(), Vec::new());
        for i in 0..graph.agents() {
            // Agents with more records have less noise and smaller steps. Should the quotient
            // differ by round, the least is what hides.
            let quotients = (0..rounds).map(|k| Ok(scale(i, k)? / deviations[k]));
            let least = quotients
                .collect::<Result<Vec<f64>, ConfigError>>()?
                .into_iter()
                .fold(f64::INFINITY, f64::min);
            relative.push(if least.is_finite() { least } else { 1.0 });
            shifts.push(noise_schedule(i)?.steps.iter().take(rounds).map(|s| s.l2).collect());
        }
        let correlation =
            planned.account.correlated.as_ref().map_or(0.0, |c| c.pairwise.correlation.powi(2));
        Ok(Gossip { graph, mixing, deviations, relative, shifts, correlation })
    }

    /// Plays the attack of Mrini, Cyffers and Bellet (2024) on this experiment's records and graph:
    /// every agent takes one gradient step from the public start without noise, all gossip with
    /// fixed weights, and one observer reconstructs others' gradients from what its neighbours
    /// sent.
    ///
    /// # Errors
    /// [`ConfigError`]: records that cannot be divided.
    pub fn exposure(&self) -> Result<ExposureReport, ConfigError> {
        rules::check_run(rules::EXPOSURE, self)?;
        let (graph, locals) = (&self.graphs[0], self.locals(0)?);
        let dim = locals.first().map_or(0, LocalObjective::dim);
        let (n, mixing) = (graph.agents(), Mixing::metropolis(graph));
        let start =
            self.start(0).filter(|s| s.len() == n * dim).unwrap_or_else(|| vec![0.0; n * dim]);
        let gradients: Vec<Vec<f64>> = locals
            .iter()
            .zip(start.chunks_exact(dim))
            .map(|(local, x)| {
                let mut g = vec![0.0; dim];
                local.data_gradient(x, &mut g, &mut Workspace::default());
                g
            })
            .collect();
        let rounds = n.min(40) as u32;
        let plans: Vec<_> = (0..n as u32)
            .into_par_iter()
            .map(|o| reconstruction(graph, &mixing, o, rounds))
            .collect();
        let attack = |observer: usize, messages: &[Vec<Vec<f64>>]| -> Vec<Option<f64>> {
            let plan = &plans[observer];
            let one = |agent: usize| {
                let mut found = vec![0.0; dim];
                let sent = messages
                    .iter()
                    .flat_map(|round| plan.seen.iter().map(move |&u| &round[u as usize]));
                for (c, message) in plan.coefficients[agent].as_ref()?.iter().zip(sent) {
                    kernel::axpy(*c, message, &mut found);
                }
                Some(kernel::distance(&found, &gradients[agent]) / kernel::norm(&gradients[agent]))
            };
            (0..n).map(one).collect()
        };
        let clear = gossip(graph, &mixing, &gradients, rounds);
        let under = |p: &Planned| -> Option<Vec<Vec<Option<f64>>>> {
            let heard = |observer: usize| {
                Some(attack(
                    observer,
                    &gossip(graph, &mixing, &self.noised(p, &gradients, observer)?, rounds),
                ))
            };
            (0..n).into_par_iter().map(heard).collect()
        };
        let private: Vec<&Planned> = self
            .planned
            .iter()
            .filter(|p| p.scouted.is_none() && p.account.price.is_some())
            .collect();
        let noised = private.first().and_then(|p| under(p));
        let exposed = |observer: usize| -> Vec<Exposed> {
            let (far, clear) = (distances(graph, observer), attack(observer, &clear));
            let one = |agent: usize| Exposed {
                agent: agent as u32,
                distance: far[agent],
                error: clear[agent],
                error_under_noise: noised.as_ref().and_then(|all| all[observer][agent]),
            };
            (0..n).filter(|&a| a != observer).map(one).collect()
        };
        let exact = |e: Option<f64>| e.is_some_and(|e| e <= EXACT);
        let count =
            |all: &[Exposed]| all.iter().filter(|e| e.distance > 1 && exact(e.error)).count();
        let all: Vec<Vec<Exposed>> = (0..n).into_par_iter().map(exposed).collect();
        let observer = (0..n).max_by_key(|&o| (count(&all[o]), std::cmp::Reverse(o))).unwrap_or(0);
        let agents = all[observer].clone();
        // What was found under one noise is found under another in proportion: the attack is
        // linear, and without noise it has no error to speak of.
        let mut error_by_epsilon = Vec::new();
        for (k, p) in private.iter().enumerate().filter(|(_, p)| p.account.is_gaussian()) {
            let found = if k == 0 { noised.clone() } else { under(p) };
            let Some(found) = found else { continue };
            let far = all.iter().zip(&found).flat_map(|(exposed, found)| {
                exposed.iter().filter(|e| e.distance > 1).filter_map(|e| found[e.agent as usize])
            });
            error_by_epsilon.extend(self.errors(p, far.collect()));
        }
        let record = self.record_behind(&locals, &gradients, &agents, noised.is_some());
        Ok(ExposureReport {
            map_attack: self.attack_map().ok(),
            error_by_epsilon,
            record,
            attacked: "one gradient of every agent at the public start, gossiped with fixed weights: what neighbours send while steps are short",
            rounds,
            observer: observer as u32,
            non_neighbours_reconstructed: count(&agents),
            reconstructed_under_noise: noised
                .as_ref()
                .map(|_| all.iter().flatten().filter(|e| exact(e.error_under_noise)).count()),
            epsilon: private
                .first()
                .and_then(|p| p.account.price.as_ref())
                .map(|p| p.claim.epsilon),
            agents,
        })
    }

    /// How well agents that nobody talks to are known under budgets from a tenth to a thousand, for
    /// Gaussian noise; `found` are the errors under the budget there is.
    fn errors(&self, planned: &Planned, mut found: Vec<f64>) -> Vec<ErrorAt> {
        let Some((privacy, price)) = self.spec.privacy.zip(planned.account.price.as_ref()) else {
            return Vec::new();
        };
        found.sort_unstable_by(f64::total_cmp);
        let (Some(&least), Some(&median)) = (found.first(), found.get(found.len() / 2)) else {
            return Vec::new();
        };
        let Ok(own) = gdp::mu_for(price.claim.epsilon, privacy.delta) else { return Vec::new() };
        let at = |&epsilon: &f64| {
            let ratio = own / gdp::mu_for(epsilon, privacy.delta).ok()?;
            let label = planned.label.clone();
            Some(ErrorAt { label, epsilon, least: least * ratio, median: median * ratio })
        };
        [0.1, 1.0, 10.0, 100.0, 1000.0].iter().filter_map(at).collect()
    }

    /// The first record of the farthest agent whose gradient the observer knows, read off the
    /// gradient that it alone would have: a logistic gradient of one record is the record times a
    /// number, and a constant feature tells the number. `None` where rows have no constant feature
    /// or the loss is another.
    fn record_behind(
        &self,
        locals: &[LocalObjective],
        gradients: &[Vec<f64>],
        agents: &[Exposed],
        under_noise: bool,
    ) -> Option<ExposedRecord> {
        let known = agents.iter().filter(|e| e.error.is_some_and(|e| e <= EXACT));
        let exposed = known.max_by_key(|e| e.distance)?;
        let agent = exposed.agent as usize;
        let local = locals[agent].mean_loss()?;
        if !local.objective().loss.is_logistic() {
            return None;
        }
        let records = local.records();
        let one = local.on(records.select(&[0]));
        let row = records.row(0);
        let last = row.len().checked_sub(1)?;
        let mut gradient = vec![0.0; row.len()];
        one.data_gradient(&vec![0.0; row.len()], &mut gradient, &mut Workspace::default());
        // The constant is the last feature, the same in all records.
        let constant = row[last];
        let same = (0..records.len()).all(|k| records.row(k).get(last) == Some(&constant));
        if !same || constant == 0.0 || gradient[last] == 0.0 {
            return None;
        }
        let error = |gradient: &[f64]| {
            let slope = gradient[last] / constant;
            let found: Vec<f64> = gradient.iter().map(|g| g / slope).collect();
            kernel::distance(&found, &row) / kernel::norm(&row)
        };
        // The noise that this agent's gradient carries is for a mean of all its records: on a
        // gradient of one of them it is as large.
        let noise = exposed
            .error_under_noise
            .filter(|_| under_noise)
            .map(|e| e * kernel::norm(&gradients[agent]));
        let noised = noise.map(|size| {
            let mut stream = Seed::from(self.spec.seed).stream(Purpose::Audit, agent as u64, 1);
            let mut direction: Vec<f64> =
                gradient.iter().map(|_| rand::RngExt::random::<f64>(&mut stream) - 0.5).collect();
            let length = kernel::norm(&direction);
            direction.iter_mut().zip(&gradient).for_each(|(n, g)| *n = g + *n * size / length);
            error(&direction)
        });
        Some(ExposedRecord {
            agent: exposed.agent,
            distance: exposed.distance,
            error: error(&gradient),
            error_under_noise: noised,
        })
    }

    /// The gradients as the first release of `planned` would carry them, without the noise that
    /// `observer` shares with its neighbours; `None` where its noise stands elsewhere.
    fn noised(
        &self,
        planned: &Planned,
        gradients: &[Vec<f64>],
        observer: usize,
    ) -> Option<Vec<Vec<f64>>> {
        let graph = &self.graphs[0];
        let neighbours = self.spec.privacy?.neighbours;
        let seed = Seed::from(self.spec.seed);
        let one = |(i, g): (usize, &Vec<f64>)| {
            let noise_schedule =
                planned.account.noise_schedule(i, self.site_weight(i), graph.degree(i))?;
            let noise = *noise_schedule.noise.first()?;
            let gain = noise_schedule.steps.first()?.l2
                / self.gradient_sensitivity(self.site_weight(i), neighbours).l2;
            let step: Vec<f64> = g.iter().map(|g| g * gain).collect();
            let mut q = vec![0; step.len()];
            let mut stream = seed.stream(Purpose::Audit, i as u64, 0);
            exact::release(&mut stream, &step, &[], noise.noise(), noise.grid(), &mut q).ok()?;
            let mut released: Vec<f64> = q.iter().map(|&q| noise.grid().value(q) / gain).collect();
            if let Some(correlated) = planned.account.correlated.as_ref().filter(|_| i != observer)
            {
                let hidden = graph.neighbours(i).iter().filter(|&&j| j as usize != observer);
                let pairs: Vec<Pair> =
                    hidden.map(|&j| Pair::new(i as u32, j, seed.clone())).collect();
                let shared = Pairs::new(pairs, correlated.shared_noise()).known(1, g.len()).ok()?;
                kernel::axpy(1.0 / gain, &shared, &mut released);
            }
            Some(released)
        };
        gradients.iter().enumerate().map(one).collect()
    }
}

/// All messages of a gossip that begins with `values`, round by round.
fn gossip(
    graph: &crate::graph::Graph,
    mixing: &Mixing,
    values: &[Vec<f64>],
    rounds: u32,
) -> Vec<Vec<Vec<f64>>> {
    let mut all = vec![values.to_vec()];
    for _ in 0..rounds {
        let last = all.last().expect("it begins with one");
        let mix = |i: usize| {
            let mut out: Vec<f64> = last[i].iter().map(|x| mixing.own(i) * x).collect();
            for (&j, &w) in graph.neighbours(i).iter().zip(mixing.neighbours(i)) {
                kernel::axpy(w, &last[j as usize], &mut out);
            }
            out
        };
        let next = (0..values.len()).map(mix).collect();
        all.push(next);
    }
    all
}

/// Steps from one agent to all others; `u32::MAX` where there is no way.
fn distances(graph: &crate::graph::Graph, from: usize) -> Vec<u32> {
    let mut far = vec![u32::MAX; graph.agents()];
    far[from] = 0;
    let mut queue = std::collections::VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for &next in graph.neighbours(at) {
            if far[next as usize] == u32::MAX {
                far[next as usize] = far[at] + 1;
                queue.push_back(next as usize);
            }
        }
    }
    far
}
