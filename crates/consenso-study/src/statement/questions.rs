//! What only a person knows, and the file in which they say it.

use super::{Answer, OPEN};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How an answer of a person has to look.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Text,
    Texts,
    Date,
    Word(&'static [&'static str]),
}

/// Questions that no record answers: the same in every paper, so that one file of answers serves
/// all of them.
const QUESTIONS: [(&str, Shape, &str); 27] = [
    ("curators", Shape::Texts, "names of the organisations that publish the result"),
    ("intended_use", Shape::Text, "what the model is for, and who decides by it"),
    ("out_of_scope", Shape::Text, "what the model must not be used for"),
    ("region", Shape::Text, "the region the records are from, and whose law applies"),
    ("sector", Shape::Word(&SECTORS), "the field the records are from"),
    ("published", Shape::Date, "when the result was published, as 2026-01-31"),
    ("plans", Shape::Text, "whether these records will be used again, and until when"),
    ("person", Shape::Text, "how many records one person can have in the records of one site"),
    ("legal_basis", Shape::Text, "legal basis or consent under which the records are used"),
    (
        "controllers",
        Shape::Text,
        "who is responsible for the records (the controller), and whether the sites answer jointly",
    ),
    (
        "informed",
        Shape::Text,
        "whether the people concerned were told of this use, and how they can object",
    ),
    (
        "processors",
        Shape::Text,
        "whether records, keys or this program lie on somebody else's computers, and whose",
    ),
    (
        "transfer",
        Shape::Text,
        "in which countries the other sites are, and on which basis messages are sent there",
    ),
    (
        "anonymity",
        Shape::Text,
        "whether messages and model are taken for personal data or for anonymous ones, and who decided so",
    ),
    (
        "incidents",
        Shape::Text,
        "what is done, and who is told, when a key, a folder or a machine falls into other hands",
    ),
    (
        "assessment",
        Shape::Text,
        "whether the impact on people was assessed, by whom, when, and with which result",
    ),
    (
        "categories",
        Shape::Text,
        "whose data it is (patients, customers, children, …), and whether any column is of a \
         special category, such as health, origin or belief",
    ),
    ("collection", Shape::Text, "how, when and from whom the records were collected"),
    ("retention", Shape::Text, "how long the records, the ledger and the model are kept"),
    (
        "access",
        Shape::Text,
        "who can read the records, keys and private folders, and how that is controlled",
    ),
    (
        "preparation",
        Shape::Text,
        "how records were chosen, cleaned or explored before, and whether that was accounted for",
    ),
    ("justification", Shape::Text, "why this ε, this δ, this unit and these sites; who decided"),
    (
        "groups",
        Shape::Text,
        "groups of people for whom the model may be worse, and how that was examined",
    ),
    ("bias", Shape::Text, "how the records came about and whom they leave out"),
    ("licence", Shape::Text, "under which licence the model is given away"),
    ("contact", Shape::Text, "whom to ask, and where people exercise their rights"),
    ("authors", Shape::Texts, "names of those who filled in this statement"),
];

/// Fields that the registry knows.
pub(super) const SECTORS: [&str; 6] =
    ["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"];

fn question(key: &str) -> Option<(Shape, &'static str)> {
    QUESTIONS.iter().find(|q| q.0 == key).map(|q| (q.1, q.2))
}

/// What stands in a document where an answer is open; nothing where a text cannot stand.
pub(super) fn placeholder(key: &str, what: &str) -> Option<Value> {
    let text = Value::from(format!("{OPEN}{what}"));
    match question(key)?.0 {
        Shape::Text => Some(text),
        Shape::Texts => Some(Value::from(vec![text])),
        Shape::Date | Shape::Word(_) => None,
    }
}

/// A file to fill in: every question that records cannot answer, as a comment over its key.
#[must_use]
pub fn questions() -> String {
    let mut out = String::from(
        "# What no record or ledger knows. Fill in what you can answer for and remove the # before it;\n\
         # then: consenso privacy statement … --answers THIS_FILE\n",
    );
    for (key, shape, what) in QUESTIONS {
        let _ = match shape {
            Shape::Text => writeln!(out, "\n# {what}\n# {key} = \"\""),
            Shape::Texts => writeln!(out, "\n# {what}\n# {key} = [\"\"]"),
            Shape::Date => writeln!(out, "\n# {what}\n# {key} = \"2026-01-31\""),
            Shape::Word(words) => {
                writeln!(out, "\n# {what}: one of {}\n# {key} = \"\"", words.join(", "))
            }
        };
    }
    out
}

