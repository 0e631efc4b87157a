//! Who can learn what about whom: the pairwise map of an experiment, and the attack on the same records without noise.

use super::check::{Experiment, Planned};
use crate::gate::exact;
use crate::graph::Mixing;
use crate::kernel;
use crate::privacy::gdp;
use crate::privacy::views::{Gossip, reconstruction};
use crate::problem::{LocalObjective, Workspace};
use crate::random::{Purpose, Seed};
use rayon::prelude::*;
use serde::Serialize;

/// ε of every agent against every single other one, over the first rounds of a run.
#[derive(Clone, Debug, Serialize)]
pub struct PairwiseMap {
    /// The algorithm's name.
    pub label: String,
    /// How the figures are to be read: they are no claim.
    pub view: &'static str,
    /// N.
    pub agents: usize,
    /// Rounds that were looked at, from the first.
    pub rounds: u32,
    /// δ of every ε.
    pub delta: f64,
    /// `epsilon[i][j]`: of a record of agent i against agent j; 0 on the diagonal.
    pub epsilon: Vec<Vec<f64>>,
    /// Steps between i and j in the graph.
    pub distance: Vec<Vec<u32>>,
    /// The largest ε of the same rounds against whom the claim is made.
    pub claimed: f64,
    /// Mean ε by distance, from 1.
    pub mean_by_distance: Vec<f64>,
    /// Mean ε of all pairs after half of the rounds, to compare with [`Self::mean`]: longer gossip shows more.
    pub mean_after_half: f64,
    /// Mean ε of all pairs.
    pub mean: f64,
}

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
    /// Agents, not neighbours of the observer, whose gradient it knows to a relative error of 10⁻⁶ without noise.
    pub non_neighbours_reconstructed: usize,
    /// The same count under the noise of the experiment's first private algorithm; `None` without one.
    pub reconstructed_under_noise: Option<usize>,
    /// The ε of that algorithm's claim.
    pub epsilon: Option<f64>,
}

/// One agent as the observer reconstructs it.
#[derive(Clone, Debug, Serialize)]
pub struct Exposed {
    /// Its number.
    pub agent: u32,
    /// Steps from the observer.
    pub distance: u32,
    /// ‖reconstructed − gradient‖/‖gradient‖ without noise; `None` where the messages do not determine it.
    pub error: Option<f64>,
    /// The same under the claim's noise.
    pub error_under_noise: Option<f64>,
}

/// A reconstruction that close counts as one.
const EXACT: f64 = 1e-6;

/// Why there is no map of what scouted columns tell.
const NOT_SCOUTED: &str = "scouted columns are summed over all sites, not gossiped, so everybody sees the same: every other agent is the adversary of the claim; \
                           add --set data.encoding=one-hot to see gossip";

impl Experiment {
    /// ε of every agent against every other one, seen through the first `rounds` rounds of the first algorithm with fixed weights and Gaussian noise.
    ///
    /// # Errors
    /// A text: no algorithm whose view is linear, or nothing claimed.
    pub fn pairwise_map(&self, rounds: u32) -> Result<PairwiseMap, String> {
        let privacy = self
            .spec
            .privacy
            .ok_or("a map needs [privacy] with a delta: without noise see `consenso privacy exposure`")?;
        if self.layout.is_some() {
            return Err(NOT_SCOUTED.into());
        }
        let fits = |p: &&Planned| {
            p.scouted.is_none()
                && matches!(p.protocol.kind(), "dgd" | "decor")
                && p.budget.price.is_some()
                && p.budget.is_gaussian()
        };
        let planned = self.planned.iter().find(fits).ok_or(
            "no algorithm here has a linear view: a map needs kind = \"dgd\" or \"decor\" with Gaussian noise (privacy.mechanism = \"gaussian\")",
        )?;
        let rounds = rounds.clamp(1, planned.timetable.rounds);
        let map = |rounds: u32| self.map_of(planned, rounds, privacy.delta);
        let epsilon = map(rounds)?;
        let half = map(rounds.div_ceil(2))?;
        let graph = &self.graphs[0];
        let n = graph.agents();
        let distance: Vec<Vec<u32>> = (0..n).map(|i| distances(graph, i)).collect();
        let pairs = || (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).filter(|(i, j)| i != j);
        let mean =
            |e: &[Vec<f64>]| pairs().map(|(i, j)| e[i][j]).sum::<f64>() / pairs().count().max(1) as f64;
        let farthest = pairs().map(|(i, j)| distance[i][j]).filter(|&d| d < u32::MAX).max().unwrap_or(0);
        let at = |d: u32| {
            let all: Vec<f64> =
                pairs().filter(|&(i, j)| distance[i][j] == d).map(|(i, j)| epsilon[i][j]).collect();
            all.iter().sum::<f64>() / all.len().max(1) as f64
        };
        let claimed = {
            let account = planned.budget.account(self.counts[0], graph.degree(0)).ok_or("no account")?;
            let hides =
                |k: usize| account.hidden_by.get(k).map_or(account.noise[k].noise().scale(), |n| n.scale());
            let mu: f64 =
                (0..rounds as usize).map(|k| (account.steps[k].l2 / hides(k)).powi(2)).sum::<f64>().sqrt();
            gdp::epsilon_of_mu(mu.next_up(), privacy.delta)
        };
        Ok(PairwiseMap {
            label: planned.label.clone(),
            view: "non-adaptive view: gradients are taken as fixed, so this is no claim",
            agents: n,
            rounds,
            delta: privacy.delta,
            mean: mean(&epsilon),
            mean_after_half: mean(&half),
            mean_by_distance: (1..=farthest).map(at).collect(),
            claimed,
            epsilon,
            distance,
        })
    }

