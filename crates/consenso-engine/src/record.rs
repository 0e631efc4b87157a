//! Everything that happened in an experiment: what the command line prints, a report draws and a
//! script reads.
//!
//! Numbers are means over runs unless they say otherwise. Nothing here is private: models, metrics
//! on test data, and public parameters. Realised privacy losses appear only as statistics of a
//! simulation, where all agents are ours.

use crate::audit::views::PairwiseMap;
use crate::model::{Inference, Metrics, SurvivalPoint};
use serde::{Deserialize, Serialize};

/// Who may see the results of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResultKind {
    /// Bundled or made-up records: nothing to protect.
    #[default]
    Simulation,
    /// Somebody's records and noise from a seed: as private as the records, all of it.
    Seeded,
    /// Somebody's records and an algorithm without a claim: as private as the records, all of it.
    Unprotected,
    /// The part of such a run that stays with the records: exact functions of them.
    Private,
    /// Somebody's records and real noise: what [`Shareable`] holds may be shared, everything else
    /// is as private as the records.
    Shareable {
        /// Whether test records came in a file of their own (`data.test`), which declares them
        /// public.
        public_test: bool,
    },
}

/// ε of all transcripts that a command made, together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TotalEpsilon {
    /// ε.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// Runs × algorithms, over all points of a sweep.
    pub transcripts: u64,
}

/// The record of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Who may see it.
    #[serde(default)]
    pub kind: ResultKind,
    /// The experiment's name.
    pub name: String,
    /// Its seed.
    pub seed: u64,
    /// Runs that were finished, of those asked for.
    pub runs: u32,
    /// Runs asked for.
    pub runs_asked: u32,
    /// Whether the user stopped it early.
    pub interrupted: bool,
    /// The version of the software.
    pub version: String,
    /// What the problem looks like.
    pub problem: ProblemRecord,
    /// One entry an algorithm, in the order of the file.
    pub algorithms: Vec<AlgorithmRecord>,
    /// What to compare with.
    pub baselines: Baselines,
    /// The points of a `[sweep]`, the file's own settings among them; empty without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sweep: Vec<SweepPoint>,
    /// What all transcripts of the command cost together; `None` for a seeded run, and where
    /// nothing is claimed.
    #[serde(default)]
    pub total_epsilon: Option<TotalEpsilon>,
    /// How the agents were divided, where several processes ran it or no agent was held; there is
    /// no optimum and no reference then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Processes>,
    /// What every agent can tell about every other one in the first rounds, for the page; `None`
    /// where that is not known or there are many agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<PairwiseMap>,
    /// Things the user should know.
    pub warnings: Vec<String>,
    /// The experiment with every open choice made, as TOML.
    pub resolved: String,
}

/// One simulation over several processes, or streamed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Processes {
    /// How many there were.
    pub ranks: usize,
    /// Rows that cross between processes in one round.
    pub halo_rows: usize,
    /// Bytes that they are.
    pub halo_bytes: usize,
    /// What was released, run by run of one algorithm after the other.
    pub transcripts: Vec<TranscriptDigest>,
}

/// A digest of one transcript: the same for every division of the agents among processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptDigest {
    /// The algorithm's name in tables.
    pub label: String,
    /// Which run, from 0.
    pub run: u32,
    /// SHA-256 over the hashes of what each agent released, in the agents' order.
    pub transcript: String,
}

/// Reads a number that JSON cannot hold: what is not known is written as `null` there. Formats that
/// keep every bit have it as it is.
fn or_nan<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    match from.is_human_readable() {
        true => Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN)),
        false => f64::deserialize(from),
    }
}

/// One point of a sweep: the experiment at one budget and size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// N.
    pub agents: usize,
    /// Length of a model.
    #[serde(default)]
    pub dim: usize,
    /// The budget, if there is one.
    pub epsilon: Option<f64>,
    /// Runs that were finished.
    pub runs: u32,
    /// One entry an algorithm, in the order of the file, without curves.
    pub algorithms: Vec<AlgorithmRecord>,
    /// What to compare with, at this size.
    pub baselines: Baselines,
}

