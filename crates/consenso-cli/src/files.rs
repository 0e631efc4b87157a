//! Opening what an experiment refers to; the library reads only what it is handed.

use crate::overrides::{self, Override};
use anyhow::{Context as _, Result, bail};
use consenso::data::{Dataset, Draft, DraftOptions, Format, Schema, Table, TextEncoding, csv, libsvm};
use consenso::experiment::{Experiment, ExperimentSpec, Inputs, Origin, Source, SpecError};
use consenso::graph::GraphSpec;
use consenso::random::Seed;
use consenso_study::{SchemaFile as _, bundled, packed};
use std::fs;
use std::path::{Path, PathBuf};

/// An experiment file before it is read: its name for messages, its text, and the folder its paths start from.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) folder: PathBuf,
}

/// The text of an experiment: a built-in one by its name, else a file.
pub(crate) fn experiment(name: &str) -> Result<Text> {
    if let Some(text) = consenso_study::experiment::built_in(name) {
        return Ok(Text { file: name.to_owned(), text: text.to_owned(), folder: PathBuf::new() });
    }
    let path = Path::new(name);
    let text = fs::read_to_string(path).with_context(|| {
        let built_in: Vec<&str> = consenso_study::experiment::BUILT_IN.iter().map(|e| e.0).collect();
        format!(
            "{name}: cannot be read{}; give an experiment file or a built-in experiment ({})",
            did_you_mean(path, &built_in),
            built_in.join(", ")
        )
    })?;
    if text.trim().is_empty() {
        bail!("{name}: the file is empty; `consenso run --print adult` prints an experiment to start from");
    }
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    Ok(Text { file: name.to_owned(), text, folder })
}

/// A suggestion, if a file beside `path` or one of the other names is nearly called so.
fn did_you_mean(path: &Path, others: &[&str]) -> String {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|_| !path.exists()) else {
        return String::new();
    };
    let candidates = files.iter().map(String::as_str).chain(others.iter().copied());
    let near = consenso::data::nearest(name, candidates);
    near.map_or_else(String::new, |near| {
        let near =
            if others.contains(&near.as_str()) { PathBuf::from(near) } else { path.with_file_name(near) };
        format!("; did you mean \"{}\"?", near.display())
    })
}

/// A checked experiment, `adult` if none is named, with the changes of `--set` applied and their errors in place.
pub(crate) fn checked(name: Option<&str>, set: &[String]) -> Result<Experiment, crate::Failure> {
    let text = experiment(name.unwrap_or("adult"))?;
    let changes = set.iter().map(|s| s.parse()).collect::<Result<Vec<Override>, _>>()?;
    let spec = overrides::read(&text.text, &text.file, &changes)?;
    let original = text.text.clone();
    let located = |error: SpecError| overrides::relocate(error, &original, &changes);
    let inputs = inputs(text, spec, None).map_err(|error| match error.downcast::<SpecError>() {
        Ok(error) => located(error).into(),
        Err(error) => error,
    })?;
    Ok(Experiment::check(inputs).map_err(located)?)
}

/// Opens the records and the graph an experiment asks for.
pub(crate) fn inputs(
    experiment: Text,
    mut spec: ExperimentSpec,
    entropy: Option<[u8; 32]>,
) -> Result<Inputs> {
    let source = source(&experiment, &spec)?;
    let edges = match &spec.graph {
        GraphSpec::File { path } => {
            let path = experiment.folder.join(path);
            let name = path.display().to_string();
            let text = fs::read_to_string(&path).with_context(|| {
                format!("{name}: cannot be read; graph.path names an edge list, `a b` a line")
            })?;
            Some((name, text))
        }
        _ => None,
    };
    // The resolved experiment is written elsewhere and must find the same files.
    let data = &mut spec.data;
    for path in [&mut data.path, &mut data.schema, &mut data.test].into_iter().flatten() {
        *path = absolute(&experiment.folder, Path::new(path))?.display().to_string();
    }
    if let GraphSpec::File { path } = &mut spec.graph {
        *path = absolute(&experiment.folder, path)?;
    }
    Ok(Inputs { file: experiment.file, text: experiment.text, spec, source, edges, entropy })
}

