//! What a record or a ledger knows of a study, in the words of a statement.

use consenso_engine::model::Model;
use consenso_engine::privacy::{Claim, printed_up};
use serde_json::Value;
use std::fmt::Write as _;

/// An ε and a δ that belong together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spent {
    /// ε, an upper bound.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
}

impl Spent {
    /// As people read it: ε rounded up.
    #[must_use]
    pub fn words(self) -> String {
        format!("ε = {}, δ = {:e}", printed_up(self.epsilon, 5), self.delta)
    }
}

/// Why nothing can be stated of a record.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    /// All of it is as private as the records.
    #[error(
        "this record is {kind}: as private as the records, so no statement is made of it\n  \
         help: run it with --entropy os, and give the run's own folder"
    )]
    Private {
        /// What kind of record it is.
        kind: String,
    },
    /// An algorithm claims nothing.
    #[error(
        "an algorithm of this run has no claim, so there is nothing to state\n  \
         help: give the study a [privacy] table"
    )]
    NoClaim,
}

/// One study, or one algorithm of a run, with its claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StudyFacts {
    /// Its name among the others.
    pub name: String,
    /// ε of its claim.
    pub epsilon: f64,
    /// δ of its claim.
    pub delta: f64,
    /// The theorem behind ε.
    pub method: String,
    /// Which data sets are neighbours.
    pub neighbours: String,
    /// Whom it protects from.
    pub adversary: String,
    /// How noise was drawn.
    pub sampler: String,
    /// What the claim says besides.
    pub caveats: Vec<String>,
    /// Messages that used records, and what was said of them.
    pub releases: String,
    /// Whether the events in a ledger prove the claim; nothing where there is no ledger.
    pub holds: Option<bool>,
}

impl StudyFacts {
    /// What a printed claim says.
    #[must_use]
    pub fn printed(name: &str, epsilon: f64, delta: f64, claim: &str) -> Self {
        let mut facts = Self { name: name.into(), epsilon, delta, ..Self::default() };
        for line in claim.lines().filter_map(|line| line.strip_prefix("  ")) {
            let Some((word, rest)) = line.split_once(' ') else { continue };
            let rest = rest.trim().to_owned();
            match word {
                "method" => facts.method = rest,
                "neighbours" => facts.neighbours = rest,
                "adversary" => facts.adversary = rest,
                "sampler" => facts.sampler = rest,
                "caveat" => facts.caveats.push(rest),
                _ => {}
            }
        }
        facts
    }

    /// What a claim says.
    #[must_use]
    pub fn claimed(name: &str, claim: &Claim) -> Self {
        Self::printed(name, claim.epsilon, claim.delta, &claim.to_string())
    }

    /// ε and δ.
    #[must_use]
    pub fn spent(&self) -> Spent {
        Spent { epsilon: self.epsilon, delta: self.delta }
    }
}

/// All that is known of a deployment without asking anybody.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The study's name.
    pub name: String,
    /// The site whose statement it is; nothing for a run on one machine.
    pub site: Option<String>,
    /// The other sites.
    pub others: Vec<String>,
    /// When it was made, as 2026-01-31.
    pub date: Option<String>,
    /// The program and its version.
    pub software: String,
    /// Whether the noise came from a seed that everybody knows: such a run protects nobody.
    pub seeded: bool,
    /// Whether the records are bundled or made up, so that there is nobody to protect.
    pub simulation: bool,
    /// What was trained, in words.
    pub task: String,
    /// How many agents, records and features, in words.
    pub size: String,
    /// Columns with their public ranges or levels, in words.
    pub columns: Vec<String>,
    /// The claims.
    pub studies: Vec<StudyFacts>,
    /// What all of it costs together, where that is known.
    pub total: Option<Spent>,
    /// How it was added up.
    pub rule: String,
    /// What all studies of these records may cost.
    pub limit: Option<Spent>,
    /// What is left of it.
    pub remaining: Option<Spent>,
    /// Results on public test records, in words.
    pub results: Vec<String>,
    /// Where the facts can be checked.
    pub evidence: String,
}

