//! Coverage and width of intervals under noise, by simulated studies; one JSON line a cell.
//!
//! `cargo run --release -p consenso-engine --example bench_inference -- [--quick] [--studies=N] [--cell=NAME…]`
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use consenso_engine::problem::Loss;
use consenso_engine::problem::losses::Poisson;
use consenso_engine::random::{Purpose, Seed, Stream};
use consenso_engine::study::{Bounds, Rows, Study};
use nalgebra::{DMatrix, DVector};
use rand::RngExt;
use serde_json::json;

/// What is simulated.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Logistic,
    Linear,
    Poisson,
    Hazards,
}

/// The longest time that is seen in a study of hazards.
const LONGEST: f64 = 5.0;

#[derive(Clone, Copy)]
struct Cell {
    name: &'static str,
    kind: Kind,
    records: usize,
    columns: usize,
    sites: usize,
    /// Whether the first column has a heavy tail.
    heavy: bool,
    /// How much coefficients differ between sites.
    differ: f64,
}

const fn cell(
    name: &'static str,
    kind: Kind,
    records: usize,
    columns: usize,
    sites: usize,
) -> Cell {
    Cell { name, kind, records, columns, sites, heavy: false, differ: 0.0 }
}

const CELLS: [Cell; 7] = [
    cell("logistic", Kind::Logistic, 20_000, 8, 10),
    cell("linear", Kind::Linear, 20_000, 8, 10),
    cell("poisson", Kind::Poisson, 20_000, 8, 10),
    cell("hazards", Kind::Hazards, 20_000, 6, 10),
    cell("logistic-5000", Kind::Logistic, 5_000, 8, 5),
    Cell { heavy: true, ..cell("logistic-heavy", Kind::Logistic, 20_000, 8, 10) },
    Cell { differ: 0.3, ..cell("logistic-differ", Kind::Logistic, 20_000, 8, 10) },
];

fn uniform(rng: &mut Stream) -> f64 {
    rng.random::<f64>()
}

