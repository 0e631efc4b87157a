//! The reference of every key of experiment, schema and site files, made from the types that read
//! them.
//!
//! The types are read as text: their fields, documentation comments and serde attributes are all
//! that is needed, and a parser of the whole language would be the heaviest dependency of the
//! workspace. A type this reader does not understand is an error, not a gap.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// The folders whose types may be keys of a file.
const SOURCES: [&str; 7] = [
    "crates/consenso-dp/src",
    "crates/consenso-tables/src",
    "crates/consenso-queries/src",
    "crates/consenso-problem/src",
    "crates/consenso-agents/src",
    "crates/consenso-engine/src",
    "crates/consenso-node/src",
];

/// What the files are called, and the type that reads each.
const ROOTS: [(&str, &str, &str); 4] = [
    (
        "Experiment files",
        "ExperimentSpec",
        "Read by `consenso run`, `plan`, `privacy audit` and `network new`. `consenso run --print adult` prints one to start from; \
         `--set key=value` overrides a key, `data.agents` for one inside a table.",
    ),
    (
        "Schema files",
        "SchemaSpec",
        "Public facts about the columns of your records, named by `data.schema`. `consenso data schema FILE --label COLUMN` drafts one.",
    ),
    (
        "Site files (`site.toml`)",
        "SiteFile",
        "One for every site of a network, in its folder; `consenso network new` writes them.",
    ),
    (
        "Peers (`peers.toml`)",
        "PeersFile",
        "The same at every site; `consenso network new` writes it.",
    ),
];

