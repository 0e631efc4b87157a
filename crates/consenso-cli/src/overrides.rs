//! `--set key=value`: changes to an experiment file before it is read.

use anyhow::{Context as _, Result, bail};
use consenso_engine::experiment::{ExperimentSpec, SpecError};
use consenso_study::ExperimentFile as _;
use toml::{Table, Value};

/// One `--set`: a dotted key and what to put there; nothing removes the key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Override {
    key: Vec<String>,
    value: Option<Value>,
}

impl std::str::FromStr for Override {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (key, value) = text.split_once('=').with_context(|| {
            format!("--set {text}: write key=value, for example --set data.agents=20")
        })?;
        let key: Vec<String> = key.trim().split('.').map(|part| part.trim().to_owned()).collect();
        if key.iter().any(String::is_empty) {
            bail!("--set {text}: the key has an empty part; write it like data.agents");
        }
        Ok(Self { key, value: parse_value(value.trim(), text)? })
    }
}

/// A TOML value; what cannot be one is a string, so that quotes may be left to the shell.
fn parse_value(value: &str, whole: &str) -> Result<Option<Value>> {
    if value.is_empty() {
        return Ok(None);
    }
    match toml::from_str::<Table>(&format!("value = {value}")) {
        Ok(mut table) => Ok(table.remove("value")),
        Err(e) if value.starts_with(['[', '{', '"', '\'']) => {
            bail!("--set {whole}: {}", e.message().replace('\n', " "))
        }
        Err(_) => Ok(Some(Value::String(value.to_owned()))),
    }
}

impl Override {
    fn apply(&self, root: &mut Table) -> Result<()> {
        let (last, path) = self.key.split_last().context("a key has at least one part")?;
        put(root, path, last, self.value.as_ref())
            .with_context(|| format!("--set {}", self.key.join(".")))
    }
}

fn put(table: &mut Table, path: &[String], last: &str, value: Option<&Value>) -> Result<()> {
    let Some((first, rest)) = path.split_first() else {
        match value {
            Some(value) => table.insert(last.to_owned(), value.clone()),
            None => table.remove(last),
        };
        return Ok(());
    };
    match table.entry(first.clone()).or_insert_with(|| Value::Table(Table::new())) {
        Value::Table(inner) => put(inner, rest, last, value),
        Value::Array(items) => put_in_array(items, first, rest, last, value),
        other => bail!("`{first}` is a {}, it has no keys", other.type_str()),
    }
}

/// `algorithm.0.rounds` is the first algorithm's, `algorithm.rounds` everyone's.
fn put_in_array(
    items: &mut [Value],
    name: &str,
    path: &[String],
    last: &str,
    value: Option<&Value>,
) -> Result<()> {
    let count = items.len();
    let (items, path) =
        match path.split_first().and_then(|(n, rest)| Some((n.parse::<usize>().ok()?, rest))) {
            Some((index, rest)) if index < count => (&mut items[index..=index], rest),
            Some((index, _)) => {
                bail!("there is no `{name}` number {index}: they are numbered 0 to {}", count - 1)
            }
            None => (items, path),
        };
    for item in items {
        match item {
            Value::Table(inner) => put(inner, path, last, value)?,
            other => bail!("`{name}` holds a {}, which has no keys", other.type_str()),
        }
    }
    Ok(())
}

/// Reads an experiment with its overrides.
///
/// Without overrides an error has its line. With them the lines of the file no longer tell the
/// place, so the key does.
pub(crate) fn read(text: &str, file: &str, overrides: &[Override]) -> Result<ExperimentSpec> {
    let original = ExperimentSpec::from_toml(text, file);
    if overrides.is_empty() {
        return Ok(original?);
    }
    let Ok(mut root) = toml::from_str::<Table>(text) else {
        return Ok(original?);
    };
    for change in overrides {
        change.apply(&mut root)?;
    }
    let edited = toml::to_string(&root).context("--set")?;
    ExperimentSpec::from_toml(&edited, file).map_err(|error| match original {
        Err(first) if first.message == error.message => first.into(),
        _ => {
            let key = error.line.and_then(|line| key_at(&edited, line)).unwrap_or_default();
            SpecError { line: None, message: format!("{key}{}", error.message), ..error }.into()
        }
    })
}