fn normal(rng: &mut Stream) -> f64 {
    let (u, v) = (1.0 - uniform(rng), uniform(rng));
    (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
}

fn poisson(rng: &mut Stream, mean: f64) -> f64 {
    let (mut p, mut y, mut u) = ((-mean).exp(), 0.0, uniform(rng));
    while u > p && y < 200.0 {
        u -= p;
        y += 1.0;
        p *= mean / y;
    }
    y
}

/// The records of one simulated study, site by site.
struct Drawn {
    rows: Vec<Vec<Vec<f64>>>,
    labels: Vec<Vec<f64>>,
    truth: Vec<f64>,
}

fn draw(cell: Cell, rng: &mut Stream) -> Drawn {
    let d = cell.columns;
    // The first coefficient is zero: what is found of it is an error of the first kind.
    let truth: Vec<f64> =
        (0..d)
            .map(|l| {
                if l == 0 && !cell.heavy {
                    0.0
                } else {
                    0.5 * normal(rng) / (d as f64 / 5.0).sqrt()
                }
            })
            .collect();
    // Unequal sites: shares of two exponential variables each.
    let shares: Vec<f64> =
        (0..cell.sites).map(|_| -(uniform(rng) * uniform(rng)).max(1e-9).ln()).collect();
    let all: f64 = shares.iter().sum();
    let mut drawn = Drawn { rows: Vec::new(), labels: Vec::new(), truth };
    let counts: Vec<usize> =
        shares.iter().map(|s| ((cell.records as f64 * s / all) as usize).max(20)).collect();
    let others = deviations(cell, &counts, rng);
    for (own, &records) in others.iter().zip(&counts) {
        let (mut rows, mut labels) = (Vec::new(), Vec::new());
        for _ in 0..records {
            let z = columns(cell, rng);
            let score = score(&z, &drawn.truth, own);
            labels.push(match cell.kind {
                Kind::Logistic => {
                    if uniform(rng) < 1.0 / (1.0 + (-score).exp()) {
                        1.0
                    } else {
                        -1.0
                    }
                }
                Kind::Linear => score + normal(rng),
                Kind::Poisson => poisson(rng, score.min(3.0).exp()),
                Kind::Hazards => {
                    // A Weibull baseline; no longer seen at the end, or before by chance.
                    let hazard = 0.085 * (score + 0.8).exp();
                    let event = (-(1.0 - uniform(rng)).ln() / hazard).powf(1.0 / 1.2);
                    let lost = LONGEST.min(-12.0 * (1.0 - uniform(rng)).ln());
                    if event <= lost { event.max(1e-9) } else { -lost.max(1e-9) }
                }
            });
            rows.push(z);
        }
        drawn.rows.push(rows);
        drawn.labels.push(labels);
    }
    if cell.differ > 0.0 {
        drawn.truth = of_the_mixture(cell, &drawn.truth, &others, &counts, rng);
    }
    drawn
}

/// The columns of one record.
fn columns(cell: Cell, rng: &mut Stream) -> Vec<f64> {
    let d = cell.columns;
    let mut z: Vec<f64> = (0..d).map(|_| normal(rng)).collect();
    for l in d / 2..d {
        z[l] = if z[l] + 0.5 * z[l - d / 2] > 0.6 { 1.0 } else { 0.0 };
    }
    if cell.heavy {
        z[0] = z[0].exp().min(60.0);
    }
    z
}

fn score(z: &[f64], truth: &[f64], own: &[f64]) -> f64 {
    z.iter().zip(truth).zip(own).map(|((z, b), u)| z * (b + u)).sum::<f64>() - 1.0
}

/// What is estimated where sites differ: the solution of the mixture of all sites, weighted by their
/// records, which is no mean of the sites' coefficients. Found by Newton's method on columns that
/// are drawn anew, with the chance of every label in its place.
fn of_the_mixture(
    cell: Cell,
    truth: &[f64],
    others: &[Vec<f64>],
    counts: &[usize],
    rng: &mut Stream,
) -> Vec<f64> {
    const EACH: usize = 4_000;
    let (d, all) = (cell.columns, counts.iter().sum::<usize>() as f64);
    let chance = |score: f64| 1.0 / (1.0 + (-score).exp());
    let mut rows: Vec<(f64, DVector<f64>, f64)> = Vec::new();
    for (own, &count) in others.iter().zip(counts) {
        for _ in 0..EACH {
            let z = columns(cell, rng);
            let p = chance(score(&z, truth, own));
            let row = DVector::from_iterator(d + 1, z.into_iter().chain([1.0]));
            rows.push((count as f64 / all / EACH as f64, row, p));
        }
    }
    let mut x = DVector::from_iterator(d + 1, truth.iter().copied().chain([-1.0]));
    for _ in 0..6 {
        let (mut gradient, mut hessian) = (DVector::zeros(d + 1), DMatrix::zeros(d + 1, d + 1));
        for (weight, row, p) in &rows {
            let at = chance(x.dot(row));
            gradient.axpy(weight * (at - p), row, 1.0);
            hessian.ger(weight * at * (1.0 - at), row, row, 1.0);
        }
        x -= hessian.cholesky().expect("columns are not collinear").solve(&gradient);
    }
    x.iter().take(d).copied().collect()
}

/// What the coefficients of every site differ by. Weighted by records they add up to zero.
fn deviations(cell: Cell, counts: &[usize], rng: &mut Stream) -> Vec<Vec<f64>> {
    let spread = cell.differ / (counts.len() as f64).sqrt();
    let mut all: Vec<Vec<f64>> =
        counts.iter().map(|_| (0..cell.columns).map(|_| spread * normal(rng)).collect()).collect();
    let records = counts.iter().sum::<usize>() as f64;
    for l in 0..cell.columns {
        let sum: f64 = all.iter().zip(counts).map(|(own, &b)| b as f64 * own[l]).sum();
        all.iter_mut().for_each(|own| own[l] -= sum / records);
    }
    all
}

/// Estimates and standard errors of a study; `None` where one is refused.
fn fit(cell: Cell, drawn: &Drawn, budget: Option<f64>, seed: u64) -> Vec<Option<(f64, f64)>> {
    let numbers = (0..cell.columns).map(|l| {
        let (low, high) = if cell.heavy && l == 0 {
            (0.0, 60.0)
        } else if l < cell.columns / 2 {
            (-6.0, 6.0)
        } else {
            (0.0, 1.0)
        };
        (format!("x{}", l + 1), low, high)
    });
    let bounds = match cell.kind {
        Kind::Linear => Bounds::named(numbers).labels(-12.0, 12.0),
        Kind::Poisson => Bounds::named(numbers).labels(0.0, 60.0),
        Kind::Hazards => Bounds::named(numbers).labels(-LONGEST, LONGEST),
        Kind::Logistic => Bounds::named(numbers),
    };
    let sites: Vec<Rows> = drawn
        .rows
        .iter()
        .zip(&drawn.labels)
        .map(|(rows, labels)| Rows::clip(rows, labels, &bounds).expect("sound rows"))
        .collect();
    let loss = match cell.kind {
        Kind::Logistic => Loss::Logistic,
        Kind::Linear => Loss::Ridge { clip: f64::INFINITY },
        Kind::Poisson => Loss::Poisson(Poisson { clip: 60.0, most: 60.0 }),
        Kind::Hazards => Loss::Hazards { intervals: 6 },
    };
    let mut study = Study::new(&sites, loss).seed(seed).inference(0.95).without_references();
    if let Some(epsilon) = budget {
        study = study.budget(epsilon, 1e-6);
    }
    if budget.is_none() || cell.differ > 0.0 {
        study = study.weights(consenso_engine::problem::SiteWeights::Rule(
            consenso_engine::problem::WeightRule::Records,
        ));
    }
    let fitted = study.run().expect("a sound study");
    let inference = fitted.model_file().and_then(|m| m.inference.clone()).expect("estimates");
    (1..=cell.columns)
        .map(|l| {
            let found = inference.of_feature(&format!("x{l}"))?;
            found.estimate.zip(found.std_error)
        })
        .collect()
}

/// What happened over the studies of a cell.
#[derive(Default)]
struct Tally {
    covered: u32,
    all: u32,
    /// Intervals of coefficients that are zero which leave zero out.
    alarms: u32,
    zeros: u32,
    refused: u32,
    /// Standard errors beside those without privacy.
    widths: Vec<f64>,
}

impl Tally {
    fn add(
        &mut self,
        truth: &[f64],
        found: &[Option<(f64, f64)>],
        plain: Option<&[Option<(f64, f64)>]>,
    ) {
        for (l, (&truth, found)) in truth.iter().zip(found).enumerate() {
            let Some((at, error)) = found else {
                self.refused += 1;
                continue;
            };
            let off = (at - truth).abs() > 1.959_964 * error;
            self.covered += u32::from(!off);
            self.all += 1;
            self.alarms += u32::from(off && truth == 0.0);
            self.zeros += u32::from(truth == 0.0);
            self.widths.extend(plain.and_then(|p| p[l]).map(|(_, alone)| error / alone));
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|a| a == "--quick");
    let given = arguments.iter().find_map(|a| a.strip_prefix("--studies=")?.parse().ok());
    let studies: u64 = given.unwrap_or(if quick { 20 } else { 200 });
    let named: Vec<&str> = arguments.iter().filter_map(|a| a.strip_prefix("--cell=")).collect();
    for cell in CELLS.iter().filter(|c| named.is_empty() || named.contains(&c.name)) {
        let mut tallies = [(); 3].map(|()| Tally::default());
        for study in 0..studies {
            let drawn =
                draw(*cell, &mut Seed::from(1_000_000 + study).stream(Purpose::Audit, 0, 0));
            // Runs without noise take longest, and their widths vary little.
            let plain = (study < 10).then(|| fit(*cell, &drawn, None, study));
            if let Some(plain) = &plain {
                tallies[2].add(&drawn.truth, plain, Some(&plain[..]));
            }
            for (tally, epsilon) in tallies.iter_mut().zip([1.0, 3.0]) {
                let found = fit(*cell, &drawn, Some(epsilon), study);
                tally.add(&drawn.truth, &found, plain.as_deref());
            }
        }
        for (tally, epsilon) in tallies.iter().zip([Some(1.0), Some(3.0), None]) {
            let share = |part: u32, all: u32| f64::from(part) / f64::from(all.max(1));
            println!(
                "{}",
                json!({
                    "cell": cell.name, "epsilon": epsilon, "coefficients": tally.all,
                    "coverage": share(tally.covered, tally.all), "false_alarms": share(tally.alarms, tally.zeros),
                    "refused": share(tally.refused, tally.refused + tally.all), "width": median(tally.widths.clone()),
                })
            );
        }
    }
}