/// What keys mean whose types say nothing, as `Type.key` or `Type.Variant`.
const SAID_HERE: &[(&str, &str)] = &[
    (
        "SchemaSpec.reviewed",
        "`true` says that ranges and categories below are public knowledge and not taken from the records. Without it no claim can be made.",
    ),
    (
        "SchemaSpec.header",
        "Whether the first line names the columns, which may then come in any order.",
    ),
    ("SchemaSpec.delimiter", "What stands between two cells."),
    ("SchemaSpec.comment", "Lines that begin with this character are skipped."),
    ("SchemaSpec.missing", "Cells that mean “unknown”."),
    ("SchemaSpec.column", "One `[[column]]` for every column, in the order of the file."),
    ("ColumnSpec.name", "Its name, as in the header."),
    ("ColumnSpec.kind", "What it holds."),
    (
        "ColumnSpec.min",
        "The least value of a numeric column or of a regression's label; smaller ones are clamped.",
    ),
    (
        "ColumnSpec.max",
        "The largest value of a numeric column or of a regression's label; larger ones are clamped.",
    ),
    ("ColumnSpec.categories", "The values of a categorical column or the names of sites."),
    ("ColumnSpec.classes", "The values of a label of several classes."),
    ("ColumnSpec.positive", "The value of a label of two classes that counts as +1."),
    ("KindName.Numeric", "A feature with a public range."),
    ("KindName.Categorical", "A feature with public categories."),
    ("KindName.Label", "What the model predicts; exactly one column."),
    (
        "KindName.Site",
        "Whose record it is; at most one column, and `partition = { by = … }` may follow it.",
    ),
    ("KindName.Ignored", "Read and not used."),
    ("AlgorithmCommon.label", "Its name in tables and figures; its kind by default."),
    ("AlgorithmCommon.rounds", "Rounds that use records."),
    (
        "AlgorithmCommon.noise",
        "Noise of one's own choice, or how it is calibrated; calibrated to the budget by default.",
    ),
    ("AlgorithmCommon.max_dim", "Left out of the points of a sweep with more dimensions."),
    (
        "AlgorithmCommon.tail",
        "Share of the rounds whose mean is the model: 0 takes the last iterate.",
    ),
    ("AlgorithmCommon.gossip", "Rounds of mixing at the end, which cost no privacy."),
    (
        "AlgorithmCommon.exchange",
        "Whether agents exchange their vectors, secret shares of them, or masked ones.",
    ),
    (
        "AlgorithmCommon.mixing",
        "How agents combine their neighbours' vectors: the average, or a rule that some lying neighbours cannot abuse. For `dgd`, `rcd` and `pdop`; costs no privacy.",
    ),
    (
        "AlgorithmCommon.liars",
        "How many neighbours of an agent may lie under robust mixing; 1 by default, never more than half.",
    ),
    (
        "AlgorithmCommon.clip",
        "The longest difference to one's own vector that counts under clipped mixing.",
    ),
    (
        "AlgorithmCommon.batch",
        "The probability with which every record is drawn for a round, afresh and in secret; sums are divided by the expected number of draws, and the claim is amplified. All records take part if it is left out. For `dgd` and `diffusion`.",
    ),
    (
        "AlgorithmCommon.staleness",
        "How many rounds old a neighbour's vector may be when it is mixed, so that one slow link does not hold everybody up; 0 waits for everybody. For `dgd`; costs no privacy.",
    ),
    ("AlgorithmCommon.range", "The largest number an agent may have to share."),
    ("AlgorithmCommon.fraction_bits", "Bits after the point of a shared number."),
    (
        "AlgorithmCommon.colluders",
        "How many agents may pool what they know against the others' noise.",
    ),
    (
        "AlgorithmCommon.drop_outs",
        "How many agents may drop out of masked sums without ending the run; each is paid for with one more release.",
    ),
    (
        "SchemaSpec.quote",
        "What stands around cells that hold a delimiter; found out for each file by default.",
    ),
    ("SchemaSpec.decimal", "`.` or `,`; found out for each file by default."),
    (
        "SchemaSpec.thousands",
        "What stands between groups of three digits; found out for each file by default.",
    ),
    (
        "SchemaSpec.encoding",
        "How text is written; found out for each file by default, and a byte order mark wins.",
    ),
    (
        "ColumnSpec.format",
        "How a date is written, `DD.MM.YYYY` for example; `YYYY-MM-DD` by default.",
    ),
    ("ColumnSpec.origin", "The day that counts as 0: a date is the number of days since."),
    (
        "ColumnSpec.prevalence",
        "Public knowledge, not taken from these records: the share of the positive class, or a list of each class's.",
    ),
    (
        "ColumnSpec.shares",
        "Public knowledge, not taken from these records: the share of each category, in their order.",
    ),
    ("ColumnSpec.mean", "Public knowledge, not taken from these records: the column's mean."),
    (
        "ColumnSpec.sd",
        "Public knowledge, not taken from these records: the column's standard deviation.",
    ),
    (
        "ColumnSpec.step",
        "Public knowledge, not taken from these records: how far apart the column's values are, counted from `min`; 1 for whole years. Quantiles of questions are then such values.",
    ),
    (
        "ColumnSpec.transform",
        "Of a label that is a positive number: `\"log\"` has models learn its logarithm. Answers and figures are in the label's own unit; `mean` and `sd` are the logarithm's.",
    ),
    ("Transform.Log", "The natural logarithm; `min` must be above zero."),
    (
        "ColumnSpec.records",
        "Of a `person` column: records of one person beyond so many are dropped and counted.",
    ),
    ("ColumnSpec.indicator", "Adds a feature that is 1 where the value was missing."),
    ("ColumnSpec.missing_words", "More cells that mean “unknown”, in this column only."),
    (
        "ColumnSpec.missing",
        "What becomes of a record whose value is missing; `\"drop\"` by default.",
    ),
    ("KindName.Date", "A feature: days since `origin`."),
    ("KindName.Person", "Whom a record is about; at most one column."),
    (
        "KindName.Time",
        "How long a record was seen, until its event or without it, as the label says; not a feature.",
    ),
    (
        "KindName.Exposure",
        "What a count is counted in: its logarithm is added to the score, with no coefficient.",
    ),
    (
        "KindName.Frequency",
        "How many records a line stands for, up to `max`; each is a record of its own, whom a claim is about. Not a feature.",
    ),
    ("Prevalence.Positive", "The share of the positive class."),
    ("Prevalence.Each", "The share of each class, in the order of `classes`."),
    ("MissingSpec.Rule", "A rule by name."),
    ("MissingSpec.Impute", "A public value in its place."),
    ("MissingRule.Drop", "The record is dropped and counted."),
    ("MissingRule.Category", "“Unknown” is a category of its own."),
    ("ImputeSpec.impute", "The public value: a number, a date or a category."),
    ("Value.Number", "A number."),
    ("Value.Text", "A date or a category."),
];