fn absolute(folder: &Path, path: &Path) -> Result<PathBuf> {
    std::path::absolute(folder.join(path))
        .with_context(|| format!("{}: has no absolute form", path.display()))
}

fn source(experiment: &Text, spec: &ExperimentSpec) -> Result<Source> {
    let at = |key: &str, message: &str, help: Option<&str>| {
        SpecError::at_key(&experiment.file, &experiment.text, key, message, help.map(str::to_owned))
    };
    let data = &spec.data;
    let pattern = match spec.origin(&experiment.text, &experiment.file)? {
        Origin::Costs => return Ok(Source::Costs),
        Origin::Synthetic => {
            let problem = spec.synthetic().context("a synthetic source")?;
            return Ok(Source::Synthetic(problem.map_err(|message| at("data", &message, None))?));
        }
        origin @ (Origin::Adult | Origin::Heart { .. }) => {
            for (key, given) in [("schema", &data.schema), ("test", &data.test)] {
                if given.is_some() {
                    Err(at(key, "the bundled data have their own", Some("leave it out")))?;
                }
            }
            let dataset = match origin {
                Origin::Heart { flamby: true } => bundled::heart_flamby(data.encoding),
                Origin::Heart { flamby: false } => bundled::heart(data.encoding),
                _ => bundled::adult(data.encoding),
            };
            let mut dataset = dataset.map_err(|e| at("encoding", &e.to_string(), None))?;
            if let Some(share) = data.hold_out {
                dataset = dataset
                    .hold_out(share, &Seed::from(spec.seed))
                    .map_err(|e| at("hold_out", &e.to_string(), Some("a share such as 0.2")))?;
            }
            return Ok(Source::Data(Box::new(dataset)));
        }
        Origin::Files(pattern) => pattern,
    };
    let schema = match &data.schema {
        Some(path) => Some(read_schema(&experiment.folder.join(path))?),
        None => None,
    };
    let paths = expand(&experiment.folder, pattern)?;
    if paths.len() > 1 && schema.is_none() {
        Err(at("data", "several files need one public schema", Some(&draft_hint(&paths[0]))))?;
    }
    let train = paths.iter().map(|path| read_table(path, schema.as_ref())).collect::<Result<Vec<_>>>()?;
    let test = match (&data.test, data.hold_out) {
        (Some(_), Some(_)) => {
            Err(at("hold_out", "there are test records in a file", Some("keep test or hold_out")))?
        }
        // Test records follow the training records' schema, even where that was drafted.
        (Some(path), None) => {
            Some(read_table(&experiment.folder.join(path), train.first().map(Table::schema))?)
        }
        (None, _) => None,
    };
    let mut dataset = Dataset::new(train, test.as_ref(), data.encoding)?;
    if let Some(share) = data.hold_out {
        dataset = dataset
            .hold_out(share, &Seed::from(spec.seed))
            .map_err(|e| at("hold_out", &e.to_string(), Some("a share such as 0.2")))?;
    }
    Ok(Source::Data(Box::new(dataset)))
}

/// The files a path or a pattern names, in order.
pub(crate) fn expand(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>> {
    let path = folder.join(pattern);
    if path.is_dir() {
        bail!("{}: is a folder; name its files, for example {pattern}/*.csv", path.display());
    }
    if path.exists() || !pattern.contains(['*', '?', '[']) {
        return Ok(vec![path]);
    }
    let text = path.to_str().with_context(|| format!("{}: is not UTF-8", path.display()))?;
    let mut found = glob::glob(text)
        .with_context(|| format!("{text}: is not a pattern"))?
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| format!("{text}: cannot be listed"))?;
    found.retain(|path| path.is_file());
    found.sort();
    if found.is_empty() {
        bail!("{text}: no file matches; relative paths start at the experiment file's folder");
    }
    Ok(found)
}

