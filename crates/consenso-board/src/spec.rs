//! Board files: which methods are compared, and on what.

use crate::BoardError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use toml::{Table, Value};

/// A board file as it is written.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BoardFile {
    /// Its name, in titles and folders.
    name: String,
    /// What it is for, in a sentence.
    #[serde(default)]
    about: String,
    /// How many seeds, or which: every seed has shards, graphs, test records and noise of its own.
    #[serde(default = "three_seeds")]
    seeds: Seeds,
    /// Budgets: numbers, and `"none"` for runs without privacy.
    #[serde(default = "no_budget")]
    epsilon: Vec<Epsilon>,
    /// δ of every budget.
    #[serde(default = "default_delta")]
    delta: f64,
    /// Which data sets are neighbours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    neighbours: Option<String>,
    /// `"none"`, or `{ trials = N }`.
    #[serde(default)]
    tuning: TuningSpec,
    /// What a link takes, unless a condition says otherwise.
    #[serde(default)]
    link: Link,
    problem: Vec<ProblemSpec>,
    graph: Vec<Table>,
    #[serde(default)]
    condition: Vec<Table>,
    method: Vec<Table>,
    /// Figures from papers, shown beside the board's own.
    #[serde(default)]
    published: Vec<Published>,
}

fn three_seeds() -> Seeds {
    Seeds::Count(3)
}

fn no_budget() -> Vec<Epsilon> {
    vec![Epsilon::Word(NoBudget::None)]
}

fn default_delta() -> f64 {
    1e-5
}

/// `seeds = 3`, or `seeds = [1, 2, 5]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number of seeds, or a list of them")]
enum Seeds {
    Count(u32),
    List(Vec<u64>),
}

/// A budget of a list: a number, or `"none"`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number, or \"none\" for runs without privacy")]
enum Epsilon {
    Number(f64),
    Word(NoBudget),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum NoBudget {
    None,
}

/// `tuning = "none"` or `{ trials = 6, seeds = 2 }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "\"none\", or { trials = N, seeds = V }")]
enum TuningSpec {
    Word(NoBudget),
    Trials {
        trials: u32,
        #[serde(default = "one")]
        seeds: u32,
    },
}

impl Default for TuningSpec {
    fn default() -> Self {
        Self::Word(NoBudget::None)
    }
}

fn one() -> u32 {
    1
}

/// `link = { latency_ms = 20, bandwidth_mbit = 100 }`: what simulated seconds are counted with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Link {
    /// Milliseconds from one end of a link to the other.
    pub latency_ms: f64,
    /// Megabits in a second that an agent can send to all its neighbours together.
    pub bandwidth_mbit: f64,
}

impl Default for Link {
    fn default() -> Self {
        Self { latency_ms: 20.0, bandwidth_mbit: 100.0 }
    }
}

/// What is minimised, on whose records, and what counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProblemSpec {
    name: String,
    #[serde(default)]
    about: String,
    /// The figure that methods are compared by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measure: Option<String>,
    /// Budgets of this problem instead of the board's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epsilon: Option<Vec<Epsilon>>,
    /// δ of this problem instead of the board's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delta: Option<f64>,
    /// Names of the only graphs it is run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    graphs: Option<Vec<String>>,
    /// Names of the only conditions it is run under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conditions: Option<Vec<String>>,
    /// Names of the only methods that are run on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    methods: Option<Vec<String>>,
    /// `[data]` of its experiments.
    data: Table,
    /// `[objective]` of its experiments.
    #[serde(default)]
    objective: Table,
}

/// A figure from a paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The problem it is about.
    pub problem: String,
    /// What its authors call the method.
    pub method: String,
    /// ε as published; `None` without privacy.
    #[serde(default)]
    pub epsilon: Option<f64>,
    /// δ as published.
    #[serde(default)]
    pub delta: Option<f64>,
    /// The figure, in the problem's measure.
    pub value: f64,
    /// Where it was published.
    pub source: String,
    /// What differs from the setting here.
    #[serde(default)]
    pub note: String,
}