/// Public facts of the problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProblemRecord {
    /// Where the records came from.
    pub source: String,
    /// The encoding, if there was one.
    pub encoding: String,
    /// The loss.
    pub loss: String,
    /// Names of the classes in the order of their labels; of two the second is the positive one.
    #[serde(default)]
    pub classes: Vec<String>,
    /// μ.
    pub regularization: f64,
    /// N.
    pub agents: usize,
    /// Length of the model.
    pub dim: usize,
    /// Records of the smallest and of the largest agent.
    pub records: (usize, usize),
    /// Edges of the graph.
    pub edges: usize,
    /// Kind of graph.
    pub graph: String,
    /// λ_2 and λ_max of the Laplacian, of the first run's graph.
    pub laplacian: (f64, f64),
    /// 1 − |λ_2(W)| of the mixing matrix, of the first run's graph.
    pub mixing_gap: f64,
    /// M and m.
    pub smoothness: (f64, f64),
}

/// Smallest, mean and largest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Smallest.
    #[serde(deserialize_with = "or_nan")]
    pub min: f64,
    /// Mean.
    #[serde(deserialize_with = "or_nan")]
    pub mean: f64,
    /// Largest.
    #[serde(deserialize_with = "or_nan")]
    pub max: f64,
}

impl Spread {
    /// Of some numbers; `None` of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (mut min, mut max, mut sum, mut count) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0u32);
        for v in values {
            (min, max, sum, count) = (min.min(v), max.max(v), sum + v, count + 1);
        }
        (count > 0).then(|| Self { min, mean: sum / f64::from(count), max })
    }
}

/// The figure that models are judged by, over the runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AcrossRuns {
    /// `"auc"` for two classes, `"accuracy"` for several, `"r2"` for numbers.
    pub figure: String,
    /// Of the network's mean model, run by run.
    #[serde(flatten)]
    pub spread: Spread,
}

impl AcrossRuns {
    /// The figure that these have in common, and how it varies.
    pub fn of(runs: &[Metrics]) -> Option<Self> {
        let spread = |value: fn(&Metrics) -> Option<f64>| Spread::of(runs.iter().filter_map(value));
        let figures = [
            ("auc", spread(|m| m.auc)),
            ("r2", spread(|m| m.r2)),
            ("accuracy", spread(|m| m.accuracy)),
        ];
        let (figure, spread) = figures.into_iter().find(|(_, spread)| spread.is_some())?;
        Some(Self { figure: figure.into(), spread: spread? })
    }
}

/// What one algorithm did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlgorithmRecord {
    /// The algorithm, as experiment files write it.
    pub kind: String,
    /// How it trained: `"scouted"` for private standardisation, clipped steps over exact sums and
    /// calibration, which take the place of `dgd` and `decor` where columns are scouted;
    /// `"scouted, then <kind>"` for another algorithm behind such a stage; else the kind.
    #[serde(default)]
    pub method: String,
    /// Its name in tables and figures.
    pub label: String,
    /// Rounds that used records.
    pub rounds: u32,
    /// Rounds of mixing after them.
    pub gossip: u32,
    /// Test accuracy of an agent's model: mean over agents and runs. `None` for regression or
    /// without test records.
    pub test_accuracy: Option<f64>,
    /// Area under the ROC curve of an agent's model: mean over agents and runs.
    pub test_auc: Option<f64>,
    /// Test accuracy over the agents, each end a mean over runs.
    pub per_agent_accuracy: Option<Spread>,
    /// The figures people judge by, of the network's mean model on the test records: means over
    /// runs. [`Self::test_accuracy`] and [`Self::test_auc`] are means over the agents' own models
    /// instead.
    #[serde(default)]
    pub metrics: Option<Metrics>,
    /// The figure that models are judged by, over the runs; `None` without test records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub across_runs: Option<AcrossRuns>,
    /// What a reader must know before believing its figures, in sentences: it learned nothing, or
    /// did not converge.
    #[serde(default)]
    pub findings: Vec<String>,
    /// The model's file within the run's folder.
    #[serde(default)]
    pub model: Option<String>,
    /// F at the network's mean model.
    #[serde(deserialize_with = "or_nan")]
    pub objective: f64,
    /// F at the network's mean model minus F(x*).
    #[serde(deserialize_with = "or_nan")]
    pub optimum_gap: f64,
    /// ln(‖x_i − x*‖/d), mean over agents.
    #[serde(deserialize_with = "or_nan")]
    pub log_error: f64,
    /// What it cost, if privacy was asked for.
    pub epsilon: Option<EpsilonRecord>,
    /// What its authors say it costs, where they published an account of such noise.
    #[serde(default)]
    pub published: Option<PublishedRecord>,
    /// Seconds that its runs took, added up: several can be under way at a time.
    pub seconds: f64,
    /// The parameters it ran with.
    pub parameters: serde_json::Value,
    /// The noise, in words.
    pub noise: String,
    /// Agents whose budget was spent before the last round, mean over runs.
    pub agents_stopped: f64,
    /// Whether some run diverged to infinity.
    pub diverged: bool,
    /// By round: means over runs with their range.
    pub curve: Vec<CurvePoint>,
    /// ‖Σ A_i x_i − c‖ of the models, violated rows only: mean over runs. `None` unless a linear
    /// constraint ties the agents.
    #[serde(default)]
    pub violation: Option<f64>,
    /// How long its messages took and how old what was mixed was; `None` without `[delays]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays: Option<DelayRecord>,
    /// What its agents sent, over all exchanges; `None` without `[conditions]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<TrafficRecord>,
    /// What a theorem certifies of the curve, if one does.
    #[serde(default)]
    pub certified: Option<CertifiedCurve>,
    /// What personal models are worth, where `models = "personal"` and records were held out whose
    /// site is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub personal: Option<PersonalRecord>,
    /// Standard errors of the first run's coefficients, where the study asked for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimates: Option<Estimates>,
    /// By run and round; written to `trace.csv`, not to `record.json`.
    #[serde(skip)]
    pub trace: Vec<TraceRow>,
}