impl Facts {
    /// Where the facts come from, and what they are worth.
    pub(super) fn about(&self) -> String {
        let from = match &self.site {
            Some(site) => format!("the ledger of site {site}"),
            None => "the record of a run".to_owned(),
        };
        let worth = match (self.simulation, self.seeded) {
            (_, true) => {
                " Noise came from a seed that everybody can know: the figures hold for the same \
                 study with noise of the operating system, and this one protects nobody."
            }
            (true, false) => {
                " The records are bundled or made up: there is nobody whom the study could harm."
            }
            (false, false) => "",
        };
        format!("Filled in from {from} by {}.{worth}", self.software)
    }

    /// The claim that says the most about trust: the first.
    pub(super) fn first(&self) -> StudyFacts {
        self.studies.first().cloned().unwrap_or_default()
    }

    /// Whether every claim holds at δ = 0.
    pub(super) fn is_pure(&self) -> bool {
        !self.studies.is_empty() && self.studies.iter().all(|s| s.delta == 0.0)
    }

    /// What each study cost, and all together.
    pub(super) fn costs(&self) -> String {
        let mut out = String::new();
        for study in &self.studies {
            let _ = write!(out, "{}: {}", study.name, study.spent().words());
            if !study.releases.is_empty() {
                let _ = write!(out, " for {}", study.releases);
            }
            out.push_str(match study.holds {
                Some(true) => "; recomputed from the ledger's events alone: within the claim",
                Some(false) => "; recomputed from the ledger's events alone: ABOVE THE CLAIM",
                None => "",
            });
            out.push_str(".\n");
        }
        match self.total {
            Some(total) => {
                let _ = write!(out, "All together: {}", total.words());
                if !self.rule.is_empty() {
                    let _ = write!(out, " ({})", self.rule);
                }
                out.push('.');
            }
            None => out.push_str(
                "All together: not booked, for the noise came from a seed; each figure is that of \
                 one transcript.",
            ),
        }
        if let (Some(limit), Some(left)) = (self.limit, self.remaining) {
            let epsilon = consenso_engine::privacy::printed_down(left.epsilon, 4);
            let left = match epsilon.parse::<f64>().is_ok_and(|e| e > 0.0) {
                true => format!("left: ε = {epsilon}, δ = {:e}", left.delta),
                false => "nothing is left: no further study of them is begun".into(),
            };
            let _ =
                write!(out, "\nLimit of all studies of these records: {}; {left}.", limit.words());
        }
        out
    }

    /// A sentence of this program in the words of the statement: an agent of a network is a site.
    pub(super) fn named(&self, text: &str) -> String {
        match self.site {
            Some(_) => text
                .replace("an agent", "a site")
                .replace("An agent", "A site")
                .replace("agent", "site")
                .replace("Agent", "Site"),
            None => text.to_owned(),
        }
    }

    /// Whether all that was spent was spent by Gaussian noise, so that its exact curve holds.
    pub(super) fn is_gaussian(&self) -> bool {
        let noise = self.studies.iter().all(|study| study.method.starts_with("gdp"));
        let adds_up = match self.total {
            Some(total) => self.rule.contains("μ²") || total == self.first().spent(),
            None => self.studies.len() == 1,
        };
        noise && adds_up && self.studies.iter().all(|study| study.delta > 0.0)
    }

    /// Caveats of all claims, each once.
    pub(super) fn caveats(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for caveat in self.studies.iter().flat_map(|s| &s.caveats) {
            if !all.contains(caveat) {
                all.push(caveat.clone());
            }
        }
        all
    }