/// A figure that methods are compared by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    /// Its key among the figures of a cell.
    pub figure: String,
}

/// Every measure: its key, how it is written on a page, and whether more is better.
const MEASURES: [(&str, &str, bool); 15] = [
    ("accuracy", "accuracy", true),
    ("site_accuracy", "accuracy, mean over sites", true),
    ("balanced_accuracy", "balanced accuracy", true),
    ("auc", "AUC", true),
    ("average_precision", "average precision", true),
    ("f1", "F1", true),
    ("r2", "R²", true),
    ("d2", "D²", true),
    ("c_index", "C-index", true),
    ("log_loss", "log loss", false),
    ("rmse", "root mean squared error", false),
    ("mse", "mean squared error", false),
    ("mae", "mean absolute error", false),
    ("deviance", "deviance", false),
    ("gap", "objective gap", false),
];

impl Measure {
    fn named(name: &str) -> Option<Self> {
        MEASURES.iter().find(|m| m.0 == name).map(|m| Self { figure: m.0.into() })
    }

    /// Returns how it is written on a page.
    #[must_use]
    pub fn label(&self) -> &str {
        MEASURES.iter().find(|m| m.0 == self.figure).map_or(&self.figure, |m| m.1)
    }

    /// Returns whether more of it is better.
    #[must_use]
    pub fn more_is_better(&self) -> bool {
        MEASURES.iter().any(|m| m.0 == self.figure && m.2)
    }

    /// Returns a figure as it is ranked: differences that no reader would report are ties, 10⁻⁴ of
    /// a share or an R², a ten-thousandth of an error.
    #[must_use]
    pub fn ranked(&self, value: f64) -> f64 {
        match self.more_is_better() || !value.is_normal() {
            true => (1e4 * value).round() / 1e4,
            false => format!("{value:.3e}").parse().unwrap_or(value),
        }
    }

    /// Returns whether it is shown as a percentage.
    #[must_use]
    pub fn is_share(&self) -> bool {
        self.figure.ends_with("accuracy")
    }
}

/// One problem of a board.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Its name.
    pub name: String,
    /// What it is, in a sentence.
    pub about: String,
    /// The figure that methods are compared by.
    pub measure: Measure,
    /// δ of its budgets.
    pub delta: f64,
    data: Table,
    objective: Table,
}

impl Problem {
    /// Returns the pattern of the files it is made from; `None` for bundled and made-up records.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.data.get("path").and_then(Value::as_str)
    }

    /// Has a problem read other files.
    pub fn set_data(&mut self, key: &str, value: &str) {
        self.data.insert(key.into(), Value::String(value.into()));
    }
}

/// One method of a board: an algorithm and how it is run.
#[derive(Clone, Debug)]
pub struct Method {
    /// Its name on the board.
    pub name: String,
    /// What it is, in a sentence.
    pub about: String,
    /// Whether it is judged by the models that sites make of the shared one for themselves.
    pub personal: bool,
    /// Parameters of the algorithm, `kind` among them.
    pub algorithm: Table,
    /// Other keys of its experiments.
    with: Table,
    /// Values to choose from, key by key.
    grid: Table,
}

impl Method {
    /// Returns the kind of its algorithm.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.algorithm.get("kind").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the trials that a budget of so many allows: what the board says of the method first,
    /// then points of its grid, spread over all of it.
    #[must_use]
    pub fn trials(&self, most: u32) -> Vec<Table> {
        let axes: Vec<(&String, &Vec<Value>)> =
            self.grid.iter().filter_map(|(key, values)| Some((key, values.as_array()?))).collect();
        let all: usize = axes.iter().map(|(_, values)| values.len()).product();
        let mut trials = vec![Table::new()];
        if axes.is_empty() || most < 2 {
            return trials;
        }
        let others = (most as usize - 1).min(all);
        for k in 0..others {
            // Evenly through the whole grid: the first of n points is not the only corner seen.
            let mut at = if others == all { k } else { (2 * k + 1) * all / (2 * others) };
            let mut trial = Table::new();
            for (key, values) in &axes {
                trial.insert((*key).clone(), values[at % values.len()].clone());
                at /= values.len();
            }
            trials.push(trial);
        }
        trials
    }
}