/// What a run says of its coefficients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimates {
    /// Estimates, intervals and tests.
    pub found: Inference,
    /// Estimates without privacy, in simulations whose noise comes from a seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_private: Option<Inference>,
    /// The regression table: its header, then its rows.
    pub table: Vec<Vec<String>>,
    /// The survival curve of a record in the middle of all columns; empty unless these are hazards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub survival: Vec<SurvivalPoint>,
}

/// What delays of a simulation came to, means over runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DelayRecord {
    /// When the last exchange was over, in times of what an agent works in a round.
    pub time: f64,
    /// How many rounds old the vectors of neighbours were on average, in rounds that use records.
    pub mean_age: f64,
    /// How old the oldest of them was.
    pub oldest: u32,
}

/// What all agents of a simulation sent together, means over runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrafficRecord {
    /// Vectors over links, lost ones among them.
    pub messages: f64,
    /// Their size, compressed where `[conditions]` says so.
    pub bytes: f64,
    /// Seconds of all exchanges, one after the other, under the link model of `[conditions]`:
    /// latency, and what the agent that sends most needs for it. Work takes no time. `None` without
    /// a link model.
    pub seconds: Option<f64>,
}

impl TrafficRecord {
    /// The mean of some; `None` of none.
    pub(crate) fn mean(all: impl Iterator<Item = Self>) -> Option<Self> {
        let all: Vec<Self> = all.collect();
        let mean = |f: fn(&Self) -> Option<f64>| {
            Spread::of(all.iter().filter_map(f)).map(|spread| spread.mean)
        };
        Some(Self {
            messages: mean(|t| Some(t.messages))?,
            bytes: mean(|t| Some(t.bytes))?,
            seconds: mean(|t| t.seconds),
        })
    }
}

/// What the shared model and sites' personal models are worth on records that the sites held out:
/// each record is scored by the model of its own site. Means over runs; exact functions of the
/// records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PersonalRecord {
    /// Sites with held-out records.
    pub sites: usize,
    /// The shared model on these records.
    pub shared: Metrics,
    /// Each site's personal model on its own of them.
    pub personal: Metrics,
}

/// A bound a theorem certifies, for the first run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CertifiedCurve {
    /// Which theorem.
    pub theorem: String,
    /// What it bounds, in expectation over the noise: `log_error` (its mean over agents) or
    /// `optimum_gap` (of the network's mean model).
    pub quantity: String,
    /// Round and bound.
    pub points: Vec<(u32, f64)>,
}