/// Whether the file or an override sets a key that stands in no table.
pub(crate) fn set(key: &str, text: &str, overrides: &[Override]) -> bool {
    let changed = overrides.iter().rev().find(|o| o.key.len() == 1 && o.key[0] == key);
    match changed {
        Some(change) => change.value.is_some(),
        None => toml::from_str::<Table>(text).is_ok_and(|root| root.contains_key(key)),
    }
}

/// The dotted key that a line of TOML (as written by a serializer) sets, with a colon.
fn key_at(text: &str, line: usize) -> Option<String> {
    let lines: Vec<&str> = text.lines().take(line).collect();
    let header =
        lines.iter().rev().find(|l| l.starts_with('[')).map(|l| l.trim_matches(['[', ']']));
    let key = lines.last()?.split_once('=').map(|(key, _)| key.trim());
    let parts: Vec<&str> = header.into_iter().chain(key).collect();
    (!parts.is_empty()).then(|| format!("{}: ", parts.join(".")))
}

/// An error of a later check, without the line of a value that an override replaced.
pub(crate) fn relocate(mut error: SpecError, text: &str, overrides: &[Override]) -> SpecError {
    let line = error.line.and_then(|line| text.lines().nth(line - 1));
    let key = line.and_then(|l| l.split_once('=')).map(|(key, _)| key.trim());
    if overrides.iter().any(|o| o.key.last().map(String::as_str) == key) {
        error.line = None;
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str, changes: &[&str]) -> Result<Table> {
        let mut root: Table = toml::from_str(text)?;
        for change in changes {
            change.parse::<Override>()?.apply(&mut root)?;
        }
        Ok(root)
    }

    const TWO: &str = "[data]\nagents = 2\n[[algorithm]]\nkind = 'a'\n[[algorithm]]\nkind = 'b'\n";

    #[test]
    fn values_are_toml_and_bare_words_are_strings() -> Result<()> {
        let root = set(
            TWO,
            &["data.agents=20", "graph.kind = ring", "data.partition={ dirichlet = 0.3 }"],
        )?;
        assert_eq!(root["data"]["agents"].as_integer(), Some(20));
        assert_eq!(root["graph"]["kind"].as_str(), Some("ring"));
        assert_eq!(root["data"]["partition"]["dirichlet"].as_float(), Some(0.3));
        Ok(())
    }

    #[test]
    fn a_number_names_one_algorithm_and_no_number_all() -> Result<()> {
        let root = set(TWO, &["algorithm.rounds=5", "algorithm.1.rounds=9"])?;
        assert_eq!(root["algorithm"][0]["rounds"].as_integer(), Some(5));
        assert_eq!(root["algorithm"][1]["rounds"].as_integer(), Some(9));
        let error = set(TWO, &["algorithm.2.rounds=9"]).unwrap_err();
        assert!(format!("{error:#}").contains("numbered 0 to 1"), "{error:#}");
        Ok(())
    }

    #[test]
    fn no_value_removes_the_key() -> Result<()> {
        let root = set(TWO, &["data.agents="])?;
        assert!(root["data"].get("agents").is_none());
        Ok(())
    }

    #[test]
    fn broken_overrides_say_what_to_write() {
        for bad in
            ["agents", "data..agents=2", "=3", "data.agents.x=1", "data.partition={ dirichlet = "]
        {
            let error = format!("{:#}", set(TWO, &[bad]).unwrap_err());
            assert!(error.starts_with("--set"), "{error}");
        }
    }
}