    fn map_of(&self, planned: &Planned, rounds: u32, delta: f64) -> Result<Vec<Vec<f64>>, String> {
        let graph = &self.graphs[0];
        let mixing = Mixing::metropolis(graph);
        let n = graph.agents();
        let account = |i: usize| planned.budget.account(self.counts[i], graph.degree(i)).ok_or("no account");
        let first = account(0)?;
        let deviations: Vec<f64> =
            first.noise.iter().take(rounds as usize).map(|n| n.noise().scale()).collect();
        let mut shifts = Vec::with_capacity(n);
        for i in 0..n {
            let own = account(i)?;
            // Agents with more records have less noise and smaller steps; the quotient is what counts.
            let scale = |k: usize| deviations[k] / own.noise[k].noise().scale();
            shifts.push((0..deviations.len()).map(|k| own.steps[k].l2 * scale(k)).collect());
        }
        let correlation = planned.budget.correlated.as_ref().map_or(0.0, |c| c.pairwise.correlation.powi(2));
        let gossip = Gossip { graph, mixing: &mixing, deviations, shifts, correlation };
        let columns: Vec<Vec<f64>> = (0..n as u32).into_par_iter().map(|j| gossip.seen_by(&[j])).collect();
        let epsilon = |mu: f64| if mu > 0.0 { gdp::epsilon_of_mu(mu, delta) } else { 0.0 };
        Ok((0..n).map(|i| (0..n).map(|j| epsilon(columns[j][i])).collect()).collect())
    }

    /// Plays the attack of Mrini, Cyffers and Bellet (2024) on this experiment's records and graph: every agent takes one gradient step from the public
    /// start without noise, all gossip with fixed weights, and one observer reconstructs others' gradients from what its neighbours sent.
    ///
    /// # Errors
    /// A text: records that cannot be divided.
    pub fn exposure(&self) -> Result<ExposureReport, String> {
        if self.tied.is_some() {
            return Err(
                "problems with a linear constraint gossip no gradients; there is nothing to reconstruct"
                    .into(),
            );
        }
        if self.layout.is_some() {
            return Err(NOT_SCOUTED.into());
        }
        let (graph, locals) = (&self.graphs[0], self.locals(0)?);
        let dim = locals.first().map_or(0, LocalObjective::dim);
        let (n, mixing) = (graph.agents(), Mixing::metropolis(graph));
        let start = self.start(0).filter(|s| s.len() == n * dim).unwrap_or_else(|| vec![0.0; n * dim]);
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
        let plans: Vec<_> =
            (0..n as u32).into_par_iter().map(|o| reconstruction(graph, &mixing, o, rounds)).collect();
        let clear = gossip(graph, &mixing, &gradients, rounds);
        let private = self.planned.iter().find(|p| p.scouted.is_none() && p.budget.price.is_some());
        let noised =
            private.and_then(|p| self.noised(p, &gradients)).map(|g| gossip(graph, &mixing, &g, rounds));
        let attack = |observer: usize| -> Vec<Exposed> {
            let far = distances(graph, observer);
            let plan = &plans[observer];
            let error = |messages: &[Vec<Vec<f64>>], agent: usize, c: &[f64]| {
                let mut found = vec![0.0; dim];
                let sent =
                    messages.iter().flat_map(|round| plan.seen.iter().map(move |&u| &round[u as usize]));
                for (c, message) in c.iter().zip(sent) {
                    kernel::axpy(*c, message, &mut found);
                }
                kernel::distance(&found, &gradients[agent]) / kernel::norm(&gradients[agent])
            };
            let one = |agent: usize| {
                let coefficients = plan.coefficients[agent].as_ref();
                Exposed {
                    agent: agent as u32,
                    distance: far[agent],
                    error: coefficients.map(|c| error(&clear, agent, c)),
                    error_under_noise: noised.as_ref().and_then(|m| coefficients.map(|c| error(m, agent, c))),
                }
            };
            (0..n).filter(|&a| a != observer).map(one).collect()
        };
        let exact = |e: Option<f64>| e.is_some_and(|e| e <= EXACT);
        let count = |all: &[Exposed]| all.iter().filter(|e| e.distance > 1 && exact(e.error)).count();
        let all: Vec<Vec<Exposed>> = (0..n).into_par_iter().map(attack).collect();
        let observer = (0..n).max_by_key(|&o| (count(&all[o]), std::cmp::Reverse(o))).unwrap_or(0);
        let agents = all[observer].clone();
        Ok(ExposureReport {
            attacked: "one gradient of every agent at the public start, gossiped with fixed weights: what neighbours send while steps are short",
            rounds,
            observer: observer as u32,
            non_neighbours_reconstructed: count(&agents),
            reconstructed_under_noise: noised
                .as_ref()
                .map(|_| all.iter().flatten().filter(|e| exact(e.error_under_noise)).count()),
            epsilon: private.and_then(|p| p.budget.price.as_ref()).map(|p| p.claim.epsilon),
            agents,
        })
    }

