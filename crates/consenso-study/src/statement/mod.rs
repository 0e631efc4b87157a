//! Privacy statements for people who have to sign for a study: the entry of a public registry of
//! deployments, an answer sheet along NIST SP 800-226, a model card, or plain sentences.
//!
//! Every answer comes from a record or a ledger ([`Facts`]), or from a person ([`Answers`]), and
//! says which. What neither knows is open and marked: nothing is made up.
//!
//! ```
//! use consenso_study::statement::{Answers, Facts, Format, StudyFacts};
//!
//! let claim = "privacy claim  ε = 1.0000, δ = 1e-6\n  method       gdp — exact\n";
//! let study = StudyFacts::printed("dgd", 1.0, 1e-6, claim);
//! let facts = Facts { name: "wards".into(), studies: vec![study], ..Facts::default() };
//! let answers = Answers::parse("intended_use = \"Planning of beds\"", "answers.toml")?;
//! let statement = Format::Registry.statement(&facts, &answers);
//! assert_eq!(statement.document()["deployment"]["basic"]["name"], "wards");
//! assert!(statement.open().iter().any(|key| key == "region"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod card;
mod facts;
mod nist;
mod plain;
mod questions;
mod registry;
mod show;

pub use facts::{Facts, FactsError, Spent, StudyFacts, columns, task};
pub use questions::{Answers, AnswersError, questions};
pub use show::{html, text, yaml};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Which paper is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// An entry of the registry of deployments at registry.opendp.org, all three tiers.
    Registry,
    /// Answers to the questions of NIST SP 800-226, Guidelines for Evaluating Differential Privacy
    /// Guarantees.
    Nist,
    /// A model card (Mitchell et al. 2019) with the privacy claim.
    Card,
    /// Sentences for somebody who is no engineer.
    Text,
}

impl Format {
    /// The statement of these facts, with a person's answers where facts say nothing.
    #[must_use]
    pub fn statement(self, facts: &Facts, answers: &Answers) -> Statement {
        let (title, sections) = match self {
            Self::Registry => {
                ("Entry for a registry of deployments", registry::sections(facts, answers))
            }
            Self::Nist => ("Answer sheet along NIST SP 800-226", nist::sections(facts, answers)),
            Self::Card => ("Model card", card::sections(facts, answers)),
            Self::Text => ("What was given away", plain::sections(facts, answers)),
        };
        Statement {
            format: self,
            title: format!("{}: {title}", facts.name),
            about: facts.about(),
            sections,
        }
    }
}

/// A paper: sections of questions with their answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statement {
    /// Which paper it is.
    pub format: Format,
    /// Its title.
    pub title: String,
    /// Where its facts come from, and what they are worth.
    pub about: String,
    /// Its sections.
    pub sections: Vec<Section>,
}

/// Questions about one subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// The subject.
    pub title: String,
    /// Questions and answers.
    pub fields: Vec<Field>,
}

impl Section {
    fn new(title: &str, fields: impl IntoIterator<Item = Field>) -> Self {
        Self { title: title.into(), fields: fields.into_iter().collect() }
    }
}

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Field {
    /// Where the answer stands in [`Statement::document`], with dots between.
    pub key: String,
    /// The question, or the name of the field.
    pub question: String,
    /// The registry's tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<u8>,
    /// What is answered.
    pub answer: Answer,
}

/// An answer and whose it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// From the record or the ledger.
    Known(Value),
    /// From a person, who answers for it.
    Stated(Value),
    /// Open: a person has to add it.
    Open {
        /// Its key in a file of answers.
        key: String,
        /// What to write.
        what: String,
    },
}

impl Field {
    fn known(key: &str, question: &str, answer: impl Into<Value>) -> Self {
        Self::new(key, question, Answer::Known(answer.into()))
    }

    fn new(key: &str, question: &str, answer: Answer) -> Self {
        Self { key: key.into(), question: question.into(), tier: None, answer }
    }

    fn tier(mut self, tier: u8) -> Self {
        self.tier = Some(tier);
        self
    }
}

/// How an open answer begins, wherever a text can stand.
pub const OPEN: &str = "OPEN: ";

impl Statement {
    /// The answers as one object, nested by the keys' dots. Open answers that must be a text begin
    /// with [`OPEN`]; those that must be a date or a word of a list are left out.
    #[must_use]
    pub fn document(&self) -> Value {
        let mut all = Map::new();
        for field in self.sections.iter().flat_map(|section| &section.fields) {
            let value = match &field.answer {
                Answer::Known(value) | Answer::Stated(value) => value.clone(),
                Answer::Open { key, what } => match questions::placeholder(key, what) {
                    Some(value) => value,
                    None => continue,
                },
            };
            insert(&mut all, &field.key, value);
        }
        Value::Object(all)
    }

    /// Keys of what is open, each once.
    #[must_use]
    pub fn open(&self) -> Vec<String> {
        let mut keys = Vec::new();
        for field in self.sections.iter().flat_map(|section| &section.fields) {
            if let Answer::Open { key, .. } = &field.answer
                && !keys.contains(key)
            {
                keys.push(key.clone());
            }
        }
        keys
    }
}

fn insert(into: &mut Map<String, Value>, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            into.insert(key.into(), value);
        }
        Some((first, rest)) => {
            let inner = into.entry(first).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests;