/// Reads a schema file.
pub(crate) fn read_schema(path: &Path) -> Result<Schema> {
    let name = path.display();
    let text = fs::read_to_string(path).with_context(|| {
        let near = did_you_mean(path, &[]);
        format!("{name}: cannot be read{near}; `consenso data schema RECORDS.csv --out {name}` drafts one")
    })?;
    Schema::from_toml(&text).with_context(|| format!("{name}"))
}

/// How a file of records is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Csv,
    Tsv,
    Libsvm,
}

impl Layout {
    /// By the extension (before `.gz` or `.zst`), else by the first line: `label index:value …` is LIBSVM.
    fn of(path: &Path, bytes: &[u8]) -> Self {
        let extension =
            |path: &Path| path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        let inner = match extension(path).as_str() {
            "gz" | "zst" => path.with_extension(""),
            _ => path.to_path_buf(),
        };
        match extension(&inner).as_str() {
            "csv" | "data" => Self::Csv,
            "tsv" => Self::Tsv,
            "libsvm" | "svm" => Self::Libsvm,
            _ => {
                let head = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
                let second = head.lines().next().and_then(|line| line.split_ascii_whitespace().nth(1));
                let pair = second.and_then(|token| token.split_once(':'));
                if pair.is_some_and(|(index, _)| index.parse::<u64>().is_ok()) {
                    Self::Libsvm
                } else {
                    Self::Csv
                }
            }
        }
    }
}

/// How a file of records is written, where the command line says so; a schema's words hold for the rest.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct FormatArgs {
    /// Between cells: a character, or `tab` [default: found out]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    pub(crate) delimiter: Option<char>,
    /// The decimal mark [default: found out]
    #[arg(long, value_name = "CHAR", value_parser = mark)]
    pub(crate) decimal: Option<char>,
    /// The mark between thousands [default: found out with --decimal]
    #[arg(long, value_name = "CHAR", value_parser = mark)]
    pub(crate) thousands: Option<char>,
    /// The text's encoding: utf-8, utf-16, latin-1 or windows-1252 [default: utf-8, unless it begins with a byte order mark]
    #[arg(long, value_name = "NAME", value_parser = encoding)]
    pub(crate) encoding: Option<TextEncoding>,
}

impl FormatArgs {
    /// What the command line says, and what `format` says where it says nothing.
    pub(crate) fn over(&self, format: &Format) -> Format {
        Format {
            delimiter: self.delimiter.or(format.delimiter),
            decimal: self.decimal.or(format.decimal),
            thousands: self.thousands.or(format.thousands),
            encoding: self.encoding.or(format.encoding),
            ..format.clone()
        }
    }
}

fn mark(text: &str) -> Result<char, String> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(one), None) => Ok(one),
        _ => Err("it must be one character".to_owned()),
    }
}

fn delimiter(text: &str) -> Result<char, String> {
    match text {
        "tab" | "\\t" => Ok('\t'),
        "space" => Ok(' '),
        "comma" => Ok(','),
        "semicolon" => Ok(';'),
        other => mark(other),
    }
}

fn encoding(text: &str) -> Result<TextEncoding, String> {
    let name = text.to_ascii_lowercase().replace('_', "-");
    let name = match name.as_str() {
        "utf8" => "utf-8",
        "utf16" => "utf-16",
        "latin1" | "iso-8859-1" => "latin-1",
        "cp1252" | "ansi" => "windows-1252",
        other => other,
    };
    let known = TextEncoding::ALL;
    known
        .into_iter()
        .find(|encoding| encoding.name() == name)
        .ok_or_else(|| format!("it is one of {}", known.map(TextEncoding::name).join(", ")))
}

/// A file of records, unpacked.
struct File {
    bytes: Vec<u8>,
    layout: Layout,
    /// What it was packed with.
    packed: Option<&'static str>,
}

/// Opens a file of records.
fn read_bytes(path: &Path) -> Result<File> {
    let unreadable = || format!("{}: cannot be read{}", path.display(), did_you_mean(path, &[]));
    let bytes = fs::read(path).with_context(unreadable)?;
    let (bytes, packed) = packed::unpack(bytes).with_context(unreadable)?;
    let bytes = crate::sheets::as_text(path, bytes)?;
    let layout = Layout::of(path, &bytes);
    Ok(File { bytes, layout, packed })
}

