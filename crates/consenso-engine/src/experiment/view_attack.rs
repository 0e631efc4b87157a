//! An attack on the pairwise map: every agent weighs what it really receives by its likelihood
//! ratio, and what it can tell is bounded from below.
//!
//! The noise is drawn by the samplers of the gate and travels message by message, so that a
//! covariance, a weight or a secret edge that the map counts wrongly shows. Several records are
//! moved at once, as many as make the difference plain: if a record is hidden as a Gaussian of μ
//! hides it, m of them are hidden as one of m·μ does, so a lower bound on what m records show, over
//! m, is one on μ.

use super::check::Experiment;
use super::planned::Planned;
use crate::account::Correlated;
use crate::audit::views::{BestTest, Gossip};
use crate::audit::{AuditedClaim, Options, Side, audit};
use crate::config_error::ConfigError;
use crate::gate::{Pair, Pairs, RoundNoise, exact};
use crate::graph::{Graph, Mixing};
use crate::kernel;
use crate::privacy::gdp;
use crate::random::{Purpose, Seed};
use rayon::prelude::*;
use serde::Serialize;

/// How near a likelihood-ratio attack comes to every ε of a pairwise map.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MapAttack {
    /// The algorithm's name.
    pub label: String,
    /// Rounds that were observed, from the first.
    pub rounds: u32,
    /// Draws on each side of every pair.
    pub trials: u32,
    /// Probability that all lower bounds hold together.
    pub confidence: f64,
    /// Pairs of an agent and another one that can tell something about it.
    pub pairs: usize,
    /// Pairs whose lower bound is above the map: none, unless the map is wrong.
    pub above: usize,
    /// The mean of lower bound over map, for μ.
    pub mean_share: f64,
    /// Where the attack comes nearest to the map.
    pub nearest: Option<NearestPair>,
}

/// A pair and what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NearestPair {
    /// Whose record it is.
    pub agent: u32,
    /// Who observes.
    pub observer: u32,
    /// ε is at least this.
    pub lower: f64,
    /// ε of the map.
    pub epsilon: f64,
}

/// Probability that any lower bound is wrong.
const WRONG: f64 = 1e-6;
/// μ that the records moved together are to have: plain, and not so plain that tails would have to
/// be counted.
const AIM: f64 = 2.5;
/// Rounds that are attacked.
const ROUNDS: u32 = 5;
/// Numbers to draw, about.
const DRAWS: usize = 400_000;

/// Where noise comes from: n draws of an agent's own noise in a round, and of what an edge adds to
/// its smaller end.
type NoiseDraws<'a> = dyn Fn(usize, u32, usize) -> Result<Vec<f64>, ConfigError> + Sync + 'a;
type Shared<'a> = dyn Fn(u32, u32, u32, usize) -> Result<Vec<f64>, ConfigError> + Sync + 'a;

impl Experiment {
    /// Attacks the pairwise map of the first algorithm that has one.
    ///
    /// # Errors
    /// [`ConfigError`]: there is no map, or noise that cannot be drawn.
    pub(crate) fn attack_map(&self) -> Result<MapAttack, ConfigError> {
        let (planned, privacy) = self.linear()?;
        let mixing = Mixing::metropolis(&self.graphs[0]);
        let gossip = self.gossip_of(planned, ROUNDS.min(planned.timetable.rounds), &mixing)?;
        let n = gossip.graph.agents();
        let trials = (DRAWS / (n * gossip.deviations.len()).max(1)).clamp(1000, 10_000) as u32;
        let seed = Seed::from(self.spec.seed);
        let own = |agent: usize, round: u32, count: usize| {
            let noise = self.own_noise(planned, agent, round)?;
            let mut q = vec![0; count];
            let mut stream = seed.stream(Purpose::Audit, agent as u64, u64::from(round));
            exact::release(
                &mut stream,
                &vec![0.0; count],
                &[],
                noise.noise(),
                noise.grid(),
                &mut q,
            )
            .map_err(ConfigError::of)?;
            Ok(q.iter().map(|&q| noise.grid().value(q)).collect())
        };
        let shared = |low: u32, high: u32, round: u32, count: usize| {
            let pair = Pair::new(low, high, seed.clone());
            let noise = planned.account.correlated.as_ref().map(Correlated::shared_noise);
            let noise = noise.ok_or_else(super::trust::no_account)?;
            Pairs::new([pair], noise).known(round, count).map_err(ConfigError::of)
        };
        let found = attack(&gossip, &own, &shared, privacy.delta, trials, self.spec.seed)?;
        Ok(MapAttack { label: planned.label.clone(), ..found })
    }