struct Field {
    name: String,
    kind: String,
    docs: String,
    attributes: String,
}

struct Variant {
    name: String,
    docs: String,
    attributes: String,
    fields: Vec<Field>,
    /// What `Variant(T)` holds.
    inner: String,
}

enum Body {
    Struct(Vec<Field>),
    Enum(Vec<Variant>),
}

struct Item {
    docs: String,
    attributes: String,
    body: Body,
}

/// All types that are read from files, the values of one-line functions (the defaults), and the
/// kinds of algorithms.
#[derive(Default)]
struct Types {
    items: BTreeMap<String, Item>,
    values: BTreeMap<String, String>,
    algorithms: Vec<(String, String)>,
    /// Losses of the table of families: the word of each in files, and its type.
    losses: Vec<(String, String)>,
}

/// The whole chapter as Markdown, or what it cannot explain.
pub(crate) fn chapter(root: &Path) -> Result<String, String> {
    let mut types = Types::default();
    for folder in SOURCES {
        read_folder(&root.join(folder), &mut types)?;
    }
    name_losses(&mut types)?;
    let mut book = Book {
        types: &types,
        out: String::new(),
        missing: Vec::new(),
        waiting: Vec::new(),
        done: Vec::new(),
    };
    book.out.push_str(
        "# Every key of every file\n\n<!-- Made by `cargo xtask docs` from the types that read the files; a test fails when it lags. -->\n\n\
         An unknown key is an error that names the nearest known one. A key without a default must be given unless its default says *open*: then \
         the program chooses, from public facts alone, and says what it chose in the run's `experiment.toml`.\n",
    );
    for (title, root, about) in ROOTS {
        let _ = write!(book.out, "\n## {title}\n\n{about}\n");
        book.table(root);
        if root == "ExperimentSpec" {
            book.algorithms();
        }
        book.rest();
    }
    if types.algorithms.is_empty() {
        book.missing.push("the table of algorithms was not found".into());
    }
    if book.missing.is_empty() { Ok(book.out) } else { Err(book.missing.join("\n")) }
}

fn read_folder(folder: &Path, types: &mut Types) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            read_folder(&path, types)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text =
                std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            read_types(&text, types);
            read_types(&inside_macros(&text), types);
        }
    }
    Ok(())
}

/// What macros define as it would stand outside of them.
fn inside_macros(text: &str) -> String {
    let bodies =
        text.split("\nmacro_rules! ").skip(1).filter_map(|rest| rest.split("\n}\n").next());
    let lines = bodies.flat_map(str::lines).map(|line| line.strip_prefix("        ").unwrap_or(""));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Adds the losses of the table of families to the names of losses, each with what its type says.
fn name_losses(types: &mut Types) -> Result<(), String> {
    let named = |(word, name): &(String, String)| {
        let item = types.items.get(name).ok_or(format!("the loss {name} was not found"))?;
        let attributes = format!("#[serde(rename = \"{word}\")]");
        let (docs, fields, inner) = (item.docs.clone(), Vec::new(), String::new());
        Ok(Variant { name: name.clone(), docs, attributes, fields, inner })
    };
    let losses = types.losses.iter().map(named).collect::<Result<Vec<_>, String>>()?;
    match types.items.get_mut("LossKind").map(|kinds| &mut kinds.body) {
        Some(Body::Enum(kinds)) if !losses.is_empty() => kinds.extend(losses),
        _ => return Err("the names or the table of losses were not found".into()),
    }
    Ok(())
}

fn read_types(text: &str, types: &mut Types) {
    let lines: Vec<&str> = text.lines().collect();
    let (mut docs, mut attributes) = (Vec::new(), String::new());
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        if let Some(value) = default_value(&lines, at) {
            types.values.insert(value.0, value.1);
        }
        if let Some((kind, name)) =
            line.trim().split_once(" => ").filter(|_| line.starts_with("    \""))
            && let Some(name) =
                name.strip_suffix(',').filter(|name| name.chars().all(char::is_alphanumeric))
        {
            types.algorithms.push((kind.trim_matches('"').to_owned(), name.to_owned()));
        }
        if let Some((path, word)) = line.split_once(" = \"").filter(|_| line.starts_with("    "))
            && let (Some((_, name)), Some(word)) = (path.split_once("::"), word.strip_suffix("\","))
            && name.chars().all(char::is_alphanumeric)
        {
            types.losses.push((word.to_owned(), name.to_owned()));
        }
        if let Some(doc) = line.strip_prefix("///") {
            docs.push(doc.strip_prefix(' ').unwrap_or(doc).to_owned());
        } else if line.starts_with("#[") {
            at = attribute(&lines, at, &mut attributes);
        } else if let Some((is_enum, name)) = heading(line) {
            let end = (at..lines.len())
                .find(|&k| lines[k] == "}" || lines[k].ends_with("{}"))
                .unwrap_or(at);
            if attributes.contains("Deserialize") {
                let inner = &lines[(at + 1).min(end)..end];
                let body =
                    if is_enum { Body::Enum(variants(inner)) } else { Body::Struct(fields(inner)) };
                let item = Item { docs: joined(&docs), attributes: attributes.clone(), body };
                types.items.insert(name, item);
            }
            (docs, attributes, at) = (Vec::new(), String::new(), end);
        } else if !line.starts_with("//") {
            (docs, attributes) = (Vec::new(), String::new());
        }
        at += 1;
    }
}

