//! The pieces that the record of an experiment is put together from.
//!
//! Every piece is a function of the experiment and of its own place alone, so it does not matter
//! which thread, which process or which machine made it, nor when: put together in order they give
//! the same record, bit for bit.

use super::check::Experiment;
use super::planned::resolved_algorithm;
use crate::data::Records;
use crate::model::{CalibrationBin, Metrics, sha256};
use crate::record::{CertifiedCurve, Reference, Spread, TraceRow, TrafficRecord};
use serde::{Deserialize, Serialize};

/// One finished piece of an experiment: of a run at a point of the sweep its references, or what
/// one algorithm did.
///
/// It can be written down (with any format of serde's that keeps every bit of a number) and read
/// again: see [`Job::done`]. It holds exact functions of the records, so it is as private as they
/// are.
///
/// [`Job::done`]: super::Job::done
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Piece {
    pub(super) place: Place,
    /// What the piece is of: the same experiment gives the same text.
    pub(super) stamp: String,
    /// How long it took.
    pub(super) seconds: f64,
    pub(super) content: Content,
}

impl Piece {
    /// Whether the piece is a transcript: one run of one algorithm, which is what a budget is
    /// charged for.
    #[must_use]
    pub fn is_transcript(&self) -> bool {
        matches!(self.content, Content::Outcome(_))
    }

    /// Where in the experiment it belongs.
    #[must_use]
    pub fn place(&self) -> Place {
        self.place
    }

    /// What it was made from, as [`Experiment::stamp`] says it.
    #[must_use]
    pub fn stamp(&self) -> &str {
        &self.stamp
    }
}

/// Where a piece belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Which point of the sweep; 0 is the file's own settings.
    pub point: u32,
    /// Which repetition.
    pub run: u32,
    /// Which part of it.
    pub part: Part,
}

/// Which part of one repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Part {
    /// What can be had without an algorithm: the optimum, and what agents reach alone.
    RunReferences,
    /// One algorithm, by its place in the file.
    Algorithm(u32),
    /// The tuned model without privacy, of the first run.
    Reference,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Content {
    RunReferences(RunReferences),
    Outcome(Outcome),
    Reference(Option<Tuned>),
}

/// The references of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RunReferences {
    pub(super) majority: Option<f64>,
    pub(super) zero_accuracy: Option<f64>,
    pub(super) zero_log_error: f64,
    pub(super) zero_objective: f64,
    pub(super) central_accuracy: Option<f64>,
    /// The AUC of the optimum, or its R² where a number is predicted.
    #[serde(rename = "central_auc")]
    pub(super) central_ranked: Option<f64>,
    pub(super) central_objective: f64,
    pub(super) local_only_accuracy: Option<f64>,
    /// What theorems certify, algorithm by algorithm.
    pub(super) certified: Vec<Option<CertifiedCurve>>,
}

impl RunReferences {
    /// Nothing to compare with, for so many algorithms.
    pub(super) fn none(algorithms: usize) -> Self {
        Self {
            majority: None,
            zero_accuracy: None,
            zero_log_error: f64::NAN,
            zero_objective: f64::NAN,
            central_accuracy: None,
            central_ranked: None,
            central_objective: f64::NAN,
            local_only_accuracy: None,
            certified: vec![None; algorithms],
        }
    }
}

/// What one repetition of one algorithm gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Of every agent, in the first run; empty in the others.
    pub(super) models: Vec<Vec<f64>>,
    pub(super) trace: Vec<TraceRow>,
    pub(super) accuracy: Option<Spread>,
    pub(super) auc: Option<f64>,
    /// Of the mean model.
    pub(super) metrics: Option<StoredMetrics>,
    pub(super) objective: f64,
    pub(super) optimum_gap: f64,
    pub(super) log_error: f64,
    pub(super) stopped: usize,
    pub(super) diverged: bool,
    pub(super) violation: Option<f64>,
    /// Sites that held records out, and the figures of the shared and of their personal models on
    /// those.
    pub(super) personal: Option<Box<(usize, StoredMetrics, StoredMetrics)>>,
    /// What was sent, where that is counted.
    pub(super) sent: Option<TrafficRecord>,
}

/// A [`Reference`] without what is the same for all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Tuned {
    pub(super) regularization: f64,
    pub(super) metrics: StoredMetrics,
}

impl Tuned {
    pub(super) fn of(reference: &Reference) -> Self {
        Self {
            regularization: reference.regularization,
            metrics: StoredMetrics(reference.metrics.clone()),
        }
    }
}

/// Metrics as formats without field names can hold them: a record leaves out what is absent, here
/// everything has its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredMetrics(#[serde(with = "MetricFields")] pub(super) Metrics);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Metrics")]
struct MetricFields {
    rows: usize,
    accuracy: Option<f64>,
    balanced_accuracy: Option<f64>,
    site_accuracy: Option<f64>,
    auc: Option<f64>,
    average_precision: Option<f64>,
    f1: Option<f64>,
    precision: Option<f64>,
    recall: Option<f64>,
    log_loss: Option<f64>,
    threshold: Option<f64>,
    confusion: Vec<Vec<f64>>,
    calibration: Vec<CalibrationBin>,
    r2: Option<f64>,
    rmse: Option<f64>,
    mae: Option<f64>,
    // Pieces of earlier versions have no place for them; whoever goes on does without.
    #[serde(skip)]
    deviance: Option<f64>,
    #[serde(skip)]
    c_index: Option<f64>,
    #[serde(skip)]
    d2: Option<f64>,
}

