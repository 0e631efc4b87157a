//! Somebody else's results: a small JSON that any program can write.
//!
//! ```json
//! {
//!   "format": "consenso-board-result-1",
//!   "board": "quick",
//!   "method": "My DP-SGD",
//!   "about": "mini-batches of 64, clipped at 1",
//!   "source": "https://example.org/paper",
//!   "results": [
//!     { "problem": "heart", "graph": "complete", "condition": "plain", "epsilon": 1.0,
//!       "delta": 1e-5, "seed": 1, "measure": "accuracy", "value": 0.74, "bytes": 120000 }
//!   ]
//! }
//! ```
//!
//! ε is what its authors claim: nothing here can check it, and the page says so.

use crate::BoardError;
use crate::spec::Board;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What the first key of such a file says.
pub const FORMAT: &str = "consenso-board-result-1";

/// Results that somebody claims of a method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claimed {
    /// [`FORMAT`].
    pub format: String,
    /// The board they are of.
    pub board: String,
    /// The method's name.
    pub method: String,
    /// What it is, in a sentence.
    #[serde(default)]
    pub about: String,
    /// Where it is described.
    #[serde(default)]
    pub source: String,
    /// One per setting and seed.
    pub results: Vec<ClaimedResult>,
}

/// One claimed figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimedResult {
    /// The problem's name.
    pub problem: String,
    /// The graph's name.
    pub graph: String,
    /// The condition's name.
    pub condition: String,
    /// The claimed ε, one of the board's; `None` without privacy.
    pub epsilon: Option<f64>,
    /// The claimed δ.
    pub delta: Option<f64>,
    /// The seed of the board that its records are of.
    pub seed: u64,
    /// The problem's measure, so that nobody compares different figures.
    pub measure: String,
    /// The figure.
    pub value: f64,
    /// Bytes sent, if they were counted.
    pub bytes: Option<u64>,
    /// Rounds, if they were counted.
    pub rounds: Option<u64>,
}

/// Most results of one file.
const MOST: usize = 100_000;

impl Claimed {
    /// Reads results of a board; `file` is their name for messages.
    ///
    /// # Errors
    /// The first key that is missing, unknown or means nothing on this board.
    pub fn read(text: &str, file: &str, board: &Board) -> Result<Self, BoardError> {
        let value: Value = serde_json::from_str(text).map_err(|error| BoardError::Form {
            file: file.into(),
            line: Some(error.line()),
            message: format!("this is no JSON: {error}"),
        })?;
        let reader = Reader { file };
        let top = reader.object(&value, "")?;
        reader.known(top, "", &["format", "board", "method", "about", "source", "results"])?;
        let format = reader.text(top, "", "format")?;
        if format != FORMAT {
            return Err(BoardError::key(file, "format", format!("\"{format}\" is another format"))
                .help(format!("write \"{FORMAT}\"")));
        }
        let of = reader.text(top, "", "board")?;
        if of != board.name {
            let message =
                format!("these are results of \"{of}\", and this board is \"{}\"", board.name);
            return Err(BoardError::key(file, "board", message));
        }
        let method = reader.text(top, "", "method")?;
        if board.methods.iter().any(|m| m.name == method) {
            let message = format!("\"{method}\" is one of the board's own methods");
            return Err(BoardError::key(file, "method", message).help("give it another name"));
        }
        let or_empty = |key: &str| match top.contains_key(key) {
            true => reader.text(top, "", key),
            false => Ok(String::new()),
        };
        let list = top
            .get("results")
            .and_then(Value::as_array)
            .filter(|list| !list.is_empty() && list.len() <= MOST)
            .ok_or_else(|| {
                BoardError::key(
                    file,
                    "results",
                    format!("it must be a list of 1 to {MOST} results"),
                )
            })?;
        let results = list
            .iter()
            .enumerate()
            .map(|(index, value)| reader.result(value, index, board))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            format,
            board: of,
            method,
            about: or_empty("about")?,
            source: or_empty("source")?,
            results,
        })
    }
}

struct Reader<'a> {
    file: &'a str,
}