/// The price of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpsilonRecord {
    /// The claim: the smallest ε that is certified.
    pub claim: f64,
    /// At this δ.
    pub delta: f64,
    /// How it was certified.
    pub method: String,
    /// Σ d·α·β·B_∞, or the l1 sum if smaller: pure ε, whatever the data. `None` under Gaussian
    /// noise.
    pub worst_case_pure: Option<f64>,
    /// The paper's worst case d·Σ α_k β_k B_∞. `None` under Gaussian noise.
    pub paper_worst_case: Option<f64>,
    /// Realised loss (Theorem 2.2), mean over agents and runs: each agent's own to see; here all
    /// are ours.
    pub realised_mean: Option<f64>,
    /// Its smallest and largest value.
    pub realised_range: Option<(f64, f64)>,
    /// Every bound that was computed, by method; `null` where the method is not valid.
    pub bounds: serde_json::Value,
    /// The claim in full sentences: neighbour relation, adversary, δ, method, sampler.
    pub statement: String,
    /// Whether the figures hold only for a run on OS entropy, because this one was seeded.
    pub seeded: bool,
}

/// A privacy cost as an algorithm's authors published it: under their assumptions, and not a claim
/// of this software.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedRecord {
    /// ε of the whole run, over agents and runs: agents with other degrees pay other costs.
    pub epsilon: Spread,
    /// δ where the account has one; `None` for pure ε.
    pub delta: Option<f64>,
    /// The formula and its source.
    pub formula: String,
}

/// A round of a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// The round.
    pub round: u32,
    /// F at the network's mean.
    pub objective: Spread,
    /// ln(‖x_i − x*‖/d): mean over agents, range over agents and runs.
    pub log_error: Spread,
    /// Test accuracy of the network's mean model.
    pub test_accuracy: Option<Spread>,
    /// Root mean square distance of the agents from their mean; with a linear constraint, by how
    /// much it is violated.
    pub disagreement: Spread,
    /// Worst-case pure ε so far.
    pub epsilon_worst: Option<f64>,
    /// Realised loss so far, over agents and runs.
    pub epsilon_realised: Option<Spread>,
    /// Published cost so far, over agents and runs.
    #[serde(default)]
    pub epsilon_published: Option<Spread>,
    /// What was sent so far; `None` without `[conditions]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<TrafficRecord>,
}

/// A row of `trace.csv`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceRow {
    /// Which run, from 0.
    pub run: u32,
    /// Rounds exchanged.
    pub round: u32,
    /// F at the network's mean.
    pub objective: f64,
    /// How far the objective is above F(x*).
    pub optimum_gap: f64,
    /// ln(‖x_i − x*‖/d) over the agents.
    pub log_error: Spread,
    /// Root mean square distance of the agents from their mean; with a linear constraint, by how
    /// much it is violated.
    pub disagreement: f64,
    /// Test accuracy of the network's mean model.
    pub test_accuracy: Option<f64>,
    /// Worst-case pure ε so far.
    pub epsilon_worst: Option<f64>,
    /// Realised loss so far, over the agents.
    pub epsilon_realised: Option<Spread>,
    /// Published cost so far, over the agents.
    #[serde(default)]
    pub epsilon_published: Option<Spread>,
    /// What was sent so far; `None` without `[conditions]`.
    #[serde(default)]
    pub sent: Option<TrafficRecord>,
}

/// What every private result should be read against.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Baselines {
    /// Accuracy of always answering the most frequent class of the test records.
    pub majority_accuracy: Option<f64>,
    /// The zero model.
    pub zero_model: ZeroModel,
    /// Accuracy of x*, the optimum of all records together.
    pub central_optimum_accuracy: Option<f64>,
    /// AUC of x*.
    pub central_optimum_auc: Option<f64>,
    /// R² of x*, where a number is predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub central_optimum_r2: Option<f64>,
    /// F(x*).
    #[serde(deserialize_with = "or_nan")]
    pub central_optimum_objective: f64,
    /// Accuracy of agents who train alone, without noise: mean over agents and runs.
    pub local_only_accuracy: Option<f64>,
    /// A tuned model without privacy, of all records of the first run: what the records can give.
    /// Unlike x* it does not solve the stated objective.
    #[serde(default)]
    pub reference: Option<Reference>,
}