/// `fn name() -> T {` and its one line.
fn default_value(lines: &[&str], at: usize) -> Option<(String, String)> {
    let name =
        lines[at].strip_prefix("fn ").or_else(|| lines[at].strip_prefix("pub(crate) fn "))?;
    let (name, rest) = name.split_once("() -> ")?;
    (rest.ends_with('{') && lines.get(at + 2) == Some(&"}"))
        .then(|| (name.to_owned(), lines[at + 1].trim().to_owned()))
}

fn heading(line: &str) -> Option<(bool, String)> {
    let line = line
        .strip_prefix("pub(crate) ")
        .or_else(|| line.strip_prefix("pub(super) "))
        .unwrap_or(line);
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let (is_enum, rest) = match line.strip_prefix("struct ") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("enum ")?),
    };
    rest.contains('{')
        .then(|| (is_enum, rest.chars().take_while(|c| c.is_alphanumeric()).collect()))
}

/// Takes an attribute that may go over several lines; answers where it ends.
fn attribute(lines: &[&str], mut at: usize, into: &mut String) -> usize {
    let mut open = 0;
    loop {
        let line = lines[at];
        open += line.matches('[').count() as i64 - line.matches(']').count() as i64;
        into.push_str(line.trim());
        if open <= 0 || at + 1 == lines.len() {
            return at;
        }
        at += 1;
    }
}

fn fields(lines: &[&str]) -> Vec<Field> {
    let mut out = Vec::new();
    let (mut docs, mut attributes) = (Vec::new(), String::new());
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].trim();
        if let Some(doc) = line.strip_prefix("///") {
            docs.push(doc.strip_prefix(' ').unwrap_or(doc).to_owned());
        } else if line.starts_with("#[") {
            at = attribute(lines, at, &mut attributes);
        } else if let Some((name, kind)) = line.split_once(": ").filter(|_| !line.starts_with("//"))
        {
            let name = name.rsplit(' ').next().unwrap_or(name).trim_start_matches("r#");
            let field = Field {
                name: name.to_owned(),
                kind: kind.trim_end_matches(',').to_owned(),
                docs: joined(&docs),
                attributes: attributes.clone(),
            };
            out.push(field);
            (docs, attributes) = (Vec::new(), String::new());
        }
        at += 1;
    }
    out
}

fn variants(lines: &[&str]) -> Vec<Variant> {
    let mut out = Vec::new();
    let (mut docs, mut attributes) = (Vec::new(), String::new());
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].trim();
        if let Some(doc) = line.strip_prefix("///") {
            docs.push(doc.strip_prefix(' ').unwrap_or(doc).to_owned());
        } else if line.starts_with("#[") {
            at = attribute(lines, at, &mut attributes);
        } else if line.starts_with(|c: char| c.is_uppercase()) {
            let name: String = line.chars().take_while(|c| c.is_alphanumeric()).collect();
            let end = match line.ends_with('{') {
                true => (at..lines.len()).find(|&k| lines[k] == "    },").unwrap_or(at),
                false => at,
            };
            let inner = line[name.len()..]
                .trim_end_matches(',')
                .trim_start_matches('(')
                .trim_end_matches(')');
            out.push(Variant {
                docs: joined(&docs),
                attributes: attributes.clone(),
                fields: fields(&lines[(at + 1).min(end)..end]),
                inner: if line[name.len()..].starts_with('(') {
                    inner.to_owned()
                } else {
                    String::new()
                },
                name,
            });
            (docs, attributes, at) = (Vec::new(), String::new(), end);
        }
        at += 1;
    }
    out
}