/// A name and the keys behind it.
#[derive(Clone, Debug)]
pub struct Named {
    /// The name.
    pub name: String,
    keys: Table,
}

/// How the parameters of methods were chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tuning {
    /// By the defaults, or as the board says.
    None,
    /// The best of so many trials on validation seeds.
    Trials {
        /// Trials of every method in every setting, its defaults among them.
        trials: u32,
        /// Validation seeds of every trial.
        seeds: u32,
    },
}

/// A board: a file that was checked.
#[derive(Clone, Debug)]
pub struct Board {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub about: String,
    /// The seeds that count.
    pub seeds: Vec<u64>,
    /// How parameters are chosen.
    pub tuning: Tuning,
    /// What is minimised.
    pub problems: Vec<Problem>,
    /// Who talks to whom.
    pub graphs: Vec<Named>,
    /// What the network does to messages.
    pub conditions: Vec<Named>,
    /// What is compared.
    pub methods: Vec<Method>,
    /// Figures from papers.
    pub published: Vec<Published>,
    /// What a link takes.
    pub link: Link,
    neighbours: Option<String>,
    settings: Vec<Setting>,
    only: Vec<Option<Vec<String>>>,
}

/// Where methods meet: one problem on one graph under one condition and one budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Index of the problem.
    pub problem: usize,
    /// Index of the graph.
    pub graph: usize,
    /// Index of the condition.
    pub condition: usize,
    /// The budget; `None` without privacy.
    pub epsilon: Option<f64>,
}

/// How far validation seeds are from those that count.
const VALIDATION: u64 = 1_000_000;