/// Reads the records of one file under a schema, which LIBSVM can do without.
pub(crate) fn read_table(path: &Path, schema: Option<&Schema>) -> Result<Table> {
    read_table_as(path, schema, &FormatArgs::default())
}

/// Reads the records of one file under a schema; the command line may say how the file is written.
pub(crate) fn read_table_as(path: &Path, schema: Option<&Schema>, format: &FormatArgs) -> Result<Table> {
    let name = path.display().to_string();
    let File { bytes, layout, packed } = read_bytes(path)?;
    match (layout, schema) {
        (Layout::Libsvm, _) => Ok(libsvm::read(&bytes[..], &name, schema)?),
        (_, Some(schema)) => {
            let table = csv::read_as(&bytes[..], &name, schema, &format.over(schema.format()))?;
            Ok(match packed {
                Some(packed) => table.unpacked(packed),
                None => table,
            })
        }
        (_, None) => bail!("{name}: CSV needs a public schema (data.schema)\n  help: {}", draft_hint(path)),
    }
}

/// Reads records to apply a model to, whose labels may be missing; also which records of the file could be used.
pub(crate) fn read_new(path: &Path, schema: &Schema, format: &FormatArgs) -> Result<(Table, Vec<bool>)> {
    let name = path.display().to_string();
    let File { bytes, layout, .. } = read_bytes(path)?;
    let table = match layout {
        Layout::Libsvm => libsvm::read(&bytes[..], &name, Some(schema))?,
        _ => csv::read_unlabelled(&bytes[..], &name, schema, &format.over(schema.format()))?,
    };
    let mut kept = vec![false; (table.report().rows + table.report().dropped_missing) as usize];
    table.row_numbers().iter().filter_map(|&row| usize::try_from(row).ok()).for_each(|row| kept[row] = true);
    Ok((table, kept))
}

/// What a drafted schema is made from.
pub(crate) enum Drafted {
    /// A draft with what deserves a look.
    Csv(Box<Draft>),
    /// What a LIBSVM file says of itself.
    Libsvm(Box<Schema>),
}

impl Drafted {
    pub(crate) fn schema(&self) -> &Schema {
        match self {
            Self::Csv(draft) => draft.schema(),
            Self::Libsvm(schema) => schema,
        }
    }
}

/// Drafts one schema of one or more files from their records.
pub(crate) fn draft_schema(paths: &[PathBuf], mut options: DraftOptions) -> Result<Drafted> {
    let (mut files, mut packings) = (Vec::new(), Vec::new());
    for path in paths {
        let name = path.display().to_string();
        let File { bytes, layout, packed } = read_bytes(path)?;
        match layout {
            Layout::Libsvm if paths.len() > 1 => {
                bail!(
                    "{name}: a draft from several files needs CSV; draft from the largest LIBSVM file alone"
                );
            }
            Layout::Libsvm if options.label.is_some() || options.site.is_some() => {
                bail!("{name}: LIBSVM files have no named columns; leave out --label and --site");
            }
            Layout::Libsvm => {
                let table = libsvm::read(&bytes[..], &name, None)?;
                return Ok(Drafted::Libsvm(Box::new(table.schema().clone())));
            }
            Layout::Tsv if paths.len() == 1 => {
                options.format.delimiter = options.format.delimiter.or(Some('\t'));
            }
            _ => {}
        }
        packings.extend(packed.map(|packed| (files.len(), packed)));
        files.push((name, std::io::Cursor::new(bytes)));
    }
    let draft = Draft::of(files, &options)?;
    let draft = packings.into_iter().fold(draft, |draft, (file, packed)| draft.unpacked(file, packed));
    Ok(Drafted::Csv(Box::new(draft)))
}

fn draft_hint(path: &Path) -> String {
    format!("draft one with `consenso data schema {} --out schema.toml`, then review it", path.display())
}