/// The first paragraph of a comment as one line, without links that lead into the code.
fn joined(docs: &[String]) -> String {
    let paragraph: Vec<&str> =
        docs.iter().map(|line| line.trim()).take_while(|line| !line.is_empty()).collect();
    let mut text = paragraph.join(" ").replace("\\[", "[").replace("\\]", "]");
    while let Some(start) = text.find("[`") {
        let Some(end) = text[start..].find("`]").map(|end| start + end) else { break };
        let after = &text[end + 2..];
        let target =
            after.strip_prefix('(').and_then(|rest| rest.find(')')).map_or(0, |close| close + 2);
        text = format!("{}`{}`{}", &text[..start], &text[start + 2..end], &after[target..]);
    }
    while let Some(middle) = text.find("](") {
        let (Some(start), Some(end)) = (text[..middle].rfind('['), text[middle..].find(')')) else {
            break;
        };
        text =
            format!("{}{}{}", &text[..start], &text[start + 1..middle], &text[middle + end + 1..]);
    }
    text.trim_end_matches([':', ',']).replace('|', "\\|")
}

struct Book<'a> {
    types: &'a Types,
    out: String,
    missing: Vec<String>,
    waiting: Vec<String>,
    done: Vec<String>,
}

impl Book<'_> {
    /// The keys of a struct.
    fn table(&mut self, name: &str) {
        self.done.push(name.to_owned());
        let types = self.types;
        let Some(item) = types.items.get(name) else {
            self.missing.push(format!("the type {name} was not found"));
            return;
        };
        let Body::Struct(fields) = &item.body else {
            self.missing.push(format!("{name} is no table of keys"));
            return;
        };
        self.rows(name, fields);
    }

    fn rows(&mut self, owner: &str, fields: &[Field]) {
        if fields.is_empty() {
            return;
        }
        self.out.push_str("\n| key | value | default | meaning |\n|---|---|---|---|\n");
        for field in fields.iter().filter(|f| !f.attributes.contains("serde(skip)")) {
            let docs = self.explained(owner, &field.name, &field.docs);
            let value = self.value(&field.kind);
            let default = self.default(field);
            let _ = writeln!(self.out, "| `{}` | {value} | {default} | {docs} |", field.name);
        }
    }

    fn explained(&mut self, owner: &str, name: &str, docs: &str) -> String {
        let said = SAID_HERE.iter().find(|(key, _)| *key == format!("{owner}.{name}"));
        if !docs.is_empty() {
            return docs.to_owned();
        }
        if let Some((_, text)) = said {
            return (*text).to_owned();
        }
        self.missing
            .push(format!("{owner}.{name} has no documentation comment: write one beside it"));
        String::new()
    }

    /// A type in the words of a file; types with keys of their own get a heading.
    fn value(&mut self, kind: &str) -> String {
        let within = |outer: &str| kind.strip_prefix(outer).and_then(|rest| rest.strip_suffix('>'));
        if let Some(inner) = within("Option<").or_else(|| within("Box<")) {
            return self.value(inner);
        }
        if let Some(inner) = within("Vec<") {
            return format!("list of {}", self.value(inner));
        }
        if let Some((_, inner)) = within("BTreeMap<").and_then(|inner| inner.split_once(", ")) {
            return format!("table by name of {}", self.value(inner));
        }
        if let Some((inner, count)) =
            kind.strip_prefix('[').and_then(|k| k.strip_suffix(']')?.split_once("; "))
        {
            return format!("{count} × {}", self.value(inner));
        }
        match kind.rsplit("::").next().unwrap_or(kind) {
            "String" | "PathBuf" => "text".into(),
            "char" => "character".into(),
            "bool" => "`true` or `false`".into(),
            "f64" => "number".into(),
            "usize" | "u64" | "u32" | "i64" | "u16" | "u8" | "i32" => "whole number".into(),
            "Parameters" | "Table" => "table".into(),
            plain if plain.starts_with('(') => "list".into(),
            named => self.named(named),
        }
    }

    fn named(&mut self, name: &str) -> String {
        let types = self.types;
        match types.items.get(name) {
            Some(_) => {
                if !self.done.iter().chain(&self.waiting).any(|known| known == name) {
                    self.waiting.push(name.to_owned());
                }
                format!("[{}](#{})", words(name), words(name).replace(' ', "-"))
            }
            None => {
                self.missing.push(format!("the type {name} of a key is not known"));
                String::new()
            }
        }
    }

    fn default(&self, field: &Field) -> String {
        let code = |text: &str| format!("`{}`", text.trim_matches('`'));
        let named =
            field.attributes.split("default = \"").nth(1).and_then(|rest| rest.split('"').next());
        if let Some(function) = named {
            let function = function.rsplit("::").next().unwrap_or(function);
            let value = self.types.values.get(function).map_or("", String::as_str);
            let literal = value.starts_with(|c: char| c.is_ascii_digit() || c == '\'' || c == '"')
                || matches!(value, "true" | "false");
            return if literal {
                code(&value.replace('\'', "\"").replace('_', ""))
            } else {
                "open".into()
            };
        }
        if field.kind.starts_with("Option<") {
            return "open".into();
        }
        if !field.attributes.contains("default") {
            return "**needed**".into();
        }
        match field.kind.as_str() {
            "bool" => code("false"),
            kind if kind.starts_with("Vec<") => code("[]"),
            kind => match self.types.items.get(kind).map(|item| (&item.body, &item.attributes)) {
                Some((Body::Enum(variants), attributes)) => variants
                    .iter()
                    .find(|v| v.attributes.contains("#[default]"))
                    .filter(|v| !v.attributes.contains("serde(skip"))
                    .map_or_else(String::new, |v| {
                        code(&format!("\"{}\"", cased(&v.name, attributes)))
                    }),
                _ => "open".into(),
            },
        }
    }

    /// Types that tables spoke of, and what those speak of.
    fn rest(&mut self) {
        while let Some(name) = (!self.waiting.is_empty()).then(|| self.waiting.remove(0)) {
            self.done.push(name.clone());
            let types = self.types;
            let Some(item) = types.items.get(&name) else { continue };
            let _ = write!(self.out, "\n### {}\n\n{}\n", words(&name), item.docs);
            match &item.body {
                Body::Struct(fields) => self.rows(&name, fields),
                Body::Enum(variants) => self.choices(&name, item, variants),
            }
        }
    }

    fn choices(&mut self, owner: &str, item: &Item, variants: &[Variant]) {
        let tagged = item.attributes.contains("tag = \"kind\"");
        let untagged = item.attributes.contains("untagged");
        self.out.push_str("\n| value | meaning |\n|---|---|\n");
        let mut later = Vec::new();
        // What a file cannot say is no choice of a file.
        for variant in variants.iter().filter(|v| !v.attributes.contains("serde(skip")) {
            let renamed = variant
                .attributes
                .split("rename = \"")
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            let name =
                renamed.map_or_else(|| cased(&variant.name, &item.attributes), str::to_owned);
            let docs = self.explained(owner, &variant.name, &variant.docs);
            let shown = match () {
                () if (untagged || variant.attributes.contains("untagged"))
                    && !variant.inner.is_empty() =>
                {
                    self.value(&variant.inner)
                }
                () if tagged => format!("`kind = \"{name}\"`"),
                () if !variant.inner.is_empty() => {
                    format!("`{{ {name} = … }}`: {}", self.value(&variant.inner))
                }
                () if !variant.fields.is_empty() => format!("`{{ {name} = {{ … }} }}`"),
                () => format!("`\"{name}\"`"),
            };
            let _ = writeln!(self.out, "| {shown} | {docs} |");
            if !variant.fields.is_empty() {
                later.push((name, variant));
            }
        }
        for (name, variant) in later {
            let _ = write!(self.out, "\nWith `{name}`:\n");
            self.rows(&format!("{owner}.{}", variant.name), &variant.fields);
        }
    }

    /// `[[algorithm]]`: what all share, and what each has of its own.
    fn algorithms(&mut self) {
        self.out.push_str(
            "\n### algorithm\n\nOne `[[algorithm]]` for every algorithm, run side by side on the same records and graphs. `kind` is needed; \
             a kind alone gets public defaults. Keys of all kinds:\n",
        );
        self.table("AlgorithmCommon");
        for (kind, name) in &self.types.algorithms {
            let types = self.types;
            let Some(item) = types.items.get(name) else {
                self.missing.push(format!("the parameters of {kind} ({name}) were not found"));
                continue;
            };
            self.done.push(name.clone());
            let _ = write!(self.out, "\n#### kind = \"{kind}\"\n\n{}\n", item.docs);
            match &item.body {
                Body::Struct(fields) if fields.is_empty() => {
                    self.out.push_str("\nNo keys of its own.\n");
                }
                Body::Struct(fields) => self.rows(name, fields),
                Body::Enum(_) => {
                    self.missing.push(format!("the parameters of {kind} are no table of keys"));
                }
            }
        }
    }
}

