//! The functions that R calls, by name.

use crate::error::CallError;
use consenso_engine::data::{DraftOptions, Unknown};
use consenso_engine::experiment::{Experiment, Observer, RunError};
use consenso_engine::gate::exact::{self, Grid, Noise};
use consenso_engine::model::{Model, TableFormat};
use consenso_engine::privacy::calibrate::{
    NoiseKind, Request, calibrate as calibrated, complete_sensitivity,
};
use consenso_engine::privacy::{compose as composed, parse_events};
use consenso_engine::random::{Purpose, Seed};
use consenso_engine::study::StudyError;
use consenso_ledger::LedgerError;
use consenso_ledger::fits::{FitBudget, FitCost};
use consenso_study::frames::{self, AskNoise, Frames};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

/// Texts by name. A name may stand several times, for tables and questions.
#[derive(Debug)]
pub struct Arguments(Vec<(String, String)>);

impl Arguments {
    /// Texts by name.
    pub fn new(given: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(given.into_iter().collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    fn text(&self, name: &'static str) -> Result<&str, CallError> {
        self.get(name).ok_or(CallError::Missing(name))
    }

    fn optional<T: FromStr>(
        &self,
        name: &'static str,
        must: &'static str,
    ) -> Result<Option<T>, CallError> {
        let wrong = |given: &str| CallError::Value { name, given: given.to_owned(), must };
        self.get(name).map(|given| given.parse().map_err(|_| wrong(given))).transpose()
    }

    fn number<T: FromStr>(&self, name: &'static str, must: &'static str) -> Result<T, CallError> {
        self.optional(name, must)?.ok_or(CallError::Missing(name))
    }

    fn seed(&self) -> Result<Option<u64>, CallError> {
        self.optional("seed", "a whole number from 0")
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// The experiment with its schema and the text of every table.
    fn frames(&self) -> Result<Frames, CallError> {
        let table = |(key, text): &(String, String)| {
            Some((key.strip_prefix("table:")?.to_owned(), text.clone().into_bytes()))
        };
        Ok(Frames {
            file: self.get("file").unwrap_or("study").to_owned(),
            text: self.text("text")?.to_owned(),
            files: self.0.iter().filter_map(table).collect(),
            columns: None,
            schema: self.get("schema").map(str::to_owned),
            test: None,
            edges: None,
            spare: self.get("spare").map(str::to_owned),
        })
    }

    /// The ledger that a call is charged to.
    fn budget(&self) -> Result<Option<FitBudget>, CallError> {
        let Some(path) = self.get("budget.path") else { return Ok(None) };
        let epsilon = self.number("budget.epsilon", "a number")?;
        let delta = self.number("budget.delta", "a number")?;
        let path = Some(PathBuf::from(path));
        let budget = FitBudget::new(epsilon, delta, "consenso_budget", false, path);
        Ok(Some(if self.get("budget.session").is_some() { budget.with_seeded() } else { budget }))
    }
}

/// Calls a function by its name.
///
/// # Errors
/// [`CallError`]: no such function, something given that is not as it should be, or a run that
/// failed.
pub fn call(
    name: &str,
    arguments: &Arguments,
    observer: &dyn Observer,
) -> Result<Value, CallError> {
    match name {
        "version" => Ok(json!({
            "version": env!("CARGO_PKG_VERSION"), "optimized": !cfg!(debug_assertions),
        })),
        "fit" => fit(arguments, observer),
        "ask" => ask(arguments, observer),
        "predict" => predict(arguments),
        "survival" => survival(arguments),
        "table" => table(arguments),
        "draft" => draft(arguments),
        "toml" => Ok(json!(arguments.text("text")?.parse::<toml::Table>()?)),
        "standing" => standing(arguments),
        "compose" => compose(arguments),
        "calibrate" => calibrate(arguments),
        "noise" => noise(arguments),
        other => Err(CallError::Unknown(other.to_owned())),
    }
}

/// What a budget says to a fit before it begins, kept so that R gets it as it was.
struct Charge<'a> {
    name: &'a str,
    budget: Option<FitBudget>,
    copies: u32,
    refused: Mutex<Option<LedgerError>>,
}

impl<'a> Charge<'a> {
    fn new(arguments: &'a Arguments) -> Result<Self, CallError> {
        let copies = arguments.optional("budget.copies", "a whole number from 1")?;
        Ok(Self {
            name: arguments.get("file").unwrap_or("study"),
            budget: arguments.budget()?,
            copies: copies.unwrap_or(1),
            refused: Mutex::new(None),
        })
    }

    fn book(
        &self,
        experiment: &Experiment,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let (Some(budget), Some(cost)) = (&self.budget, frames::cost(experiment)) else {
            return Ok(());
        };
        let cost: FitCost = serde_json::from_value(cost)?;
        budget.spend(self.name, cost, self.copies).map_err(|error| {
            let text = error.to_string();
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            text.into()
        })
    }

    /// The error of a run, which may be the budget's.
    fn or(self, error: impl Into<CallError>) -> CallError {
        match self.refused.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error @ LedgerError::StudyRefused { .. }) => CallError::Spent(error.to_string()),
            Some(error) => CallError::Accounting(error.to_string()),
            None => error.into(),
        }
    }
}