    fn own_noise(
        &self,
        planned: &Planned,
        agent: usize,
        round: u32,
    ) -> Result<RoundNoise, ConfigError> {
        let degree = self.graphs[0].degree(agent);
        let noise_schedule = planned.account.noise_schedule(agent, self.site_weight(agent), degree);
        noise_schedule
            .and_then(|a| a.noise.get(round as usize - 1).copied())
            .ok_or_else(super::trust::no_account)
    }
}

/// What agents who hear only noise and one agent's steps send, round by round: x^t = W·x^{t−1} +
/// n^t. `enters` is what enters at an agent in a round.
fn sent(
    graph: &Graph,
    mixing: &Mixing,
    rounds: usize,
    count: usize,
    enters: impl Fn(usize, usize, &mut [f64]),
) -> Vec<Vec<Vec<f64>>> {
    let mut all: Vec<Vec<Vec<f64>>> = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let next = (0..graph.agents()).map(|i| {
            let mut x = vec![0.0; count];
            if let Some(last) = all.last() {
                kernel::axpy(mixing.own(i), &last[i], &mut x);
                for (&j, &w) in graph.neighbours(i).iter().zip(mixing.neighbours(i)) {
                    kernel::axpy(w, &last[j as usize], &mut x);
                }
            }
            enters(i, round, &mut x);
            x
        });
        all.push(next.collect());
    }
    all
}