/// A tuned model without privacy: all records in one place with equal weight, μ chosen on records
/// it did not train on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The μ that was chosen.
    pub regularization: f64,
    /// How it was trained.
    pub about: String,
    /// Its figures on the test records.
    #[serde(flatten)]
    pub metrics: Metrics,
}

/// How well x = 0 does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ZeroModel {
    /// Its accuracy (every record labelled negative).
    pub accuracy: Option<f64>,
    /// ln(‖0 − x*‖/d).
    #[serde(deserialize_with = "or_nan")]
    pub log_error: f64,
    /// F(0).
    #[serde(deserialize_with = "or_nan")]
    pub objective: f64,
}

/// What of a record may leave the hands of whoever holds the records: functions of charged releases
/// and of public facts, and nothing else.
///
/// There is one way to make it, and it works by naming what may pass: a new field of a [`Record`]
/// stays private until it is named here.
///
/// ```compile_fail
/// let forged = consenso_engine::record::Shareable { value: Default::default() };
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Shareable {
    value: serde_json::Value,
}

impl Shareable {
    /// Public facts of the run.
    const RUN: [&str; 9] = [
        "name",
        "runs",
        "runs_asked",
        "interrupted",
        "version",
        "problem",
        "total_epsilon",
        "resolved",
        "seed",
    ];
    /// Public facts of an algorithm, and what everybody who saw its releases knows.
    const ALGORITHM: [&str; 11] = [
        "kind",
        "model",
        "label",
        "rounds",
        "gossip",
        "parameters",
        "noise",
        "published",
        "agents_stopped",
        "diverged",
        "traffic",
    ];
    /// Functions of releases and of public test records.
    const TESTED: [&str; 4] = ["test_accuracy", "test_auc", "per_agent_accuracy", "metrics"];
    /// The account of a schedule that was fixed in advance.
    const EPSILON: [&str; 8] = [
        "claim",
        "delta",
        "method",
        "worst_case_pure",
        "paper_worst_case",
        "bounds",
        "statement",
        "seeded",
    ];

    /// What may be shared of a record; `None` unless its noise was real and every algorithm has a
    /// claim.
    #[must_use]
    pub fn of(record: &Record) -> Option<Self> {
        let ResultKind::Shareable { public_test } = record.kind else { return None };
        let all = serde_json::to_value(record).ok()?;
        let mut value = serde_json::Map::from_iter([("kind".to_owned(), "shareable".into())]);
        value.extend(named(&all, &Self::RUN));
        let algorithm = |a: &serde_json::Value| {
            let mut kept = named(a, &Self::ALGORITHM);
            if public_test {
                kept.extend(named(a, &Self::TESTED));
            }
            kept.insert("epsilon".into(), named(&a["epsilon"], &Self::EPSILON).into());
            serde_json::Value::from(kept)
        };
        let list = |v: &serde_json::Value| {
            v.as_array().into_iter().flatten().map(algorithm).collect::<Vec<_>>()
        };
        value.insert("algorithms".into(), list(&all["algorithms"]).into());
        if public_test {
            value.insert(
                "baselines".into(),
                named(&all["baselines"], &["majority_accuracy"]).into(),
            );
        }
        let points = all["sweep"].as_array().into_iter().flatten().map(|point| {
            let mut kept = named(point, &["agents", "dim", "epsilon", "runs"]);
            kept.insert("algorithms".into(), list(&point["algorithms"]).into());
            serde_json::Value::from(kept)
        });
        let points: Vec<serde_json::Value> = points.collect();
        if !points.is_empty() {
            value.insert("sweep".into(), points.into());
        }
        Some(Self { value: value.into() })
    }

    /// As JSON.
    #[must_use]
    pub fn value(&self) -> &serde_json::Value {
        &self.value
    }
}

fn named(value: &serde_json::Value, keys: &[&str]) -> serde_json::Map<String, serde_json::Value> {
    keys.iter().filter_map(|k| Some(((*k).to_owned(), value.get(k)?.clone()))).collect()
}