/// What a person answers for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    given: BTreeMap<String, Value>,
}

/// Why a file of answers is not taken.
#[derive(Debug, thiserror::Error)]
pub enum AnswersError {
    /// It is not TOML.
    #[error("{file}: {cause}")]
    Toml {
        /// The file.
        file: String,
        /// What the reader said, with the line.
        cause: String,
    },
    /// A key is not among the questions.
    #[error("{file}: {key}: no question has this key\n  help: {known}")]
    Unknown {
        /// The file.
        file: String,
        /// The key.
        key: String,
        /// The keys there are.
        known: String,
    },
    /// An answer is not of the kind that is asked for.
    #[error("{file}: {key}: must be {wanted}")]
    Shape {
        /// The file.
        file: String,
        /// The key.
        key: String,
        /// What it must be.
        wanted: String,
    },
}

impl Answers {
    /// Reads a file that [`questions`] began.
    ///
    /// # Errors
    /// It is not TOML, or answers what nobody asks, or not as asked.
    pub fn parse(text: &str, file: &str) -> Result<Self, AnswersError> {
        let table: toml::Table = toml::from_str(text).map_err(|e| AnswersError::Toml {
            file: file.into(),
            cause: e.to_string().trim_end().to_owned(),
        })?;
        let mut given = BTreeMap::new();
        for (key, value) in table {
            let Some((shape, what)) = question(&key) else {
                let known: Vec<&str> = QUESTIONS.iter().map(|q| q.0).collect();
                let known = known.join(", ");
                return Err(AnswersError::Unknown { file: file.into(), key, known });
            };
            match shaped(shape, &value) {
                Ok(value) => given.insert(key, value),
                Err(form) => {
                    let wanted = format!("{}: {what}", form.0);
                    return Err(AnswersError::Shape { file: file.into(), key, wanted });
                }
            };
        }
        Ok(Self { given })
    }

    /// The answer to a question: a person's, or open.
    pub(super) fn to(&self, key: &str) -> Answer {
        match self.given.get(key) {
            Some(value) => Answer::Stated(value.clone()),
            None => Answer::Open {
                key: key.into(),
                what: question(key).map_or(String::new(), |q| q.1.to_owned()),
            },
        }
    }
}

/// What an answer should have been.
struct Wanted(String);

impl From<&str> for Wanted {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// The answer as JSON, or what it should have been.
fn shaped(shape: Shape, value: &toml::Value) -> Result<Value, Wanted> {
    let text = |v: &toml::Value| v.as_str().filter(|t| !t.trim().is_empty()).map(str::to_owned);
    match shape {
        Shape::Text => text(value).map(Value::from).ok_or_else(|| "a text in quotes".into()),
        Shape::Texts => value
            .as_array()
            .filter(|list| !list.is_empty())
            .and_then(|list| list.iter().map(text).collect::<Option<Vec<_>>>())
            .map(Value::from)
            .ok_or_else(|| "a list of texts, such as [\"A\", \"B\"]".into()),
        Shape::Date => text(value)
            .filter(|date| is_date(date))
            .map(Value::from)
            .ok_or_else(|| "a date in quotes, such as \"2026-01-31\"".into()),
        Shape::Word(words) => text(value)
            .filter(|word| words.contains(&word.as_str()))
            .map(Value::from)
            .ok_or_else(|| Wanted(format!("one of {}", words.join(", ")))),
    }
}

/// Whether a text is a date as the registry wants it.
pub(super) fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let within = |part: &str, digits: usize, low: u32, high: u32| {
        let number = part.parse::<u32>().ok().filter(|_| part.len() == digits);
        number.is_some_and(|n| (low..=high).contains(&n))
    };
    matches!(parts[..], [year, month, day]
        if within(year, 4, 1900, 9999) && within(month, 2, 1, 12) && within(day, 2, 1, 31))
}