impl Board {
    /// Reads and checks a board file; `file` is its name for messages.
    ///
    /// # Errors
    /// The first thing that is not as it should be, with its line or its key.
    pub fn from_toml(text: &str, file: &str) -> Result<Self, BoardError> {
        let read: BoardFile = toml::from_str(text).map_err(|error| BoardError::Form {
            file: file.into(),
            line: error
                .span()
                .map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1),
            message: error.message().into(),
        })?;
        let at = |key: String, message: &str| BoardError::key(file, key, message);
        let name = crate::cell::stem(&read.name);
        if name.is_empty() {
            return Err(at("name".into(), "a board needs a name of letters and digits"));
        }
        let seeds = seeds(read.seeds, file)?;
        let tuning = tuning(read.tuning, file)?;
        let graphs = named(read.graph, "graph", "kind", file)?;
        let conditions = match read.condition.is_empty() {
            true => vec![Named { name: "plain".into(), keys: Table::new() }],
            false => named(read.condition, "condition", "", file)?,
        };
        let methods = read
            .method
            .into_iter()
            .enumerate()
            .map(|(index, table)| method(table, index, file))
            .collect::<Result<Vec<_>, _>>()?;
        unique(methods.iter().map(|m| m.name.as_str()), "method", file)?;
        unique(read.problem.iter().map(|p| p.name.as_str()), "problem", file)?;
        let (mut problems, mut settings, mut only) = (Vec::new(), Vec::new(), Vec::new());
        for (index, spec) in read.problem.into_iter().enumerate() {
            let key = |name: &str| format!("problem.{index}.{name}");
            let (g, c, m) =
                (names(&graphs), names(&conditions), methods.iter().map(|m| m.name.as_str()));
            listed(spec.graphs.as_deref(), &g, key("graphs"), file)?;
            listed(spec.conditions.as_deref(), &c, key("conditions"), file)?;
            listed(spec.methods.as_deref(), &m.collect::<Vec<_>>(), key("methods"), file)?;
            let measure = measure(&spec).ok_or_else(|| {
                at(key("measure"), "there is no such measure")
                    .help(format!("there are {}", MEASURES.map(|m| m.0).join(", ")))
            })?;
            let delta = spec.delta.unwrap_or(read.delta);
            if !(delta > 0.0 && delta < 1.0) {
                return Err(at(key("delta"), "δ must lie between 0 and 1"));
            }
            let budgets = spec.epsilon.as_ref().unwrap_or(&read.epsilon);
            let budgets = budgets
                .iter()
                .map(|budget| epsilon(budget, file))
                .collect::<Result<Vec<_>, _>>()?;
            for g in chosen(spec.graphs.as_deref(), &graphs) {
                for c in chosen(spec.conditions.as_deref(), &conditions) {
                    settings.extend(budgets.iter().map(|&epsilon| Setting {
                        problem: index,
                        graph: g,
                        condition: c,
                        epsilon,
                    }));
                }
            }
            only.push(spec.methods);
            let ProblemSpec { name, about, data, objective, .. } = spec;
            problems.push(Problem { name, about, measure, delta, data, objective });
        }
        for (index, figure) in read.published.iter().enumerate() {
            if !problems.iter().any(|p| p.name == figure.problem) {
                let message = format!("there is no problem \"{}\"", figure.problem);
                return Err(at(format!("published.{index}.problem"), &message));
            }
        }
        if settings.is_empty() || methods.is_empty() {
            return Err(at(
                "problem".into(),
                "a board needs a problem, a graph, a budget and a method",
            ));
        }
        let BoardFile { about, neighbours, published, link, .. } = read;
        Ok(Self {
            name,
            about,
            seeds,
            tuning,
            problems,
            graphs,
            conditions,
            methods,
            published,
            link,
            neighbours,
            settings,
            only,
        })
    }

    /// Returns every setting, in order.
    #[must_use]
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// Leaves out problems by their name, with their settings and published figures.
    pub fn leave_out(&mut self, problem: &str) {
        let Some(index) = self.problems.iter().position(|p| p.name == problem) else { return };
        self.settings.retain(|s| s.problem != index);
        for setting in self.settings.iter_mut().filter(|s| s.problem > index) {
            setting.problem -= 1;
        }
        self.problems.remove(index);
        self.only.remove(index);
        self.published.retain(|p| p.problem != problem);
    }

    /// Returns the methods that are run in a setting, by their index.
    pub fn methods_in(&self, setting: Setting) -> impl Iterator<Item = usize> + '_ {
        let only = self.only[setting.problem].as_ref();
        let runs = move |m: &Method| only.is_none_or(|list| list.contains(&m.name));
        (0..self.methods.len()).filter(move |&m| runs(&self.methods[m]))
    }

    /// Returns the names of a setting: problem, graph, condition, and ε as it is written in names.
    #[must_use]
    pub fn names(&self, setting: Setting) -> [String; 4] {
        [
            self.problems[setting.problem].name.clone(),
            self.graphs[setting.graph].name.clone(),
            self.conditions[setting.condition].name.clone(),
            epsilon_name(setting.epsilon),
        ]
    }

    /// Returns why a method does not go with a setting without the place in its experiment, which no
    /// reader of a board sees.
    #[must_use]
    pub fn reason(&self, setting: Setting, refusal: &str) -> String {
        let file = format!("{}:", self.names(setting).join(", "));
        let rest = refusal.strip_prefix(&file).unwrap_or(refusal);
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':' || c == ' ');
        let of = rest.strip_prefix("algorithm ").and_then(|r| r.split_once(": "));
        let numbered = of.filter(|(number, _)| number.chars().all(|c| c.is_ascii_digit()));
        numbered.map_or(rest, |(_, reason)| reason).to_owned()
    }

    /// Returns what a condition does to messages, as its file says it; nothing where the network is
    /// perfect.
    #[must_use]
    pub fn condition_keys(&self, condition: usize) -> &Table {
        &self.conditions[condition].keys
    }

    /// Returns the seeds that methods are tuned on; none without tuning.
    #[must_use]
    pub fn validation_seeds(&self) -> Vec<u64> {
        match self.tuning {
            Tuning::None => Vec::new(),
            Tuning::Trials { seeds, .. } => {
                (1..=u64::from(seeds)).map(|s| VALIDATION + s).collect()
            }
        }
    }

    /// Returns methods in groups that can share an experiment: those whose other keys are the same.
    #[must_use]
    pub fn groups(&self, methods: &[usize]) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for &method in methods {
            let same = |group: &&mut Vec<usize>| {
                let first = &self.methods[group[0]];
                first.with == self.methods[method].with
                    && first.personal == self.methods[method].personal
            };
            match groups.iter_mut().find(same) {
                Some(group) => group.push(method),
                None => groups.push(vec![method]),
            }
        }
        groups
    }

    /// Returns an experiment that only divides the records of a setting among its agents, for those
    /// who run a method of their own on them.
    #[must_use]
    pub fn division(&self, setting: Setting, seed: u64) -> String {
        let perfect = Setting { epsilon: None, ..setting };
        let text = self.experiment(perfect, seed, &[]);
        let mut file: Table = toml::from_str(&text).unwrap_or_default();
        file.remove("conditions");
        file.remove("delays");
        file.remove("drop_out");
        let mut one = Table::new();
        one.insert("kind".into(), Value::String("dgd".into()));
        one.insert("rounds".into(), Value::Integer(1));
        one.insert("step".into(), Value::Float(0.1));
        file.insert("algorithm".into(), Value::Array(vec![Value::Table(one)]));
        toml::to_string_pretty(&file).unwrap_or_else(|e| format!("# {e}\n"))
    }

    /// Returns the experiment of methods of one group in a setting, as a file: each with the
    /// parameters that a trial adds to its own, under its label.
    #[must_use]
    pub fn experiment(
        &self,
        setting: Setting,
        seed: u64,
        methods: &[(usize, &Table, String)],
    ) -> String {
        let problem = &self.problems[setting.problem];
        let mut file = Table::new();
        let mut put = |key: &str, value: Value| file.insert(key.into(), value);
        put("name", Value::String(format!("{}: {}", self.name, self.names(setting).join(", "))));
        put("seed", Value::Integer(seed as i64));
        put("runs", Value::Integer(1));
        // Curves are not on the board, and every point of one costs a pass over all records.
        put("trace_every", Value::Integer(1_000_000));
        put("data", Value::Table(problem.data.clone()));
        if !problem.objective.is_empty() {
            put("objective", Value::Table(problem.objective.clone()));
        }
        put("graph", Value::Table(self.graphs[setting.graph].keys.clone()));
        let condition = &self.conditions[setting.condition].keys;
        for (key, value) in condition {
            match key.as_str() {
                "delays" | "drop_out" => put(key, value.clone()),
                _ => None,
            };
        }
        let Link { latency_ms, bandwidth_mbit } = self.link;
        let mut network = Table::new();
        network.insert("latency_ms".into(), Value::Float(latency_ms));
        network.insert("bandwidth_mbit".into(), Value::Float(bandwidth_mbit));
        let of_messages = |key: &str| !["delays", "drop_out"].contains(&key);
        let keys = condition.iter().filter(|(key, _)| of_messages(key));
        network.extend(keys.map(|(key, value)| (key.clone(), value.clone())));
        put("conditions", Value::Table(network));
        if let Some(epsilon) = setting.epsilon {
            let mut privacy = Table::new();
            privacy.insert("epsilon".into(), Value::Float(epsilon));
            privacy.insert("delta".into(), Value::Float(problem.delta));
            if let Some(neighbours) = &self.neighbours {
                privacy.insert("neighbours".into(), Value::String(neighbours.clone()));
            }
            put("privacy", Value::Table(privacy));
        }
        if let Some(&(first, ..)) = methods.first() {
            let first = &self.methods[first];
            merge(&mut file, &first.with);
            if first.personal {
                file.insert("models".into(), Value::String("personal".into()));
            }
        }
        let algorithm = methods.iter().map(|(index, trial, label)| {
            let mut table = self.methods[*index].algorithm.clone();
            merge(&mut table, trial);
            table.insert("label".into(), Value::String(label.clone()));
            Value::Table(table)
        });
        file.insert("algorithm".into(), Value::Array(algorithm.collect()));
        toml::to_string_pretty(&file).unwrap_or_else(|e| format!("# {e}\n"))
    }
}