/// Which of n equal shares of an experiment to do: every n-th repetition of the sweep's points,
/// counted through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    index: u32,
    of: u32,
}

impl Share {
    /// The share with number `index`, from 1, of `of`; `None` unless 1 ≤ `index` ≤ `of`.
    #[must_use]
    pub fn new(index: u32, of: u32) -> Option<Self> {
        (1..=of).contains(&index).then_some(Self { index, of })
    }

    /// Its number, from 1.
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }

    /// How many shares there are.
    #[must_use]
    pub fn of(self) -> u32 {
        self.of
    }

    fn holds(self, unit: u64) -> bool {
        unit % u64::from(self.of) == u64::from(self.index - 1)
    }
}

impl Experiment {
    /// The settings at a point of the sweep; 0 is the file's own.
    pub(super) fn at_point(&self, point: u32) -> Option<&Self> {
        match point {
            0 => Some(self),
            later => self.points.get(later as usize - 1),
        }
    }

    /// Every run of every point, in order, or those of one share.
    pub(super) fn units(&self, share: Option<Share>) -> Vec<(u32, u32)> {
        let points = (0..=self.points.len() as u32)
            .filter_map(|p| Some((p, self.at_point(p)?.spec.runs)))
            .flat_map(|(point, runs)| (0..runs).map(move |run| (point, run)));
        let chosen = points.zip(0u64..).filter(|(_, unit)| share.is_none_or(|s| s.holds(*unit)));
        chosen.map(|(place, _)| place).collect()
    }

    /// The pieces that an experiment, or one share of it, consists of.
    #[must_use]
    pub fn places(&self, share: Option<Share>) -> Vec<Place> {
        let mut places = Vec::new();
        for (point, run) in self.units(share) {
            let Some(here) = self.at_point(point) else { continue };
            let parts = (0..here.planned.len() as u32).map(Part::Algorithm);
            places.extend(std::iter::once(Part::RunReferences).chain(parts).map(|part| Place {
                point,
                run,
                part,
            }));
            if (point, run) == (0, 0) && self.has_reference() {
                places.push(Place { point, run, part: Part::Reference });
            }
        }
        places
    }

    pub(super) fn has_reference(&self) -> bool {
        self.coupled.is_none() && !self.alone && self.with_references
    }

    /// What a piece is a function of, beside entropy: whoever made a piece with the same stamp made
    /// the same one. `None` for a place that the experiment does not have.
    ///
    /// How many runs there are does not enter, unless it changes the parameters of an algorithm:
    /// they are chosen for the worst of all graphs.
    #[must_use]
    pub fn stamp(&self, records: &RecordsDigest, place: Place) -> Option<String> {
        let here = self.at_point(place.point)?;
        let mut spec = here.spec.clone();
        (spec.runs, spec.sweep, spec.name) = (0, None, String::new());
        spec.algorithm.clear();
        let mut text = format!(
            "{} {} {} {:?} every {}\n{}",
            env!("CARGO_PKG_VERSION"),
            if self.is_seeded() { "seed" } else { "entropy" },
            records.0,
            here.objective,
            here.trace_every,
            serde_json::to_string(&spec).ok()?,
        );
        let graph = here.graphs.get(place.run as usize)?;
        for agent in 0..graph.agents() {
            text += &format!("{:?};", graph.neighbours(agent));
        }
        let algorithms = match place.part {
            Part::Reference => 0..0,
            Part::RunReferences => 0..here.planned.len(),
            Part::Algorithm(a) => a as usize..a as usize + 1,
        };
        for planned in here.planned.get(algorithms)? {
            text += &serde_json::to_string(&resolved_algorithm(planned)).ok()?;
            text += &format!("{:?} {:?}", planned.mixing, planned.release_bound);
            // Calibrated noise is not in the file.
            for noise_schedule in planned.account.noise_schedules() {
                let noise = noise_schedule.noise.iter().map(|n| n.noise().scale().to_bits());
                let hash = noise.fold(0xcbf2_9ce4_8422_2325u64, |h, bits| {
                    (h ^ bits).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17)
                });
                text += &format!("{} {hash:016x};", noise_schedule.noise.len());
            }
        }
        Some(sha256::hex(text.as_bytes()))
    }

    /// A digest of the records that an experiment was given, for the stamps of its pieces.
    #[must_use]
    pub fn records_digest(&self) -> RecordsDigest {
        let (mut bytes, mut hashes) = (Vec::new(), String::new());
        let mut add = |records: &Records| {
            for row in 0..records.len() {
                records.write_row(row, &mut bytes);
                // Block by block, so that no second copy of the records is made.
                if bytes.len() > 1 << 20 {
                    hashes += &sha256::hex(&bytes);
                    bytes.clear();
                }
            }
        };
        if let Some(data) = self.source.dataset() {
            add(&data.train);
            if let Some(stored) = &data.stored {
                let all: Vec<usize> = (0..stored.len()).collect();
                for rows in all.chunks(4096) {
                    match stored.select(rows) {
                        Ok(records) => add(&records),
                        // A digest that fits nothing; the run will say why.
                        Err(_) => return RecordsDigest(String::new()),
                    }
                }
            }
            data.test.iter().for_each(add);
        }
        RecordsDigest(hashes + &sha256::hex(&bytes))
    }
}

/// A hash of records. It is a function of them, so it is as private as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordsDigest(String);

impl RecordsDigest {
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}
