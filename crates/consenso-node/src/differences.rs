//! What two experiment files differ in, in words.

use std::collections::{BTreeMap, BTreeSet};

/// Differences that are named; of more, their number.
const NAMED: usize = 4;

/// Longest value that is shown.
const SHOWN: usize = 40;

/// `privacy.epsilon: 1 here, 3 there`, for the keys in which two experiment files differ.
pub(crate) fn of(here: &str, there: &str) -> String {
    let (Some(mine), Some(theirs)) = (keys(here), keys(there)) else {
        return "one of the two experiment files is no TOML".into();
    };
    let all: BTreeSet<&String> = mine.keys().chain(theirs.keys()).collect();
    let found: Vec<String> = all
        .into_iter()
        .filter(|key| mine.get(*key) != theirs.get(*key))
        .map(|key| {
            format!("{key}: {} here, {} there", shown(mine.get(key)), shown(theirs.get(key)))
        })
        .collect();
    match found.len() {
        0 => "the experiment files say the same; the schema, the list of sites or their numbers of records differ".into(),
        n if n > NAMED => format!("{}; and {} more", found[..NAMED].join("; "), n - NAMED),
        _ => found.join("; "),
    }
}

fn shown(value: Option<&String>) -> String {
    match value {
        None => "nothing".into(),
        Some(value) if value.chars().count() > SHOWN => {
            value.chars().take(SHOWN).chain("…".chars()).collect()
        }
        Some(value) => value.clone(),
    }
}

/// Every value under its full name.
fn keys(text: &str) -> Option<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    flatten("", &toml::Value::Table(text.parse().ok()?), &mut all);
    Some(all)
}

fn flatten(name: &str, value: &toml::Value, all: &mut BTreeMap<String, String>) {
    let under = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
    match value {
        toml::Value::Table(table) => {
            table.iter().for_each(|(key, value)| flatten(&under(key), value, all));
        }
        toml::Value::Array(list) if list.iter().any(toml::Value::is_table) => {
            for (index, value) in list.iter().enumerate() {
                flatten(&under(&(index + 1).to_string()), value, all);
            }
        }
        // 1 and 1.0 are the same number.
        toml::Value::Integer(number) => {
            drop(all.insert(name.to_owned(), (*number as f64).to_string()));
        }
        toml::Value::Float(number) => drop(all.insert(name.to_owned(), number.to_string())),
        other => drop(all.insert(name.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn differences_are_named_by_key() {
        let here = "name = \"a\"\n[privacy]\nepsilon = 1\ndelta = 1e-6\n[[algorithm]]\nkind = \"dgd\"\nrounds = 5\n";
        assert_eq!(
            of(here, &here.replace("epsilon = 1\n", "epsilon = 3.0\n")),
            "privacy.epsilon: 1 here, 3 there"
        );
        let more = of(here, &here.replace("rounds = 5\n", ""));
        assert_eq!(more, "algorithm.1.rounds: 5 here, nothing there");
        assert!(
            of(here, &here.replace("epsilon = 1\n", "epsilon = 1.0\n")).contains("say the same")
        );
        assert!(of(here, "= rubbish").contains("no TOML"));
    }
}
