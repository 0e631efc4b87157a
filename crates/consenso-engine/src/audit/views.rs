//! What single agents can learn in gossip: linear views, the pairwise map, and the attack on a run
//! without noise.
//!
//! With fixed weights x^t = W·x^{t−1} + s^t + n^t, every message is a linear function of all
//! private steps s and all noises n so far: x_u^t = Σ_{τ≤t} Σ_v (W^{t−τ})_uv·(s_v^τ + n_v^τ). An
//! observer sees the messages of its neighbours only, and knows its own steps and noise. What it
//! can tell about agent i is a Gaussian mechanism: with B the coefficients of what it does not
//! know, G = B·Cov(n)·Bᵀ, and t_τ the shift of agent i's step in round τ, μ² = Σ_{ττ'} P_ττ'·⟨t_τ,
//! t_τ'⟩, P = B_iᵀG⁻¹B_i, which is at most Σ |P_ττ'|·Δ_τ·Δ_τ' (Cyffers et al. 2022 for one gossip
//! of noised values).
//!
//! **This is a non-adaptive view.** It takes the steps of all agents as fixed numbers. In a run, a
//! record of agent i moves the steps of others in later rounds too, through what they received; no
//! proof here covers that, so the map is a picture and no claim. The claim of a run is the adaptive
//! bound of [`correlated`](crate::privacy::correlated) or of the local model, which is never below the map.

use crate::graph::{Graph, Mixing};
use nalgebra::{Cholesky, DMatrix};
use serde::{Deserialize, Serialize};

/// Gossip with fixed weights and Gaussian noise in every round.
#[derive(Debug)]
pub struct Gossip<'a> {
    /// Who talks to whom.
    pub graph: &'a Graph,
    /// W.
    pub mixing: &'a Mixing,
    /// σ that noise is measured by, by round.
    pub deviations: Vec<f64>,
    /// How many times larger every agent's own noise is, the same in all rounds.
    pub relative: Vec<f64>,
    /// How far a record moves the step, in the l2 norm, by round: for every agent.
    pub shifts: Vec<Vec<f64>>,
    /// (σ_cor/σ)²; 0 for noise that is each agent's own.
    pub correlation: f64,
}

/// W as a dense matrix.
fn dense(graph: &Graph, mixing: &Mixing) -> DMatrix<f64> {
    let n = graph.agents();
    let mut w = DMatrix::zeros(n, n);
    for i in 0..n {
        w[(i, i)] = mixing.own(i);
        for (&j, &weight) in graph.neighbours(i).iter().zip(mixing.neighbours(i)) {
            w[(i, j as usize)] = weight;
        }
    }
    w
}

/// What observers see of all others: x_u^t as linear functions of the steps and noises they do not
/// know.
struct LinearView {
    /// Whose messages they receive.
    seen: Vec<usize>,
    /// By how many rounds ago: what a number that entered then counts in the messages of those
    /// seen.
    rows: Vec<DMatrix<f64>>,
    /// The covariance of all noise in what they see.
    factor: Cholesky<f64, nalgebra::Dyn>,
}

impl LinearView {
    /// B_i: a row for every message that was seen, round by round; a column for every round's step
    /// of agent `i`.
    fn of(&self, i: usize) -> DMatrix<f64> {
        let (k, rounds) = (self.seen.len(), self.rows.len());
        DMatrix::from_fn(k * rounds, rounds, |row, tau| {
            let (t, a) = (row / k, row % k);
            if t >= tau { self.rows[t - tau][(a, i)] } else { 0.0 }
        })
    }
}

/// How an observer best tells whether the steps of one agent were moved.
#[derive(Clone, Debug)]
pub struct BestTest {
    /// What is added to the agent's step in every round: as far as a record moves it, with the
    /// signs that are seen best.
    pub moved: Vec<f64>,
    /// What every message counts, round by round and by whom it is from: the likelihood ratio, but
    /// for a constant.
    pub weights: Vec<f64>,
}

