//! Coverage and width of intervals under noise, by simulated studies; one JSON line a cell.
//!
//! `cargo run --release -p consenso-engine --example bench_inference -- [--quick] [--studies=N] [--from=SEED] [--cell=NAME…]`
//!
//! Besides coefficients: `--cell=labels-…` counts how often 90 % intervals of labels that no study has
//! seen cover, and `--cell=calibration-…` how often predictions are found wrong (p < .05) of a model
//! that has the law of the records, its estimates being what they are under noise.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use consenso_engine::data::csv;
use consenso_engine::model::Model;
use consenso_engine::problem::Loss;
use consenso_engine::problem::losses::{Gamma, NegativeBinomial, Poisson, StratifiedHazards};
use consenso_engine::random::{Purpose, Seed, Stream};
use consenso_engine::study::{Bounds, Rows, Study};
use nalgebra::{DMatrix, DVector};
use rand::RngExt;
use serde_json::json;
use std::ops::Range;

/// What is simulated.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Logistic,
    Linear,
    Poisson,
    NegativeBinomial,
    Gamma,
    Hazards,
    /// Hazards whose baseline is another at every site.
    Stratified,
}

/// The dispersion of counts and amounts that are drawn: α of a negative binomial, the square of a
/// gamma law's coefficient of variation.
const DISPERSION: f64 = 0.5;

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

impl Cell {
    /// Whether studies have one intercept, which is [`INTERCEPT`].
    fn has_intercept(&self) -> bool {
        self.differ == 0.0 && !matches!(self.kind, Kind::Hazards | Kind::Stratified)
    }
}

/// The score of a record of zeros.
const INTERCEPT: f64 = -1.0;

const fn cell(
    name: &'static str,
    kind: Kind,
    records: usize,
    columns: usize,
    sites: usize,
) -> Cell {
    Cell { name, kind, records, columns, sites, heavy: false, differ: 0.0 }
}

const CELLS: [Cell; 10] = [
    cell("logistic", Kind::Logistic, 20_000, 8, 10),
    cell("linear", Kind::Linear, 20_000, 8, 10),
    cell("poisson", Kind::Poisson, 20_000, 8, 10),
    cell("negative-binomial", Kind::NegativeBinomial, 20_000, 8, 10),
    cell("gamma", Kind::Gamma, 20_000, 8, 10),
    cell("hazards", Kind::Hazards, 20_000, 6, 10),
    cell("hazards-stratified", Kind::Stratified, 20_000, 6, 10),
    cell("logistic-5000", Kind::Logistic, 5_000, 8, 5),
    Cell { heavy: true, ..cell("logistic-heavy", Kind::Logistic, 20_000, 8, 10) },
    Cell { differ: 0.3, ..cell("logistic-differ", Kind::Logistic, 20_000, 8, 10) },
];

/// Studies whose predictions are judged on labels that they have not seen.
const LABELS: [Cell; 4] = [
    cell("labels-poisson", Kind::Poisson, 20_000, 8, 10),
    cell("labels-negative-binomial", Kind::NegativeBinomial, 20_000, 8, 10),
    cell("labels-gamma", Kind::Gamma, 20_000, 8, 10),
    cell("labels-linear", Kind::Linear, 20_000, 8, 10),
];