/// Returns how ε is written in names and on the page.
#[must_use]
pub fn epsilon_name(epsilon: Option<f64>) -> String {
    epsilon.map_or_else(|| "none".into(), |e| format!("{e}"))
}

/// Puts the keys of one table over those of another, tables inside by their keys.
fn merge(onto: &mut Table, over: &Table) {
    for (key, value) in over {
        match (onto.get_mut(key), value) {
            (Some(Value::Table(onto)), Value::Table(over)) => merge(onto, over),
            _ => {
                onto.insert(key.clone(), value.clone());
            }
        }
    }
}

fn seeds(given: Seeds, file: &str) -> Result<Vec<u64>, BoardError> {
    let seeds: Vec<u64> = match given {
        Seeds::Count(count) => (1..=u64::from(count)).collect(),
        Seeds::List(list) => list,
    };
    if seeds.is_empty() || seeds.iter().any(|seed| *seed >= VALIDATION) {
        let message = "at least one seed is needed, each below 1000000";
        return Err(BoardError::key(file, "seeds".to_owned(), message)
            .help("larger ones are those that methods are tuned on"));
    }
    Ok(seeds)
}

fn tuning(given: TuningSpec, file: &str) -> Result<Tuning, BoardError> {
    match given {
        TuningSpec::Word(_) => Ok(Tuning::None),
        TuningSpec::Trials { trials: 0, .. } | TuningSpec::Trials { seeds: 0, .. } => {
            let message = "trials and seeds must be at least 1";
            Err(BoardError::key(file, "tuning".to_owned(), message))
        }
        TuningSpec::Trials { trials, seeds } => Ok(Tuning::Trials { trials, seeds }),
    }
}