/// Fits a model: `text` is the experiment, `schema` its schema, each `table:NAME` a table. The
/// answer has the model file as text, so that no number of it is written anew.
fn fit(arguments: &Arguments, observer: &dyn Observer) -> Result<Value, CallError> {
    let study = arguments.frames()?.study(arguments.seed()?)?.without_references();
    let charge = Charge::new(arguments)?;
    let fitted = match study.run_charged(observer, |experiment| charge.book(experiment)) {
        Ok(fitted) => fitted,
        Err(error) => return Err(charge.or(error)),
    };
    let mut answer = frames::answer(&fitted);
    // Realised figures stay here; whatever may be shared is in the record of that name.
    let rounds = answer["record"]["algorithms"][0]["rounds"].take();
    let warnings = answer["record"]["warnings"].take();
    let Some(file) = fitted.model_file() else {
        return Err(CallError::Study(StudyError::Run(RunError::Caller(
            "the model did not end with finite numbers; a larger regularization or budget may help"
                .into(),
        ))));
    };
    let own = fitted.personal_models().iter();
    let personal: Vec<_> =
        own.map(|(site, own)| json!({ "site": site, "file": own.to_json() })).collect();
    Ok(json!({
        "personal": personal, "file": file.to_json(), "claim": answer["claim"].take(), "rounds": rounds,
        "warnings": warnings, "coefficients": file.explain(),
    }))
}

fn ask(arguments: &Arguments, observer: &dyn Observer) -> Result<Value, CallError> {
    let questions: Vec<String> = arguments.all("question").map(str::to_owned).collect();
    let noise = match arguments.seed()? {
        Some(seed) => AskNoise::Seed(seed),
        None => AskNoise::Entropy(entropy()?),
    };
    let charge = Charge::new(arguments)?;
    let frames = arguments.frames()?;
    match frames.ask(&questions, noise, observer, |experiment| charge.book(experiment)) {
        Ok(answers) => Ok(answers),
        Err(error) => Err(charge.or(error)),
    }
}

fn predict(arguments: &Arguments) -> Result<Value, CallError> {
    let policy = arguments.get("unknown").unwrap_or("error");
    let known = Unknown::ALL.into_iter().find(|unknown| unknown.name() == policy);
    let unknown = known.ok_or_else(|| CallError::Value {
        name: "unknown",
        given: policy.to_owned(),
        must: "\"error\", \"ignore\" or \"other\"",
    })?;
    let (model, text) = (arguments.text("model")?, arguments.text("text")?.as_bytes());
    let level = arguments.optional("interval", "a number between 0 and 1")?;
    Ok(frames::predict(
        model,
        "newdata",
        frames::NewRecords::Text(text),
        arguments.get("site"),
        unknown,
        level,
    )?)
}

/// The survival curve of a record, each `at:COLUMN` being the value of a column.
fn survival(arguments: &Arguments) -> Result<Value, CallError> {
    let model = Model::from_json(arguments.text("model")?)?;
    let all = arguments.0.iter();
    let given: Vec<(&str, &str)> =
        all.filter_map(|(key, value)| Some((key.strip_prefix("at:")?, &**value))).collect();
    Ok(json!(model.survival(&given)?))
}