    /// The facts of a run's `record.json`, and of the models beside it. Only what may be shared is
    /// looked at.
    ///
    /// # Errors
    /// The record is of a run of which nothing may be shared, or that claims nothing.
    pub fn of_record(record: &Value, model: Option<&Model>) -> Result<Self, FactsError> {
        let kind = record["kind"].as_str().unwrap_or("simulation");
        match kind {
            "simulation" | "shareable" => {}
            "unprotected" => return Err(FactsError::NoClaim),
            _ => return Err(FactsError::Private { kind: kind.into() }),
        }
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let algorithms = record["algorithms"].as_array().cloned().unwrap_or_default();
        let mut studies = Vec::new();
        for a in &algorithms {
            let e = &a["epsilon"];
            let (Some(epsilon), Some(delta)) = (e["claim"].as_f64(), e["delta"].as_f64()) else {
                continue;
            };
            let mut study =
                StudyFacts::printed(&text(&a["label"]), epsilon, delta, &text(&e["statement"]));
            study.releases =
                format!("{} rounds with {}, one transcript", a["rounds"], text(&a["noise"]));
            studies.push(study);
        }
        if studies.is_empty() {
            return Err(FactsError::NoClaim);
        }
        let problem = &record["problem"];
        let total = &record["total_epsilon"];
        let total = total["epsilon"].as_f64().zip(total["delta"].as_f64());
        let transcripts = record["total_epsilon"]["transcripts"].as_u64().unwrap_or(1);
        let (few, many) = (&problem["records"][0], &problem["records"][1]);
        let records = if few == many { few.to_string() } else { format!("{few} to {many}") };
        Ok(Self {
            name: text(&record["name"]),
            software: format!("consenso {}", text(&record["version"])),
            seeded: algorithms.iter().any(|a| a["epsilon"]["seeded"] == true),
            simulation: kind == "simulation",
            task: task(&text(&problem["loss"]), model),
            size: format!(
                "{} agents on a {} graph with {} edges, {records} records each, {} weights, \
                 encoding {}",
                problem["agents"],
                text(&problem["graph"]),
                problem["edges"],
                problem["dim"],
                text(&problem["encoding"])
            ),
            columns: model.map(columns).unwrap_or_default(),
            studies,
            total: total.map(|(epsilon, delta)| Spent { epsilon, delta }),
            rule: format!("transcripts of one command: {transcripts}"),
            results: algorithms.iter().filter_map(results).collect(),
            evidence: "record.json and experiment.toml of the run's folder; `consenso privacy \
                       audit experiment.toml` attacks the code that ran"
                .into(),
            ..Self::default()
        })
    }
}

/// What was trained, in words.
#[must_use]
pub fn task(loss: &str, model: Option<&Model>) -> String {
    let target = model.and_then(|m| m.target.clone());
    match target {
        Some(target) => format!("a linear model of {target:?} with the {loss} loss"),
        None => format!("a linear model with the {loss} loss"),
    }
}

/// The columns of a model's schema with what is public about them.
#[must_use]
pub fn columns(model: &Model) -> Vec<String> {
    use consenso_engine::data::Kind;
    let Some(schema) = &model.schema else { return model.features.clone() };
    let one = |column: &consenso_engine::data::Column| match &column.kind {
        Kind::Numeric { min, max } => Some(format!("{} (number, {min} to {max})", column.name)),
        Kind::Categorical { categories } => {
            Some(format!("{} ({} levels)", column.name, categories.len()))
        }
        Kind::Label(_) => Some(format!("{} (what is predicted)", column.name)),
        Kind::Person { most } => {
            Some(format!("{} (person, at most {most} records each)", column.name))
        }
        Kind::Time { max } => Some(format!("{} (time until an event, at most {max})", column.name)),
        Kind::Exposure { min, max } => Some(format!("{} (exposure, {min} to {max})", column.name)),
        Kind::Frequency { most } => {
            Some(format!("{} (frequency, at most {most} records a line)", column.name))
        }
        Kind::Site | Kind::Ignored => None,
    };
    schema.columns().iter().filter_map(one).collect()
}

/// Results of an algorithm on public test records.
fn results(algorithm: &Value) -> Option<String> {
    let metrics = &algorithm["metrics"];
    let shown: Vec<String> = [
        ("accuracy", "accuracy"),
        ("balanced_accuracy", "balanced accuracy"),
        ("auc", "AUC"),
        ("f1", "F1"),
        ("r2", "R²"),
        ("rmse", "root mean square error"),
    ]
    .iter()
    .filter_map(|(key, name)| Some(format!("{name} {:.3}", metrics[key].as_f64()?)))
    .collect();
    let rows = metrics["rows"].as_u64()?;
    let label = algorithm["label"].as_str()?;
    (!shown.is_empty()).then(|| format!("{label}, on {rows} test records: {}", shown.join(", ")))
}