fn epsilon(budget: &Epsilon, file: &str) -> Result<Option<f64>, BoardError> {
    match budget {
        Epsilon::Number(e) if !(*e > 0.0 && e.is_finite()) => {
            Err(BoardError::key(file, "epsilon".to_owned(), "a budget must be positive")
                .help("write \"none\" for runs without privacy"))
        }
        Epsilon::Number(e) => Ok(Some(*e)),
        Epsilon::Word(NoBudget::None) => Ok(None),
    }
}

fn names(all: &[Named]) -> Vec<&str> {
    all.iter().map(|one| one.name.as_str()).collect()
}

/// Refuses a list with a name that is none of `all`.
fn listed(
    list: Option<&[String]>,
    all: &[&str],
    key: String,
    file: &str,
) -> Result<(), BoardError> {
    match list.into_iter().flatten().find(|name| !all.contains(&name.as_str())) {
        Some(unknown) => Err(BoardError::key(file, key, format!("there is no \"{unknown}\""))
            .help(format!("there are {}", all.join(", ")))),
        None => Ok(()),
    }
}

/// Indices of those that a list names; of all without a list.
fn chosen<'a>(
    list: Option<&'a [String]>,
    all: &'a [Named],
) -> impl Iterator<Item = usize> + Clone + 'a {
    let named = move |one: &Named| list.is_none_or(|list| list.contains(&one.name));
    (0..all.len()).filter(move |&index| named(&all[index]))
}