/// Studies whose predictions are compared with their outcomes.
const CALIBRATION: [Cell; 3] = [
    cell("calibration-logistic", Kind::Logistic, 20_000, 8, 10),
    cell("calibration-linear", Kind::Linear, 20_000, 8, 10),
    cell("calibration-poisson", Kind::Poisson, 20_000, 8, 10),
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

/// A gamma law of mean one and variance `DISPERSION` (a sum of two exponential ones).
fn amount(rng: &mut Stream) -> f64 {
    -((1.0 - uniform(rng)) * (1.0 - uniform(rng))).ln() * DISPERSION
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
    for (site, (own, &records)) in others.iter().zip(&counts).enumerate() {
        let (mut rows, mut labels) = (Vec::new(), Vec::new());
        for _ in 0..records {
            let z = columns(cell, rng);
            labels.push(label(cell, site, score(&z, &drawn.truth, own), rng));
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

/// The label of a record at a site.
fn label(cell: Cell, site: usize, score: f64, rng: &mut Stream) -> f64 {
    let mean = score.min(3.0).exp();
    match cell.kind {
        Kind::Logistic if uniform(rng) < 1.0 / (1.0 + (-score).exp()) => 1.0,
        Kind::Logistic => -1.0,
        Kind::Linear => score + normal(rng),
        Kind::Poisson => poisson(rng, mean),
        Kind::NegativeBinomial => {
            let grown = mean * amount(rng);
            poisson(rng, grown)
        }
        Kind::Gamma => (mean * amount(rng)).max(1e-6),
        Kind::Hazards | Kind::Stratified => {
            // A Weibull baseline; no longer seen at the end, or before by chance. Where sites have
            // their own, risks differ fivefold, and shapes from falling to rising.
            let (level, shape) = match cell.kind {
                Kind::Stratified => (0.04 * 5f64.powf(site as f64 / 9.0), 0.7 + 0.12 * site as f64),
                _ => (0.085, 1.2),
            };
            let hazard = level * (score + 0.8).exp();
            let event = (-(1.0 - uniform(rng)).ln() / hazard).powf(1.0 / shape);
            let lost = LONGEST.min(-12.0 * (1.0 - uniform(rng)).ln());
            if event <= lost { event.max(1e-9) } else { -lost.max(1e-9) }
        }
    }
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
    z.iter().zip(truth).zip(own).map(|((z, b), u)| z * (b + u)).sum::<f64>() + INTERCEPT
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
    let mut x = DVector::from_iterator(d + 1, truth.iter().copied().chain([INTERCEPT]));
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

/// Estimates and standard errors of a study, the intercept last where there is one; `None` where
/// one is refused.
fn fit(cell: Cell, drawn: &Drawn, budget: Option<f64>, seed: u64) -> Vec<Option<(f64, f64)>> {
    let inference = model(cell, drawn, budget, seed, false).inference.expect("estimates");
    let slopes = (1..=cell.columns).map(|l| format!("x{l}"));
    slopes
        .chain(cell.has_intercept().then(|| "bias".to_owned()))
        .map(|name| {
            let found = inference.of_feature(&name)?;
            found.estimate.zip(found.std_error)
        })
        .collect()
}

/// The model of a study.
fn model(cell: Cell, drawn: &Drawn, budget: Option<f64>, seed: u64, calibration: bool) -> Model {
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
        Kind::Poisson | Kind::NegativeBinomial => Bounds::named(numbers).labels(0.0, 60.0),
        Kind::Gamma => Bounds::named(numbers).labels(1e-6, 60.0),
        Kind::Hazards | Kind::Stratified => Bounds::named(numbers).labels(-LONGEST, LONGEST),
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
        Kind::NegativeBinomial => {
            Loss::NegativeBinomial(NegativeBinomial { clip: 60.0, dispersion: None, most: 60.0 })
        }
        Kind::Gamma => Loss::Gamma(Gamma { clip: 20.0, dispersion: 1.0 }),
        Kind::Hazards => Loss::Hazards { intervals: 6 },
        Kind::Stratified => Loss::StratifiedHazards(StratifiedHazards {}),
    };
    let mut study = Study::new(&sites, loss).seed(seed).inference(0.95).without_references();
    if calibration {
        study = study.calibration();
    }
    if let Some(epsilon) = budget {
        study = study.budget(epsilon, 1e-6);
    }
    if budget.is_none() || cell.differ > 0.0 {
        study = study.weights(consenso_engine::problem::SiteWeights::Rule(
            consenso_engine::problem::WeightRule::Records,
        ));
    }
    let fitted = study.run().expect("a sound study");
    fitted.model_file().expect("a model").clone()
}

/// How many of 500 labels that a study has not seen lie within their 90 % intervals, and how many
/// were asked about; nothing where the study says that it does not know.
fn labels_within(cell: Cell, drawn: &Drawn, model: &Model, rng: &mut Stream) -> (u32, u32) {
    const FRESH: usize = 500;
    let (schema, encoder) = (model.schema.as_ref().unwrap(), model.encoder.as_ref().unwrap());
    let names: Vec<&str> = schema.columns().iter().map(|c| c.name.as_str()).collect();
    let mut text = names.join(",") + "\n";
    for _ in 0..FRESH {
        let z = columns(cell, rng);
        let y = label(cell, 0, score(&z, &drawn.truth, &vec![0.0; cell.columns]), rng);
        let numbers: Vec<String> = z.iter().chain([&y]).map(f64::to_string).collect();
        text += &(numbers.join(",") + "\n");
    }
    let table = csv::read(text.as_bytes(), "fresh", schema).expect("sound rows");
    let records = encoder.encode_table(&table);
    let Ok(found) = model.intervals(&records, 0.9) else { return (0, 0) };
    let within = found.iter().zip(records.labels()).filter(|((a, b), y)| a <= y && *y <= b);
    (within.count() as u32, FRESH as u32)
}

/// Prints how often labels of studies lie within their intervals.
fn judge_labels(cell: Cell, studies: Range<u64>) {
    for epsilon in [1.0, 3.0] {
        let (mut within, mut all) = (0, 0);
        for study in studies.clone() {
            let mut rng = Seed::from(study).stream(Purpose::Audit, 0, 0);
            let drawn = draw(cell, &mut rng);
            let model = model(cell, &drawn, Some(epsilon), study, false);
            let (inside, asked) = labels_within(cell, &drawn, &model, &mut rng);
            (within, all) = (within + inside, all + asked);
        }
        let share = f64::from(within) / f64::from(all.max(1));
        println!(
            "{}",
            json!({ "cell": cell.name, "epsilon": epsilon, "labels": all, "coverage": share })
        );
    }
}

/// Prints how often predictions of studies are found wrong.
fn judge_calibration(cell: Cell, studies: Range<u64>) {
    for epsilon in [1.0, 3.0] {
        let (mut alarms, mut all) = (0, 0);
        for study in studies.clone() {
            let drawn = draw(cell, &mut Seed::from(study).stream(Purpose::Audit, 0, 0));
            let model = model(cell, &drawn, Some(epsilon), study, true);
            let p = model.inference.and_then(|i| i.calibration).and_then(|c| c.p);
            all += u32::from(p.is_some());
            alarms += u32::from(p.is_some_and(|p| p < 0.05));
        }
        let share = f64::from(alarms) / f64::from(all.max(1));
        println!(
            "{}",
            json!({ "cell": cell.name, "epsilon": epsilon, "tests": all, "below 0.05": share })
        );
    }
}

/// Deviations of a normal law on either side that hold 95 % of it.
const REACH: f64 = 1.959_964;

/// What happened over the studies of a cell.
#[derive(Default)]
struct Tally {
    covered: u32,
    all: u32,
    /// Intervals of coefficients that are zero which leave zero out.
    alarms: u32,
    zeros: u32,
    refused: u32,
    /// Intervals of intercepts, and those that cover.
    intercepts: [u32; 2],
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
        if let Some(Some((at, error))) = found.get(truth.len()) {
            let off = (at - INTERCEPT).abs() > REACH * error;
            self.intercepts = [self.intercepts[0] + 1, self.intercepts[1] + u32::from(!off)];
        }
        for (l, (&truth, found)) in truth.iter().zip(found).enumerate() {
            let Some((at, error)) = found else {
                self.refused += 1;
                continue;
            };
            let off = (at - truth).abs() > REACH * error;
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
    let count: u64 = given.unwrap_or(if quick { 20 } else { 200 });
    let first: u64 =
        arguments.iter().find_map(|a| a.strip_prefix("--from=")?.parse().ok()).unwrap_or(1_000_000);
    let studies = first..first + count;
    let named: Vec<&str> = arguments.iter().filter_map(|a| a.strip_prefix("--cell=")).collect();
    let wanted = |cell: &&Cell| named.is_empty() || named.contains(&cell.name);
    LABELS.iter().filter(wanted).for_each(|cell| judge_labels(*cell, studies.clone()));
    CALIBRATION.iter().filter(wanted).for_each(|cell| judge_calibration(*cell, studies.clone()));
    for cell in CELLS.iter().filter(wanted) {
        let mut tallies = [(); 3].map(|()| Tally::default());
        for (number, study) in studies.clone().enumerate() {
            let drawn = draw(*cell, &mut Seed::from(study).stream(Purpose::Audit, 0, 0));
            // Runs without noise take longest, and their widths vary little.
            let plain = (number < 10).then(|| fit(*cell, &drawn, None, study));
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
                    "intercept": share(tally.intercepts[1], tally.intercepts[0]),
                })
            );
        }
    }
}