impl Record {
    /// `sweep.csv`: one row per point and algorithm, with the lines to compare with.
    ///
    /// # Errors
    /// What the writer reports.
    pub fn write_sweep(&self, out: &mut impl std::io::Write) -> std::io::Result<()> {
        let cell = |v: Option<f64>| v.map_or_else(String::new, |v| v.to_string());
        writeln!(
            out,
            "agents,epsilon,runs,kind,algorithm,rounds,claim,test_accuracy,test_accuracy_min,test_accuracy_max,test_auc,\
             log_error,objective,majority_accuracy,local_only_accuracy,central_optimum_accuracy,dim,optimum_gap,noise,\
             figure,figure_min,figure_mean,figure_max,central_optimum_r2"
        )?;
        for point in &self.sweep {
            for a in &point.algorithms {
                writeln!(
                    out,
                    "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                    point.agents,
                    cell(point.epsilon),
                    point.runs,
                    a.kind,
                    a.label.replace(['"', ','], " "),
                    a.rounds,
                    cell(a.epsilon.as_ref().map(|e| e.claim)),
                    cell(a.test_accuracy),
                    cell(a.per_agent_accuracy.map(|s| s.min)),
                    cell(a.per_agent_accuracy.map(|s| s.max)),
                    cell(a.test_auc),
                    a.log_error,
                    a.objective,
                    cell(point.baselines.majority_accuracy),
                    cell(point.baselines.local_only_accuracy),
                    cell(point.baselines.central_optimum_accuracy),
                    point.dim,
                    a.optimum_gap,
                    a.noise.replace(',', ""),
                    a.across_runs.as_ref().map_or("", |r| r.figure.as_str()),
                    cell(a.across_runs.as_ref().map(|r| r.spread.min)),
                    cell(a.across_runs.as_ref().map(|r| r.spread.mean)),
                    cell(a.across_runs.as_ref().map(|r| r.spread.max)),
                    cell(point.baselines.central_optimum_r2),
                )?;
            }
        }
        Ok(())
    }

    /// `trace.csv`: one row per algorithm, run and round.
    ///
    /// # Errors
    /// What the writer reports.
    pub fn write_trace(&self, out: &mut impl std::io::Write) -> std::io::Result<()> {
        let cell = |v: Option<f64>| v.map_or_else(String::new, |v| v.to_string());
        let known = |v: f64| cell(Some(v).filter(|v| !v.is_nan()));
        // Only what [conditions] asks for, so that other files keep their columns.
        let counted = self.algorithms.iter().any(|a| a.traffic.is_some());
        writeln!(
            out,
            "algorithm,run,round,objective,optimum_gap,log_error_mean,log_error_min,log_error_max,disagreement,\
             test_accuracy,epsilon_worst,epsilon_realised_mean,epsilon_realised_min,epsilon_realised_max,\
             epsilon_published_mean,epsilon_published_min,epsilon_published_max{}",
            if counted { ",messages,bytes,seconds" } else { "" }
        )?;
        for algorithm in &self.algorithms {
            let label = algorithm.label.replace(['"', ','], " ");
            for row in &algorithm.trace {
                let TraceRow { run, round, objective, log_error, disagreement, .. } = row;
                let (realised, published) = (row.epsilon_realised, row.epsilon_published);
                write!(
                    out,
                    "{label},{run},{round},{objective},{},{},{},{},{disagreement},{},{},{},{},{},{},{},{}",
                    known(row.optimum_gap),
                    known(log_error.mean),
                    known(log_error.min),
                    known(log_error.max),
                    cell(row.test_accuracy),
                    cell(row.epsilon_worst),
                    cell(realised.map(|r| r.mean)),
                    cell(realised.map(|r| r.min)),
                    cell(realised.map(|r| r.max)),
                    cell(published.map(|r| r.mean)),
                    cell(published.map(|r| r.min)),
                    cell(published.map(|r| r.max)),
                )?;
                if counted {
                    let (messages, bytes) =
                        (row.sent.map(|s| s.messages), row.sent.map(|s| s.bytes));
                    let seconds = row.sent.and_then(|s| s.seconds);
                    write!(out, ",{},{},{}", cell(messages), cell(bytes), cell(seconds))?;
                }
                writeln!(out)?;
            }
        }
        Ok(())
    }
}