fn measure(problem: &ProblemSpec) -> Option<Measure> {
    if let Some(name) = &problem.measure {
        return Measure::named(&name.replace('-', "_"));
    }
    let made_up = problem
        .data
        .get("source")
        .and_then(Value::as_str)
        .is_some_and(|s| ["logistic", "ridge", "softmax"].contains(&s));
    let loss = problem.objective.get("loss").and_then(Value::as_str).unwrap_or("logistic");
    Measure::named(match loss {
        _ if made_up => "gap",
        "logistic" | "softmax" | "probit" | "squared-hinge" | "ordinal" => "accuracy",
        "hazards" => "c_index",
        "poisson" | "gamma" | "negative-binomial" => "d2",
        _ => "r2",
    })
}

fn unique<'a>(
    names: impl Iterator<Item = &'a str>,
    key: &str,
    file: &str,
) -> Result<(), BoardError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(crate::cell::stem(name)) {
            let message = format!("\"{name}\" is there twice");
            return Err(BoardError::key(file, format!("{key}.name"), message));
        }
    }
    Ok(())
}

/// Tables with a name, by default the value of another key.
fn named(
    tables: Vec<Table>,
    what: &str,
    default: &str,
    file: &str,
) -> Result<Vec<Named>, BoardError> {
    let mut all = Vec::new();
    for (index, mut keys) in tables.into_iter().enumerate() {
        let name =
            match keys.remove("name") {
                Some(Value::String(name)) => name,
                Some(_) => {
                    return Err(BoardError::key(
                        file,
                        format!("{what}.{index}.name"),
                        "a name is a text",
                    ));
                }
                None => keys.get(default).and_then(Value::as_str).map(str::to_owned).ok_or_else(
                    || BoardError::key(file, format!("{what}.{index}.name"), "it has no name"),
                )?,
            };
        all.push(Named { name, keys });
    }
    unique(all.iter().map(|n| n.name.as_str()), what, file)?;
    Ok(all)
}

fn method(mut table: Table, index: usize, file: &str) -> Result<Method, BoardError> {
    let at =
        |key: &str, message: &str| BoardError::key(file, format!("method.{index}.{key}"), message);
    let kind = match table.get("kind") {
        Some(Value::String(kind)) => kind.clone(),
        _ => {
            return Err(at(
                "kind",
                "a method needs the kind of an algorithm, as in kind = \"dgd\"",
            ));
        }
    };
    let text = |table: &mut Table, key: &str, default: &str| match table.remove(key) {
        None => Ok(default.to_owned()),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(at(key, "it must be a text")),
    };
    let name = text(&mut table, "name", &kind)?;
    let about = text(&mut table, "about", "")?;
    let inner = |table: &mut Table, key: &str| match table.remove(key) {
        None => Ok(Table::new()),
        Some(Value::Table(inner)) => Ok(inner),
        Some(_) => Err(at(key, "it must be a table")),
    };
    let with = inner(&mut table, "with")?;
    let grid = inner(&mut table, "grid")?;
    if let Some((key, _)) = grid.iter().find(|(_, v)| v.as_array().is_none_or(Vec::is_empty)) {
        return Err(at(&format!("grid.{key}"), "it must be a list of values to try"));
    }
    let personal = match table.remove("personal") {
        None => false,
        Some(Value::Boolean(personal)) => personal,
        Some(_) => return Err(at("personal", "it must be true or false")),
    };
    if table.contains_key("label") {
        return Err(at("label", "a method is called by its name").help("write name = \"…\""));
    }
    Ok(Method { name, about, personal, algorithm: table, with, grid })
}