/// `NoiseSpec` as `noise`, `SmallWorld` as `small world`.
fn words(name: &str) -> String {
    let name = ["Spec", "Kind", "Name", "File"]
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(name);
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push(' ');
        }
        out.extend(c.to_lowercase());
    }
    out
}

fn cased(name: &str, attributes: &str) -> String {
    let separator = match () {
        () if attributes.contains("kebab-case") => "-",
        () if attributes.contains("snake_case") => "_",
        () if attributes.contains("rename_all = \"lowercase\"") => "",
        () => return name.to_owned(),
    };
    let mut out = String::new();
    for (k, c) in name.chars().enumerate() {
        if c.is_uppercase() && k > 0 {
            out.push_str(separator);
        }
        out.extend(c.to_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chapter has every key of every type, each explained, and is what `cargo xtask docs`
    /// would write.
    #[test]
    fn the_reference_in_the_guide_is_that_of_the_types() {
        let root = crate::root();
        let made = chapter(&root).unwrap_or_else(|missing| panic!("{missing}"));
        let written =
            std::fs::read_to_string(root.join("docs/reference.md")).expect("docs/reference.md");
        assert!(
            made == written,
            "docs/reference.md lags behind the types: run `cargo xtask docs` and commit it"
        );
        for key in [
            "`hold_out`",
            "`regularization`",
            "`reviewed`",
            "`keep_alive_seconds`",
            "`pin`",
            "kind = \"dgd\"",
        ] {
            assert!(made.contains(key), "{key}");
        }
    }

    #[test]
    fn types_are_read_with_their_defaults_and_choices() {
        let text = "/// About it, see [`Other`].\n#[derive(Deserialize)]\n#[serde(deny_unknown_fields)]\npub struct OneSpec {\n    \
                    /// A number.\n #[serde(default = \"seven\")]\n pub seed: u64,\n /// A
                    /// choice.\n #[serde(default)]\n pub loss: LossKind,\n \
                    hidden: Option<Vec<f64>>,\n}\n\nfn seven() -> u64 {\n    7\n}\n\n#[derive(Deserialize)]\n#[serde(rename_all = \"kebab-case\")]\nenum LossKind {\n    \
                    /// First.\n #[default]\n TwoWords,\n /// Second.\n Held { inner: f64 },\n}\n";
        let mut types = Types::default();
        read_types(text, &mut types);
        let mut book = Book {
            types: &types,
            out: String::new(),
            missing: Vec::new(),
            waiting: Vec::new(),
            done: Vec::new(),
        };
        book.table("OneSpec");
        book.rest();
        assert!(book.out.contains("| `seed` | whole number | `7` | A number. |"), "{}", book.out);
        assert!(
            book.out.contains("| `loss` | [loss](#loss) | `\"two-words\"` | A choice. |"),
            "{}",
            book.out
        );
        assert!(book.out.contains("| `\"two-words\"` | First. |"), "{}", book.out);
        assert_eq!(
            book.missing,
            ["OneSpec.hidden has no documentation comment: write one beside it"]
        );
        assert_eq!(types.items["OneSpec"].docs, "About it, see `Other`.");
    }
}