/// The regression table for a paper.
fn table(arguments: &Arguments) -> Result<Value, CallError> {
    let model = Model::from_json(arguments.text("model")?)?;
    let format = match arguments.text("format")? {
        "latex" => TableFormat::Latex,
        "html" => TableFormat::Html,
        _ => TableFormat::Markdown,
    };
    Ok(json!(model.regression_table(format)))
}

fn draft(arguments: &Arguments) -> Result<Value, CallError> {
    let given = |name| arguments.get(name).map(str::to_owned);
    let options = DraftOptions {
        label: given("label"),
        site: given("site"),
        positive: given("positive"),
        ..DraftOptions::default()
    };
    let (text, warnings) = frames::draft("data.csv", arguments.text("text")?.as_bytes(), &options)?;
    Ok(json!({ "text": text, "warnings": warnings }))
}

fn standing(arguments: &Arguments) -> Result<Value, CallError> {
    let budget = arguments.budget()?.ok_or(CallError::Missing("budget.path"))?;
    let found = budget.standing().map_err(|e| CallError::Accounting(e.to_string()))?;
    Ok(json!({ "spent": found.spent, "remaining": found.remaining, "studies": found.studies }))
}

fn compose(arguments: &Arguments) -> Result<Value, CallError> {
    let accounting = |error: &dyn std::fmt::Display| CallError::Accounting(error.to_string());
    let events = parse_events(arguments.text("events")?).map_err(|e| accounting(&e))?;
    let delta = arguments.number("delta", "a number")?;
    let found = composed(&events, delta).map_err(|e| accounting(&e))?;
    let mut value = json!(found);
    value["best"] = json!(found.best().map(|(method, epsilon)| json!({
        "method": method.name(), "epsilon": epsilon, "theorem": method.theorem() })));
    Ok(value)
}

fn calibrate(arguments: &Arguments) -> Result<Value, CallError> {
    let accounting = |error: &dyn std::fmt::Display| CallError::Accounting(error.to_string());
    let (rounds, dim): (usize, usize) =
        (arguments.number("rounds", "a whole number")?, arguments.number("dim", "a whole number")?);
    let norm = |name| arguments.optional(name, "a number");
    let step = complete_sensitivity(norm("l1")?, norm("l2")?, norm("linf")?, dim)
        .map_err(|e| accounting(&e))?;
    let mut request = Request::new(
        arguments.number("epsilon", "a number")?,
        arguments.number("delta", "a number")?,
        rounds,
        dim,
        step,
    );
    request.noise = match arguments.get("mechanism") {
        None => None,
        Some("laplace") => Some(NoiseKind::Laplace),
        Some("gaussian") => Some(NoiseKind::Gaussian),
        Some(other) => {
            return Err(CallError::Value {
                name: "mechanism",
                given: other.to_owned(),
                must: "\"laplace\" or \"gaussian\"",
            });
        }
    };
    Ok(json!(calibrated(&request).map_err(|e| accounting(&e))?))
}

/// Values with exact noise on a grid of the noise's scale; `values` stand in one text with blanks
/// between them.
fn noise(arguments: &Arguments) -> Result<Value, CallError> {
    let accounting = |error: &dyn std::fmt::Display| CallError::Accounting(error.to_string());
    let scale = arguments.number("scale", "a positive number")?;
    let noise = match arguments.text("kind")? {
        "laplace" => Noise::Laplace { scale },
        _ => Noise::Gaussian { sigma: scale },
    };
    let number = |text: &str| {
        let given =
            || CallError::Value { name: "x", given: text.to_owned(), must: "a finite number" };
        text.parse::<f64>().ok().filter(|v| v.is_finite()).ok_or_else(given)
    };
    let values: Vec<f64> =
        arguments.text("values")?.split_whitespace().map(number).collect::<Result<_, _>>()?;
    let grid = Grid::for_scale(noise.scale()).map_err(|e| accounting(&e))?;
    let seed = match arguments.seed()? {
        Some(seed) => Seed::from(seed),
        None => Seed::from_entropy(entropy()?),
    };
    let mut released = vec![0.0; values.len()];
    let mut stream = seed.stream(Purpose::Release, 0, 0);
    exact::release_values(&mut stream, &values, noise, grid, &mut released)
        .map_err(|e| accounting(&e))?;
    Ok(json!({ "values": released, "step": grid.step() }))
}

fn entropy() -> Result<[u8; 32], CallError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(CallError::Entropy)?;
    Ok(bytes)
}