impl Gossip<'_> {
    /// What `observers` see; `None` where they see nothing, an error where rounding makes their
    /// covariance none.
    fn sight(&self, observers: &[u32]) -> Result<Option<LinearView>, ()> {
        let Self { graph, deviations, correlation, .. } = self;
        let (n, rounds) = (graph.agents(), deviations.len());
        let is_observer = |i: usize| observers.contains(&(i as u32));
        let seen: Vec<usize> = {
            let mut all: Vec<usize> = observers
                .iter()
                .flat_map(|&o| graph.neighbours(o as usize))
                .map(|&u| u as usize)
                .collect();
            all.sort_unstable();
            all.dedup();
            all.retain(|&u| !is_observer(u));
            all
        };
        let k = seen.len();
        if k == 0 || rounds == 0 {
            return Ok(None);
        }
        // R_a: rows of W^a of those seen, without what observers know of their own.
        let w = dense(graph, self.mixing);
        let mut power = DMatrix::from_fn(k, n, |a, v| f64::from(u8::from(seen[a] == v)));
        let mut rows: Vec<DMatrix<f64>> = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            rows.push(DMatrix::from_fn(
                k,
                n,
                |a, v| if is_observer(v) { 0.0 } else { power[(a, v)] },
            ));
            power = &power * &w;
        }
        let mut covariance = DMatrix::<f64>::zeros(n, n);
        for (i, relative) in self.relative.iter().enumerate() {
            covariance[(i, i)] = relative * relative;
        }
        for (a, b) in graph
            .iter_edges()
            .filter(|&(a, b)| !is_observer(a as usize) && !is_observer(b as usize))
        {
            for (x, y, s) in [(a, a, 1.0), (b, b, 1.0), (a, b, -1.0), (b, a, -1.0)] {
                covariance[(x as usize, y as usize)] += s * correlation;
            }
        }
        let spread: Vec<DMatrix<f64>> = rows.iter().map(|r| r * &covariance).collect();
        let size = k * rounds;
        let mut gram = DMatrix::<f64>::zeros(size, size);
        for (a, left) in spread.iter().enumerate() {
            for (b, right) in rows.iter().enumerate() {
                let block = left * right.transpose();
                for (tau, sigma) in deviations.iter().enumerate() {
                    let (t, s) = (a + tau, b + tau);
                    if t < rounds && s < rounds {
                        let mut place = gram.view_mut((t * k, s * k), (k, k));
                        place += &block * (sigma * sigma);
                    }
                }
            }
        }
        // Every message has fresh noise of its sender in it, so the matrix is positive definite.
        Cholesky::new(gram).map(|factor| Some(LinearView { seen, rows, factor })).ok_or(())
    }

    /// μ of what `observers` together can tell about a record of each agent; 0 for themselves.
    /// Non-adaptive, see the module.
    #[must_use]
    pub fn seen_by(&self, observers: &[u32]) -> Vec<f64> {
        let Self { graph, deviations, shifts, correlation, relative, .. } = self;
        let (n, rounds) = (graph.agents(), deviations.len());
        let mut mu = vec![0.0; n];
        let sight = match self.sight(observers) {
            Ok(Some(sight)) => sight,
            Ok(None) => return mu,
            // Should rounding say that there is no noise, nothing is hidden.
            Err(()) => return vec![f64::INFINITY; n],
        };
        for i in (0..n).filter(|&i| !observers.contains(&(i as u32))) {
            let Some(z) = sight.factor.l_dirty().solve_lower_triangular(&sight.of(i)) else {
                mu[i] = f64::INFINITY;
                continue;
            };
            let p = z.transpose() * &z;
            let delta = &shifts[i];
            let mut total = 0.0;
            for tau in 0..rounds {
                for other in 0..rounds {
                    total += p[(tau, other)].abs() * delta[tau] * delta[other];
                }
            }
            mu[i] = (total * (1.0 + 1e-9)).sqrt();
        }
        // Whoever saw all messages would see no less.
        let own: Vec<f64> = relative.iter().map(|r| r * r).collect();
        let hidden = crate::privacy::correlated::resistances(graph, observers, &own, *correlation);
        for (i, mu) in mu.iter_mut().enumerate() {
            let all: f64 =
                deviations.iter().zip(&shifts[i]).map(|(s, d)| (d / s).powi(2) * hidden[i]).sum();
            *mu = mu.min((all * (1.0 + 1e-9)).sqrt());
        }
        mu
    }

    /// The best test of `observer` for every agent, and whose messages it weighs; `None` for itself
    /// and for those it sees nothing of.
    pub fn best_tests(&self, observer: u32) -> (Vec<usize>, Vec<Option<BestTest>>) {
        let Ok(Some(sight)) = self.sight(&[observer]) else {
            return (Vec::new(), vec![None; self.graph.agents()]);
        };
        let test = |i: usize| {
            let b = sight.of(i);
            let p = b.transpose() * sight.factor.solve(&b);
            let mut moved = self.shifts[i].clone();
            // Signs one after the other, as long as that is seen better.
            let gain = |moved: &[f64], tau: usize| {
                (0..moved.len())
                    .filter(|&o| o != tau)
                    .map(|o| p[(tau, o)] * moved[tau] * moved[o])
                    .sum::<f64>()
            };
            while let Some(tau) =
                (0..moved.len()).find(|&tau| gain(&moved, tau) < -1e-12 * p[(tau, tau)])
            {
                moved[tau] = -moved[tau];
            }
            let weights = sight.factor.solve(&(&b * nalgebra::DVector::from_column_slice(&moved)));
            let some = i as u32 != observer && weights.iter().any(|w| *w != 0.0);
            some.then(|| BestTest { moved, weights: weights.iter().copied().collect() })
        };
        let tests = (0..self.graph.agents()).map(test).collect();
        (sight.seen, tests)
    }
}