impl Reader<'_> {
    fn wrong(&self, at: &str, key: &str, message: impl Into<String>) -> BoardError {
        let key = [at, key].iter().filter(|s| !s.is_empty()).copied().collect::<Vec<_>>();
        BoardError::key(self.file, key.join("."), message)
    }

    fn object<'v>(&self, value: &'v Value, at: &str) -> Result<&'v Map<String, Value>, BoardError> {
        value.as_object().ok_or_else(|| self.wrong(at, "", "it must be an object"))
    }

    fn known(&self, map: &Map<String, Value>, at: &str, keys: &[&str]) -> Result<(), BoardError> {
        match map.keys().find(|key| !keys.contains(&key.as_str())) {
            Some(key) => Err(self
                .wrong(at, key, "there is no such key")
                .help(format!("known here: {}", keys.join(", ")))),
            None => Ok(()),
        }
    }

    fn text(&self, map: &Map<String, Value>, at: &str, key: &str) -> Result<String, BoardError> {
        match map.get(key) {
            None => Err(self.wrong(at, key, "it is missing")),
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.clone()),
            Some(_) => Err(self.wrong(at, key, "it must be a text")),
        }
    }

    fn number(
        &self,
        map: &Map<String, Value>,
        at: &str,
        key: &str,
    ) -> Result<Option<f64>, BoardError> {
        match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value
                .as_f64()
                .filter(|number| number.is_finite())
                .map(Some)
                .ok_or_else(|| self.wrong(at, key, "it must be a number")),
        }
    }

    fn count(
        &self,
        map: &Map<String, Value>,
        at: &str,
        key: &str,
    ) -> Result<Option<u64>, BoardError> {
        match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value
                .as_u64()
                .map(Some)
                .ok_or_else(|| self.wrong(at, key, "it must be a whole number, 0 or more")),
        }
    }

    fn result(
        &self,
        value: &Value,
        index: usize,
        board: &Board,
    ) -> Result<ClaimedResult, BoardError> {
        let at = format!("results.{index}");
        let map = self.object(value, &at)?;
        let keys = [
            "problem",
            "graph",
            "condition",
            "epsilon",
            "delta",
            "seed",
            "measure",
            "value",
            "bytes",
            "rounds",
        ];
        self.known(map, &at, &keys)?;
        let problem = self.text(map, &at, "problem")?;
        let of = |all: Vec<&str>, key: &str, name: &str| match all.contains(&name) {
            true => Ok(()),
            false => Err(self
                .wrong(&at, key, format!("the board has no \"{name}\""))
                .help(format!("it has {}", all.join(", ")))),
        };
        of(board.problems.iter().map(|p| p.name.as_str()).collect(), "problem", &problem)?;
        let graph = self.text(map, &at, "graph")?;
        of(board.graphs.iter().map(|g| g.name.as_str()).collect(), "graph", &graph)?;
        let condition = self.text(map, &at, "condition")?;
        of(board.conditions.iter().map(|c| c.name.as_str()).collect(), "condition", &condition)?;
        if !map.contains_key("epsilon") {
            return Err(self
                .wrong(&at, "epsilon", "it is missing")
                .help("write null for a run without privacy"));
        }
        let epsilon = self.number(map, &at, "epsilon")?;
        let names = [&problem, &graph, &condition];
        let here = |s: &&crate::spec::Setting| {
            let [p, g, c, _] = board.names(**s);
            names == [&p, &g, &c]
        };
        let budgets: Vec<Option<f64>> =
            board.settings().iter().filter(here).map(|s| s.epsilon).collect();
        if !budgets.contains(&epsilon) {
            let known: Vec<String> =
                budgets.into_iter().map(|e| e.map_or("null".into(), |e| e.to_string())).collect();
            let message = "the board has no such budget there";
            return Err(self
                .wrong(&at, "epsilon", message)
                .help(format!("it has {}", known.join(", "))));
        }
        let delta = self.number(map, &at, "delta")?;
        if epsilon.is_some() && !delta.is_some_and(|d| (0.0..1.0).contains(&d)) {
            return Err(self.wrong(
                &at,
                "delta",
                "a private result needs its δ, from 0 to below 1",
            ));
        }
        let measure = self.text(map, &at, "measure")?;
        let wanted = board.problems.iter().find(|p| p.name == problem).map(|p| &p.measure);
        if wanted.is_none_or(|wanted| wanted.figure != measure.replace('-', "_")) {
            let figure = wanted.map_or("", |w| w.figure.as_str());
            let message = format!("{problem} is judged by {figure}");
            return Err(self.wrong(&at, "measure", message));
        }
        let seed = self.count(map, &at, "seed")?;
        let seed = seed.ok_or_else(|| self.wrong(&at, "seed", "it is missing"))?;
        if !board.seeds.contains(&seed) {
            let known: Vec<String> = board.seeds.iter().map(u64::to_string).collect();
            return Err(self
                .wrong(&at, "seed", "the board has no such seed")
                .help(format!("it has {}", known.join(", "))));
        }
        let value = self.number(map, &at, "value")?;
        let value = value.ok_or_else(|| self.wrong(&at, "value", "it is missing"))?;
        Ok(ClaimedResult {
            problem,
            graph,
            condition,
            epsilon,
            delta,
            seed,
            measure,
            value,
            bytes: self.count(map, &at, "bytes")?,
            rounds: self.count(map, &at, "rounds")?,
        })
    }
}