    /// The gradients as the first release of `planned` would carry them; `None` where its noise stands elsewhere.
    fn noised(&self, planned: &Planned, gradients: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
        let graph = &self.graphs[0];
        let neighbours = self.spec.privacy?.neighbours;
        let one = |(i, g): (usize, &Vec<f64>)| {
            let account = planned.budget.account(self.counts[i], graph.degree(i))?;
            let noise = account.noise.first()?;
            let gain = account.steps.first()?.l2 / self.gradient_sensitivity(self.counts[i], neighbours).l2;
            let step: Vec<f64> = g.iter().map(|g| g * gain).collect();
            let mut q = vec![0; step.len()];
            let mut stream = Seed::from(self.spec.seed).stream(Purpose::Audit, i as u64, 0);
            exact::release(&mut stream, &step, &[], noise.noise(), noise.grid(), &mut q).ok()?;
            Some(q.iter().map(|&q| noise.grid().value(q) / gain).collect())
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

impl PairwiseMap {
    /// One row for every ordered pair: agent, observer, distance, epsilon.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = String::from("agent,observer,distance,epsilon\n");
        for (i, (row, far)) in self.epsilon.iter().zip(&self.distance).enumerate() {
            for (j, (e, d)) in row.iter().zip(far).enumerate().filter(|(j, _)| *j != i) {
                out.push_str(&format!("{i},{j},{d},{e}\n"));
            }
        }
        out
    }

    /// A heat map as an SVG file: a row for every agent, a column for every observer; darker is more.
    #[must_use]
    pub fn svg(&self) -> String {
        let n = self.agents.max(1);
        let cell = (600 / n).clamp(4, 40);
        let (left, top) = (70, 60);
        let most = self.epsilon.iter().flatten().copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        let (width, height) = (left + n * cell + 130, top + n * cell + 30);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{left}\" y=\"20\" font-size=\"14\">ε of each agent (row) against each single other one (column)</text>\n\
             <text x=\"{left}\" y=\"38\">{} rounds, δ = {:e}; non-adaptive view, no claim</text>\n\
             <text x=\"10\" y=\"{}\">agent</text>\n<text x=\"{left}\" y=\"54\">observer</text>\n",
            self.rounds,
            self.delta,
            top + 12
        );
        for (i, row) in self.epsilon.iter().enumerate() {
            for (j, &e) in row.iter().enumerate() {
                let share = (e / most).clamp(0.0, 1.0);
                let shade = |light: f64, dark: f64| (light + (dark - light) * share) as u8;
                let (x, y) = (left + j * cell, top + i * cell);
                let fill = if i == j {
                    "#ffffff".to_owned()
                } else {
                    format!("#{:02x}{:02x}{:02x}", shade(247.0, 8.0), shade(251.0, 48.0), shade(255.0, 107.0))
                };
                out.push_str(&format!(
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{cell}\" height=\"{cell}\" fill=\"{fill}\"><title>{i} seen by {j}: ε = {e:.3}</title></rect>\n"
                ));
            }
        }
        let x = left + n * cell + 15;
        out.push_str(&format!(
            "<rect x=\"{x}\" y=\"{top}\" width=\"16\" height=\"16\" fill=\"#08306b\"/><text x=\"{}\" y=\"{}\">ε = {most:.3}</text>\n\
             <rect x=\"{x}\" y=\"{}\" width=\"16\" height=\"16\" fill=\"#f7fbff\" stroke=\"#999\"/><text x=\"{}\" y=\"{}\">ε = 0</text>\n</svg>\n",
            x + 22,
            top + 13,
            top + 24,
            x + 22,
            top + 37
        ));
        out
    }
}
