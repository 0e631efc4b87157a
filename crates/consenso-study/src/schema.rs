//! Schema files: a public [`Schema`] as TOML.

use std::fmt::Write as _;

use consenso_engine::data::{Draft, Schema, SchemaError, SchemaSpec};
use toml::{Table, Value};

const DRAFT_WARNING: &str = "\
# DRAFT: REVIEW BEFORE USE.
# The ranges and categories below were computed from the records themselves. Used as they are they would give private facts
# away (the oldest patient's age, a rare diagnosis), and no privacy claim can rest on them.
# Replace them by what is public without the data: the range a form allows, a code list, a physical limit. Values outside are
# clamped. Then set reviewed = true.

";

/// The keys of a schema file, in the order they are written.
const KEYS: [&str; 9] = [
    "reviewed",
    "header",
    "delimiter",
    "quote",
    "decimal",
    "thousands",
    "encoding",
    "comment",
    "missing",
];

/// The keys of a column, in the order they are written.
const COLUMN_KEYS: [&str; 19] = [
    "name",
    "kind",
    "format",
    "origin",
    "min",
    "max",
    "categories",
    "classes",
    "positive",
    "prevalence",
    "shares",
    "mean",
    "sd",
    "step",
    "transform",
    "records",
    "indicator",
    "missing_words",
    "missing",
];

/// Schemas as the files people write.
pub trait SchemaFile: Sized {
    /// Reads a schema file.
    ///
    /// # Errors
    /// [`SchemaError`], which names the key or the column that is wrong.
    fn from_toml(text: &str) -> Result<Self, SchemaError>;

    /// Writes the schema file. One that is not reviewed begins with a comment that says what has to
    /// be done.
    #[must_use]
    fn to_toml(&self) -> String;
}

impl SchemaFile for Schema {
    fn from_toml(text: &str) -> Result<Self, SchemaError> {
        let spec: SchemaSpec = toml::from_str(text)
            .map_err(|error| SchemaError::Toml { message: error.to_string() })?;
        Self::try_from(spec)
    }

    fn to_toml(&self) -> String {
        let warning = if self.is_reviewed() { "" } else { DRAFT_WARNING };
        format!("{warning}{}", written(self, |_| &[]))
    }
}

/// Writes a drafted schema, with what to look at as comments beside each column.
#[must_use]
pub fn drafted(draft: &Draft) -> String {
    format!("{DRAFT_WARNING}{}", written(draft.schema(), |column| draft.comments(column)))
}

/// The file, with comments in front of each column.
fn written<'a>(schema: &Schema, comments: impl Fn(&str) -> &'a [String]) -> String {
    let Ok(table) = Table::try_from(schema) else { return String::new() };
    let mut out = String::new();
    keys(&mut out, &table, &KEYS);
    for column in table.get("column").and_then(Value::as_array).into_iter().flatten() {
        let Some(column) = column.as_table() else { continue };
        out.push_str("\n[[column]]\n");
        for comment in comments(column.get("name").and_then(Value::as_str).unwrap_or_default()) {
            let _ = writeln!(out, "# {comment}");
        }
        keys(&mut out, column, &COLUMN_KEYS);
    }
    out
}

fn keys(out: &mut String, table: &Table, keys: &[&str]) {
    for key in keys {
        if let Some(value) = table.get(*key) {
            let _ = writeln!(out, "{key} = {value}");
        }
    }
}
