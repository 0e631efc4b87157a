//! Questions as a few words: `mean age by sex`, `quantiles age q=0.25,0.5,0.75`, `count by site`,
//! `crosstab sex occupation`, `survival time event by arm`, `mean age ± 1`.

use crate::error::QuestionError;
use crate::question::{Question, QuestionKind};

impl Question {
    /// Reads a question as `consenso ask` takes it: the kind, its columns, then `by` a column or
    /// `site`, `key=value` and `±` a number, in any order. Names with blanks stand in quotes.
    ///
    /// # Errors
    /// [`QuestionError`]: an unknown kind or key, or a word that is missing.
    pub fn from_phrase(text: &str, number: usize) -> Result<Self, QuestionError> {
        let fail = |message: String| QuestionError::new(number, "kind", message);
        let words = words(text);
        let mut words = words.iter().map(String::as_str);
        let kinds = || QuestionKind::ALL.map(|(_, name)| name).join(", ");
        let first = words
            .next()
            .ok_or_else(|| fail(format!("an empty question; begin with {}", kinds())))?;
        let plain = |name: &&(QuestionKind, &str)| {
            name.1 == first
                || name.1.strip_suffix('s') == Some(first)
                || name.1 == format!("{first}s")
        };
        let (kind, _) = QuestionKind::ALL
            .iter()
            .find(|k| k.1 == first)
            .or_else(|| QuestionKind::ALL.iter().find(plain))
            .ok_or_else(|| {
                fail(format!("\"{first}\" is no kind of question; use one of {}", kinds()))
            })?;
        let mut question = Self::new(*kind);
        let mut named = Vec::new();
        while let Some(word) = words.next() {
            let mut next = |after: &str| {
                words.next().map(str::to_owned).ok_or_else(|| {
                    fail(format!("\"{after}\" ends the question: say what follows it"))
                })
            };
            match word {
                "by" => question.by = Some(next("by")?),
                "of" | "and" => {}
                "±" | "+-" => {
                    question.precision = Some(parsed(&next(word)?, "precision", number)?);
                }
                word => match word.split_once('=') {
                    Some((key, value)) => set(&mut question, key, value, number)?,
                    None => named.push(word.trim_end_matches(',').to_owned()),
                },
            }
        }
        name(&mut question, named);
        Ok(question)
    }
}

/// Gives the columns that a phrase names their roles.
fn name(question: &mut Question, mut named: Vec<String>) {
    match question.kind {
        QuestionKind::Crosstab | QuestionKind::Correlation | QuestionKind::Summary => {
            question.columns = named;
        }
        kind => {
            let mut named = named.drain(..);
            question.column = named.next();
            match kind {
                QuestionKind::Survival => question.event = named.next(),
                QuestionKind::Roc => question.label = named.next(),
                // What is left over is refused when the question is planned.
                _ => question.columns = named.collect(),
            }
        }
    }
}

fn set(
    question: &mut Question,
    key: &str,
    value: &str,
    number: usize,
) -> Result<(), QuestionError> {
    let list = || value.split(',').map(|v| parsed(v, "q", number)).collect::<Result<Vec<_>, _>>();
    match key {
        "q" => question.q = list()?,
        "cuts" => question.cuts = list()?,
        "bins" => question.bins = Some(parsed(value, "bins", number)?),
        "weight" => question.weight = Some(parsed(value, "weight", number)?),
        "precision" => question.precision = Some(parsed(value, "precision", number)?),
        "horizon" => question.horizon = Some(parsed(value, "horizon", number)?),
        "by" => question.by = Some(value.to_owned()),
        "event" => question.event = Some(value.to_owned()),
        "label" => question.label = Some(value.to_owned()),
        "column" => question.column = Some(value.to_owned()),
        _ => {
            let keys = "q, bins, cuts, weight, precision, horizon, by, event, label";
            return Err(QuestionError::new(
                number,
                "kind",
                format!("\"{key}\" is no key of a question; there are {keys}"),
            ));
        }
    }
    Ok(())
}

fn parsed<T: std::str::FromStr>(
    text: &str,
    key: &'static str,
    number: usize,
) -> Result<T, QuestionError> {
    text.trim()
        .parse()
        .map_err(|_| QuestionError::new(number, key, format!("\"{text}\" is not a number")))
}

/// The words of a text; what stands in quotes is one.
fn words(text: &str) -> Vec<String> {
    let (mut all, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, c) if c.is_whitespace() => {
                if !word.is_empty() {
                    all.push(std::mem::take(&mut word));
                }
            }
            (_, c) => word.push(c),
        }
    }
    if !word.is_empty() {
        all.push(word);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_says_what_a_table_says() {
        let of = |text: &str| Question::from_phrase(text, 0).unwrap();
        let question = of("quantiles \"hours per week\" q=0.25,0.5 by sex");
        assert_eq!(question.column.as_deref(), Some("hours per week"));
        assert_eq!(
            (question.q.as_slice(), question.by.as_deref()),
            (&[0.25, 0.5][..], Some("sex"))
        );
        assert_eq!(of("mean age ± 1").precision, Some(1.0));
        assert_eq!(of("survival time dead by arm").event.as_deref(), Some("dead"));
        assert_eq!(of("crosstab sex, race").columns, ["sex", "race"]);
        for phrase in
            ["mean age by sex ± 0.5", "roc score ill", "histogram age bins=8", "count by site"]
        {
            assert_eq!(of(phrase).phrase(), phrase);
            assert_eq!(of(&of(phrase).phrase()), of(phrase));
        }
        assert!(
            Question::from_phrase("media age", 1)
                .unwrap_err()
                .to_string()
                .starts_with("query 2: kind: \"media\"")
        );
        assert!(Question::from_phrase("mean age by", 0).is_err());
    }
}