/// How an observer puts together the values that others began to gossip with: one set of
/// coefficients over the messages it saw for every agent whose value they determine.
///
/// The messages are x_u^t for t = 0 … `rounds` and u the observer or a neighbour, round by round
/// and by agent number, where x^t = W^t·x^0.
#[derive(Debug)]
pub struct Reconstruction {
    /// Whose messages are seen.
    pub seen: Vec<u32>,
    /// Coefficients by agent; `None` where the messages do not determine its value.
    pub coefficients: Vec<Option<Vec<f64>>>,
}

/// Singular values of the knowledge matrix below this share of the largest are taken for nothing:
/// messages in doubles say no more.
const LEAST: f64 = 1e-11;

/// Which of the values that everybody started gossiping with `observer` can compute after `rounds`
/// rounds: the row space of its knowledge matrix (Mrini, Cyffers and Bellet 2024).
#[must_use]
pub fn reconstruction(
    graph: &Graph,
    mixing: &Mixing,
    observer: u32,
    rounds: u32,
) -> Reconstruction {
    let n = graph.agents();
    let mut seen: Vec<u32> = graph.neighbours(observer as usize).to_vec();
    seen.push(observer);
    seen.sort_unstable();
    let (w, k) = (dense(graph, mixing), seen.len());
    let mut knowledge = DMatrix::<f64>::zeros(k * (rounds as usize + 1), n);
    let mut power = DMatrix::from_fn(k, n, |a, v| f64::from(u8::from(seen[a] as usize == v)));
    for t in 0..=rounds as usize {
        knowledge.view_mut((t * k, 0), (k, n)).copy_from(&power);
        power = &power * &w;
    }
    let svd = knowledge.svd(true, true);
    let (Some(u), Some(vt)) = (&svd.u, &svd.v_t) else {
        return Reconstruction { seen, coefficients: vec![None; n] };
    };
    let largest = svd.singular_values.max();
    let kept: Vec<usize> = (0..svd.singular_values.len())
        .filter(|&s| svd.singular_values[s] > LEAST * largest)
        .collect();
    let coefficients = (0..n)
        .map(|v| {
            let inside: f64 = kept.iter().map(|&s| vt[(s, v)] * vt[(s, v)]).sum();
            let determined = (1.0 - inside).abs() < 1e-9;
            determined.then(|| {
                let mut c = vec![0.0; u.nrows()];
                for &s in &kept {
                    let factor = vt[(s, v)] / svd.singular_values[s];
                    for (c, u) in c.iter_mut().zip(u.column(s).iter()) {
                        *c += factor * u;
                    }
                }
                c
            })
        })
        .collect();
    Reconstruction { seen, coefficients }
}

/// ε of every agent against every single other one, over the first rounds of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairwiseMap {
    /// The algorithm's name.
    pub label: String,
    /// How the figures are to be read: they are no claim.
    pub view: String,
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
    /// Mean ε of all pairs after half of the rounds, to compare with [`Self::mean`]: longer gossip
    /// shows more.
    pub mean_after_half: f64,
    /// Mean ε of all pairs.
    pub mean: f64,
    /// What a coalition sees, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coalition: Option<CoalitionView>,
}