fn attack(
    gossip: &Gossip<'_>,
    own: &NoiseDraws<'_>,
    shared: &Shared<'_>,
    delta: f64,
    trials: u32,
    seed: u64,
) -> Result<MapAttack, ConfigError> {
    let (graph, n, rounds) = (gossip.graph, gossip.graph.agents(), gossip.deviations.len());
    // Both sides are drawn at once, one after the other.
    let count = 2 * trials as usize;
    let places: Vec<(usize, usize)> =
        (0..rounds).flat_map(|k| (0..n).map(move |i| (k, i))).collect();
    let drawn: Vec<Vec<f64>> = places
        .par_iter()
        .map(|&(k, i)| own(i, k as u32 + 1, count))
        .collect::<Result<_, ConfigError>>()?;
    let edges: Vec<(u32, u32)> = if gossip.correlation > 0.0 {
        graph.iter_edges().map(|(a, b)| (a.min(b), a.max(b))).collect()
    } else {
        vec![]
    };
    let on_edges: Vec<Vec<Vec<f64>>> = edges
        .par_iter()
        .map(|&(a, b)| (1..=rounds as u32).map(|k| shared(a, b, k, count)).collect())
        .collect::<Result<_, ConfigError>>()?;
    let by_observer = |observer: usize| -> Vec<(u32, f64, f64, bool)> {
        // The observer knows its own noise and that of its edges, and subtracts what became of
        // them.
        let heard = sent(graph, gossip.mixing, rounds, count, |i, k, x| {
            if i != observer {
                kernel::axpy(1.0, &drawn[k * n + i], x);
            }
            for (&(a, b), v) in edges.iter().zip(&on_edges) {
                let hidden = a as usize != observer && b as usize != observer;
                if hidden && (a as usize == i || b as usize == i) {
                    kernel::axpy(if a as usize == i { 1.0 } else { -1.0 }, &v[k], x);
                }
            }
        });
        let mu = gossip.seen_by(&[observer as u32]);
        let (seen, tests) = gossip.best_tests(observer as u32);
        let one = |(agent, test): (usize, &Option<BestTest>)| {
            let (test, mu) = (test.as_ref()?, mu[agent]);
            let together = (AIM / mu).clamp(1.0, 1e9).round();
            let moved = sent(graph, gossip.mixing, rounds, 1, |i, k, x| {
                if i == agent {
                    x[0] += together * test.moved[k];
                }
            });
            let weigh = |messages: &[Vec<Vec<f64>>], out: &mut [f64]| {
                let all = messages.iter().flat_map(|round| seen.iter().map(move |&u| &round[u]));
                all.zip(&test.weights).for_each(|(message, &w)| kernel::axpy(w, message, out));
            };
            let (mut statistic, mut apart) = (vec![0.0; count], [0.0]);
            weigh(&heard, &mut statistic);
            weigh(&moved, &mut apart);
            let draw = |side: Side, index: u32| match side {
                Side::First => statistic[index as usize],
                Side::Second => statistic[(trials + index) as usize] + apart[0],
            };
            let confidence = 1.0 - WRONG / (n * n) as f64;
            let options = Options { trials, confidence, seed };
            let found = audit(
                |t| draw(t.side, t.index),
                AuditedClaim::gaussian(together * mu, delta),
                options,
            )
            .ok()?;
            let lower = found.mu_lower / together;
            Some((agent as u32, lower, mu, found.mu_lower > together * mu))
        };
        tests.iter().enumerate().filter_map(one).collect()
    };
    let found: Vec<(u32, u32, f64, f64, bool)> = (0..n)
        .into_par_iter()
        .flat_map_iter(|o| {
            by_observer(o)
                .into_iter()
                .map(move |(a, lower, mu, above)| (a, o as u32, lower, mu, above))
        })
        .collect();
    let epsilon = |mu: f64| if mu > 0.0 { gdp::epsilon_of_mu(mu, delta) } else { 0.0 };
    let nearest = found.iter().max_by(|a, b| (a.2 / a.3).total_cmp(&(b.2 / b.3)));
    Ok(MapAttack {
        label: String::new(),
        rounds: rounds as u32,
        trials,
        confidence: 1.0 - WRONG,
        pairs: found.len(),
        above: found.iter().filter(|f| f.4).count(),
        mean_share: found.iter().map(|f| f.2 / f.3).sum::<f64>() / found.len().max(1) as f64,
        nearest: nearest.map(|&(agent, observer, lower, mu, _)| NearestPair {
            agent,
            observer,
            lower: epsilon(lower),
            epsilon: epsilon(mu),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Noise;

    /// A path of six agents and an edge across, whose noise is drawn `relative` to the first's;
    /// `counted` is what the map takes it for.
    fn attacked(relative: [f64; 6], counted: [f64; 6], correlation: f64, shared: f64) -> MapAttack {
        let edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (1, 4)];
        let graph = Graph::from_edges(6, &edges).unwrap();
        let mixing = Mixing::metropolis(&graph);
        let gossip = Gossip {
            graph: &graph,
            mixing: &mixing,
            deviations: vec![2.0, 1.5, 1.0],
            relative: counted.to_vec(),
            shifts: vec![vec![0.1, 0.2, 0.1]; 6],
            correlation,
        };
        let seed = Seed::from(3);
        let gaussian = |sigma: f64| RoundNoise::new(Noise::Gaussian { sigma }).unwrap();
        let own = |agent: usize, round: u32, count: usize| {
            let noise = gaussian(gossip.deviations[round as usize - 1] * relative[agent]);
            let mut q = vec![0; count];
            let mut stream = seed.stream(Purpose::Audit, agent as u64, u64::from(round));
            exact::release(
                &mut stream,
                &vec![0.0; count],
                &[],
                noise.noise(),
                noise.grid(),
                &mut q,
            )
            .unwrap();
            Ok(q.iter().map(|&q| noise.grid().value(q)).collect())
        };
        let edge = |low: u32, high: u32, round: u32, count: usize| {
            let pair = Pair::new(low, high, seed.clone());
            let noise = gossip.deviations.iter().map(|sigma| gaussian(sigma * shared)).collect();
            Pairs::new([pair], noise).known(round, count).map_err(ConfigError::of)
        };
        attack(&gossip, &own, &edge, 1e-6, 6000, 1).unwrap()
    }

    /// The lower bound of every pair stays below the map and comes near it, for noise of one's own,
    /// of different sizes, and shared with neighbours.
    #[test]
    fn no_pair_is_told_more_than_the_map_says_and_nearly_as_much() {
        let sizes = [1.0, 0.5, 2.0, 1.0, 0.7, 1.5];
        for (relative, correlation) in [([1.0; 6], 0.0), (sizes, 0.0), ([1.0; 6], 9.0)] {
            let found = attacked(relative, relative, correlation, correlation.sqrt());
            assert_eq!(found.above, 0, "{found:?}");
            assert!(found.pairs >= 24 && found.mean_share > 0.8, "{found:?}");
            let nearest = found.nearest.unwrap();
            assert!(
                nearest.lower <= nearest.epsilon && nearest.lower > 0.85 * nearest.epsilon,
                "{nearest:?}"
            );
        }
    }

    /// Maps that were wrong: agents with less noise counted as if all had the first one's, and
    /// secrets that are weaker than was said.
    #[test]
    fn a_map_that_hides_too_much_is_found_out() {
        let sizes = [1.0, 0.5, 2.0, 1.0, 0.7, 1.5];
        assert!(attacked(sizes, [1.0; 6], 0.0, 0.0).above > 0);
        assert!(attacked([1.0; 6], [1.0; 6], 9.0, 1.0).above > 0);
    }
}