/// What several agents tell together about each other one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoalitionView {
    /// Who pools what they receive and know.
    pub observers: Vec<u32>,
    /// ε of a record of each agent against them; 0 for themselves.
    pub epsilon: Vec<f64>,
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

    /// A heat map as an SVG file: a row for every agent, a column for every observer; darker is
    /// more.
    #[must_use]
    pub fn svg(&self) -> String {
        let n = self.agents.max(1);
        let cell = (600 / n).clamp(4, 40);
        let (left, top) = (70, 60);
        let most =
            self.epsilon.iter().flatten().copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        // Wide enough for its title, however few the agents.
        let (width, height) = ((left + n * cell + 130).max(left + 440), top + n * cell + 30);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\" fill=\"currentColor\">\n\
             <rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
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
                    "none".to_owned()
                } else {
                    format!(
                        "#{:02x}{:02x}{:02x}",
                        shade(247.0, 8.0),
                        shade(251.0, 48.0),
                        shade(255.0, 107.0)
                    )
                };
                out.push_str(&format!(
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{cell}\" height=\"{cell}\" fill=\"{fill}\"><title>{i} seen by {j}: ε = {}</title></rect>\n",
                    crate::privacy::printed_up(e, 3)
                ));
            }
        }
        let x = left + n * cell + 15;
        out.push_str(&format!(
            "<rect x=\"{x}\" y=\"{top}\" width=\"16\" height=\"16\" fill=\"#08306b\"/><text x=\"{}\" y=\"{}\">ε = {}</text>\n\
             <rect x=\"{x}\" y=\"{}\" width=\"16\" height=\"16\" fill=\"#f7fbff\" stroke=\"#999\"/><text x=\"{}\" y=\"{}\">ε = 0</text>\n</svg>\n",
            x + 22,
            top + 13,
            crate::privacy::printed_up(most, 3),
            top + 24,
            x + 22,
            top + 37
        ));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(n: u32) -> (Graph, Mixing) {
        let graph =
            Graph::from_edges(n as usize, &(1..n).map(|i| (i - 1, i)).collect::<Vec<_>>()).unwrap();
        let mixing = Mixing::metropolis(&graph);
        (graph, mixing)
    }

    fn gossip<'a>(
        graph: &'a Graph,
        mixing: &'a Mixing,
        rounds: usize,
        correlation: f64,
    ) -> Gossip<'a> {
        let shifts = vec![vec![1.0; rounds]; graph.agents()];
        let relative = vec![1.0; graph.agents()];
        Gossip { graph, mixing, deviations: vec![2.0; rounds], relative, shifts, correlation }
    }

    #[test]
    fn one_round_shows_neighbours_as_the_local_model_does_and_nobody_else() {
        let (graph, mixing) = path(5);
        let mu = gossip(&graph, &mixing, 1, 0.0).seen_by(&[1]);
        for (mu, want) in mu.iter().zip([0.5, 0.0, 0.5, 0.0, 0.0]) {
            assert!((mu - want).abs() < 1e-6, "{mu} {want}");
        }
    }

    #[test]
    fn distance_hides_more_rounds_show_more_and_all_others_see_what_the_local_model_says() {
        let (graph, mixing) = path(6);
        let mu = gossip(&graph, &mixing, 8, 0.0).seen_by(&[0]);
        assert!(mu[1] > mu[2] && mu[2] > mu[3] && mu[3] > mu[4], "{mu:?}");
        assert!(mu[1] <= (8.0f64 / 4.0).sqrt() * (1.0 + 1e-6));
        let fewer = gossip(&graph, &mixing, 4, 0.0).seen_by(&[0]);
        assert!(fewer.iter().zip(&mu).skip(1).all(|(f, m)| f <= m), "{fewer:?} {mu:?}");
        let all = gossip(&graph, &mixing, 8, 0.0).seen_by(&[0, 1, 2, 4, 5]);
        assert!((all[3] - 2.0f64.sqrt()).abs() < 1e-6, "{all:?}");
    }

    #[test]
    fn correlated_noise_hides_from_a_single_observer_what_own_noise_does_not() {
        let (graph, mixing) = path(6);
        let alone = gossip(&graph, &mixing, 6, 0.0).seen_by(&[0]);
        let pairs = gossip(&graph, &mixing, 6, 25.0).seen_by(&[0]);
        // The same own noise and more beside it: never worse, and much better where a message is
        // seen directly.
        assert!((1..6).all(|i| pairs[i] <= alone[i] * (1.0 + 1e-6)), "{pairs:?} {alone:?}");
        assert!(pairs[1] < 0.8 * alone[1], "{pairs:?} {alone:?}");
        let bound = crate::privacy::correlated::worst(&graph, 1, 25.0).resistance;
        assert!(pairs.iter().all(|mu| mu * mu <= 6.0 / 4.0 * bound * (1.0 + 1e-6)));
    }

    #[test]
    fn the_end_of_a_path_computes_every_value_and_the_middle_of_a_symmetric_one_does_not() {
        let (graph, mixing) = path(5);
        let from_end = reconstruction(&graph, &mixing, 0, 8);
        assert!(from_end.coefficients.iter().all(Option::is_some));
        // From the middle the two ends always arrive together, but the neighbours' messages tell
        // the sides apart.
        let star = Graph::from_edges(4, &[(0, 1), (1, 2), (1, 3)]).unwrap();
        let from_leaf = reconstruction(&star, &Mixing::metropolis(&star), 0, 8);
        assert!(from_leaf.coefficients[1].is_some() && from_leaf.coefficients[2].is_none());
    }
}
