//! Opening what an experiment refers to: the core reads only what it is handed.
//!
//! The command line, a site of a network and the Python package all read files through here.

pub use crate::sheets::SheetError;
use crate::{SchemaFile as _, bundled, packed};
use consenso_engine::ConfigError;
use consenso_engine::data::{
    DataError, Dataset, DatasetWriter, Draft, DraftOptions, Encoder, Encoding, Format, Schema,
    SchemaError, Scratch, Table, TextEncoding, Unknown, csv, libsvm,
};
use consenso_engine::experiment::{
    AgentCosts, CallerError, DataOrigin, ExperimentSpec, Inputs, PartitionSpec, Source, SpecError,
};
use consenso_engine::graph::GraphSpec;
use consenso_engine::random::Seed;
use consenso_engine::simulate::{RankBlocks, RankError, Ranks, SingleRank};
use std::borrow::Cow;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a file cannot be used. The text names it and says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It cannot be opened.
    #[error("{what}")]
    Open {
        /// The file, and what it should be.
        what: String,
        /// What the operating system says.
        #[source]
        source: std::io::Error,
    },
    /// It is a schema that is not sound.
    #[error("{file}")]
    Schema {
        /// The file.
        file: String,
        /// What is wrong with it.
        #[source]
        source: SchemaError,
    },
    /// A pattern of names is not one.
    #[error("{pattern}: is not a pattern")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        #[source]
        source: glob::PatternError,
    },
    /// It is a table of another program that cannot be read.
    #[error("{file}: {cause}")]
    Sheet {
        /// The file.
        file: String,
        /// What is wrong with it.
        cause: SheetError,
    },
    /// Its records cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The experiment that names it is not sound.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// What the experiment asks for cannot be done with it.
    #[error(transparent)]
    Refused(#[from] ConfigError),
    /// The processes that read it together lost each other.
    #[error(transparent)]
    Ranks(#[from] RankError),
    /// The caller's own place for records cannot be used.
    #[error(transparent)]
    Caller(CallerError),
    /// It is not what is needed here.
    #[error("{0}")]
    Unfit(String),
}

static READ: AtomicU64 = AtomicU64::new(0);

/// Returns how many bytes of records this process has read from tables so far: whoever watches it
/// can show how fast that is. Beginnings count twice, for they are looked at first.
#[must_use]
pub fn bytes_read() -> u64 {
    READ.load(Ordering::Relaxed)
}

/// A file whose bytes are counted.
struct Counted(fs::File);

impl io::Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        READ.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

type Result<T, E = FileError> = std::result::Result<T, E>;

/// Gives an input error its file.
trait Named<T> {
    fn named(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Named<T> for std::io::Result<T> {
    fn named(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| FileError::Open { what: what(), source })
    }
}

fn unfit<T>(message: String) -> Result<T> {
    Err(FileError::Unfit(message))
}

/// An experiment file before it is read: its name for messages, its text, and the folder its paths
/// start from.
#[derive(Debug)]
pub struct ExperimentText {
    /// Its name, for messages.
    pub file: String,
    /// What it says.
    pub text: String,
    /// Where its paths start.
    pub folder: PathBuf,
}

/// How files of records end, some of which only other builds of this program read.
const RECORDS: [&str; 11] =
    ["csv", "tsv", "gz", "zst", "zip", "xlsx", "xls", "ods", "parquet", "arrow", "feather"];

/// Reads the text of an experiment: a built-in one by its name, else a file.
///
/// # Errors
/// A file that cannot be read or is empty, with what may have been meant.
pub fn experiment(name: &str) -> Result<ExperimentText> {
    if let Some(text) = crate::experiment::built_in(name) {
        return Ok(ExperimentText {
            file: name.to_owned(),
            text: text.to_owned(),
            folder: PathBuf::new(),
        });
    }
    let path = Path::new(name);
    let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
    if RECORDS.contains(&kind.to_lowercase().as_str()) && path.is_file() {
        return unfit(format!(
            "{name}: is a file of records by its name, not an experiment\n  help: `consenso data schema {name} --label COLUMN \
             --out schema.toml` drafts what is public about it; an experiment names both files"
        ));
    }
    let text = fs::read_to_string(path).or_else(|why| {
        let built_in: Vec<&str> = crate::experiment::BUILT_IN.iter().map(|e| e.0).collect();
        unfit(format!(
            "{name}: cannot be read: {why}{}\n  help: give an experiment file or a built-in experiment: {}",
            did_you_mean(path, &built_in),
            built_in.join(", ")
        ))
    })?;
    if text.trim().is_empty() {
        return unfit(format!(
            "{name}: the file is empty; `consenso run --print adult` prints an experiment to start from"
        ));
    }
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    Ok(ExperimentText { file: name.to_owned(), text, folder })
}

/// A suggestion, if a file beside `path` or one of the other names is nearly called so.
fn did_you_mean(path: &Path, others: &[&str]) -> String {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|_| !path.exists())
    else {
        return String::new();
    };
    let candidates = files.iter().map(String::as_str).chain(others.iter().copied());
    let near = consenso_engine::data::nearest(name, candidates);
    near.map_or_else(String::new, |near| {
        let near = if others.contains(&near.as_str()) {
            PathBuf::from(near)
        } else {
            path.with_file_name(near)
        };
        format!("; did you mean \"{}\"?", near.display())
    })
}

/// Opens the records and the graph an experiment asks for.
///
/// # Errors
/// What cannot be opened or does not fit together.
pub fn inputs(
    experiment: ExperimentText,
    spec: ExperimentSpec,
    entropy: Option<[u8; 32]>,
) -> Result<Inputs> {
    inputs_among(experiment, spec, entropy, &mut SingleRank)
}

/// Opens what one process among several needs: where every file is an agent, the files of its own
/// agents and no others.
///
/// All processes call it, for they tell each other how many records their files have. Where records
/// are divided in another way (`agents`, `partition`, `hold_out`), or are bundled, every process
/// reads all of them.
///
/// # Errors
/// As for [`inputs`].
pub fn inputs_among(
    experiment: ExperimentText,
    spec: ExperimentSpec,
    entropy: Option<[u8; 32]>,
    ranks: &mut dyn Ranks,
) -> Result<Inputs> {
    inputs_with(experiment, spec, entropy, ranks, None)
}

/// Opens what one process among several needs, as [`inputs_among`] does, and keeps encoded training
/// records of files outside memory.
///
/// Tables are read in pieces that are encoded and written one after the other: neither their text
/// nor their rows are held. LIBSVM files, workbooks, files of columns, what is packed with zstd and
/// text that is not UTF-8 are held one file at a time while they are read. Test records stay in
/// memory. Records that are scouted, bundled or generated are as with [`inputs_among`].
///
/// # Errors
/// As for [`inputs`], and what `store` answers.
pub fn inputs_streamed(
    experiment: ExperimentText,
    spec: ExperimentSpec,
    entropy: Option<[u8; 32]>,
    ranks: &mut dyn Ranks,
    store: &mut RowStore<'_>,
) -> Result<Inputs> {
    inputs_with(experiment, spec, entropy, ranks, Some(store))
}

/// Where encoded records are kept outside memory.
pub struct RowStore<'a> {
    /// Opens the place; it is called once, if there are records to be kept.
    pub open: &'a mut dyn FnMut() -> Result<Arc<dyn Scratch>, CallerError>,
    /// Is told what it will take, before anything is written; an answer refuses it.
    pub before: &'a mut dyn FnMut(&Outline) -> Result<(), CallerError>,
}

impl std::fmt::Debug for RowStore<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

/// What keeping records outside memory will take, as far as the beginnings of the files show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// About how many records there are.
    pub rows: u64,
    /// About how many bytes their rows are.
    pub bytes: u64,
    /// Whether they are written a second time, agent by agent: for certain, or where a site's
    /// records do not lie together.
    pub again: Option<bool>,
}

fn inputs_with(
    experiment: ExperimentText,
    mut spec: ExperimentSpec,
    entropy: Option<[u8; 32]>,
    ranks: &mut dyn Ranks,
    store: Option<&mut RowStore<'_>>,
) -> Result<Inputs> {
    let store = store.filter(|_| spec.data.encoding != Encoding::Scouted);
    let edges = edges(&experiment, &spec)?;
    let by_file =
        spec.data.agents.is_none() && spec.data.partition.is_none() && spec.data.hold_out.is_none();
    let files = match spec.origin(&experiment.text, &experiment.file)? {
        DataOrigin::Files(pattern) if by_file && ranks.ranks() > 1 => {
            expand(&experiment.folder, pattern)?
        }
        _ => Vec::new(),
    };
    let source = if files.len() > 1 {
        part(&experiment, &spec, edges.as_ref(), &files, ranks, store)?
    } else {
        source_of(&spec, &experiment.text, &experiment.file, |pattern| match store {
            Some(store) => {
                let paths = expand(&experiment.folder, pattern)?;
                let numbered: Vec<_> = paths.iter().map(PathBuf::as_path).enumerate().collect();
                let (storing, test) = stored(&experiment, &spec, &numbered, paths.len(), store)?;
                Ok(storing.finish(test.as_ref())?)
            }
            None => dataset(&spec, tables(&experiment, &spec, pattern)?),
        })?
    };
    // The resolved experiment is written elsewhere and must find the same files.
    let data = &mut spec.data;
    for path in [&mut data.path, &mut data.schema, &mut data.test].into_iter().flatten() {
        *path = absolute(&experiment.folder, Path::new(path))?.display().to_string();
    }
    if let GraphSpec::File { path, .. } = &mut spec.graph {
        *path = absolute(&experiment.folder, path)?;
    }
    Ok(Inputs { file: experiment.file, text: experiment.text, spec, source, edges, entropy })
}

/// Reads the files of a process's own agents.
fn part(
    experiment: &ExperimentText,
    spec: &ExperimentSpec,
    edges: Option<&(String, String)>,
    files: &[PathBuf],
    ranks: &mut dyn Ranks,
    store: Option<&mut RowStore<'_>>,
) -> Result<Box<dyn Source>> {
    let division = RankBlocks::new(&*spec.first_graph(files.len(), edges)?, ranks.ranks());
    let mine: Vec<usize> = division.agents(ranks.rank()).collect();
    // Everybody learns everybody's counts, which are public.
    let mut share = |counts: Vec<f64>| -> Result<Vec<usize>> {
        let by_rank = ranks.sent_to_first(counts, &division.counts())?;
        let mut all = vec![0.0; files.len()];
        for (rank, counts) in by_rank.iter().enumerate() {
            division.agents(rank).zip(counts).for_each(|(file, &count)| all[file] = count);
        }
        let all = ranks.sent_by_first(all, files.len())?;
        Ok(all.into_iter().map(|count| count as usize).collect())
    };
    if let Some(store) = store {
        let own: Vec<(usize, &Path)> =
            mine.iter().map(|&file| (file, files[file].as_path())).collect();
        let (storing, test) = stored(experiment, spec, &own, files.len(), store)?;
        let counts = share(storing.counts().into_iter().map(|(_, count)| count as f64).collect())?;
        return Ok(Box::new(storing.finish_part(test.as_ref(), counts)?));
    }
    let own: Vec<PathBuf> = mine.iter().map(|&file| files[file].clone()).collect();
    let Tables { train, test } = tables_of(experiment, spec, &own, files.len())?;
    let counts = share(train.iter().map(|table| table.len() as f64).collect())?;
    let train = mine.into_iter().zip(train).collect();
    Ok(Box::new(Dataset::part(train, test.as_ref(), spec.data.encoding, counts)?))
}

/// Reads some of so many files, by their numbers, and writes their rows outside memory; the records
/// to test on come back as they are.
fn stored(
    experiment: &ExperimentText,
    spec: &ExperimentSpec,
    paths: &[(usize, &Path)],
    files: usize,
    store: &mut RowStore<'_>,
) -> Result<(DatasetWriter, Option<Table>)> {
    let data = &spec.data;
    let mut schema = schema_of(experiment, spec, paths.first().map(|p| p.1), files)?;
    let test_file = test_file(experiment, spec, paths.iter().map(|p| p.1))?;
    let by = spec.divides_by();
    let classes = matches!(data.partition, Some(PartitionSpec::Dirichlet(_)));
    let mut outline = Outline { rows: 0, bytes: 0, again: None };
    for (_, path) in paths {
        let (rows, bytes) = Beginning::of(path)?.about(schema.as_ref(), data.encoding)?;
        outline.rows += rows;
        outline.bytes += bytes;
    }
    outline.again = match by {
        None => Some(true),
        Some("file") => Some(data.hold_out.is_some()),
        Some(_) => None,
    };
    (store.before)(&outline).map_err(FileError::Caller)?;
    let scratch = (store.open)().map_err(FileError::Caller)?;
    let mut storing = DatasetWriter::new(scratch, data.encoding, by, classes);
    for &(number, path) in paths {
        let format = schema.as_ref().map(|schema| spec.format(schema.format()));
        match (Beginning::of(path)?.opened(), schema.as_ref()) {
            (Some(open), Some(schema)) => {
                let format = format.as_ref().unwrap_or(schema.format());
                let name = path.display().to_string();
                csv::read_in_pieces(&*open, &name, schema, format, &mut |table| {
                    storing.push(number, table)
                })?;
            }
            _ => {
                let table = read_table(path, schema.as_ref(), format.as_ref())?;
                // What one file says of itself holds for all.
                schema.get_or_insert_with(|| table.schema().clone());
                storing.push(number, table)?;
            }
        }
    }
    let test = test_file.map(|path| {
        let format = schema.as_ref().map(|schema| spec.format(schema.format()));
        read_table(&path, schema.as_ref(), format.as_ref())
    });
    Ok((storing, test.transpose()?))
}

/// How a file of records begins.
struct Beginning<'a> {
    path: &'a Path,
    length: u64,
    head: Vec<u8>,
}

impl<'a> Beginning<'a> {
    fn of(path: &'a Path) -> Result<Self> {
        let unreadable =
            || format!("{}: cannot be read{}", path.display(), did_you_mean(path, &[]));
        let mut head = Vec::new();
        let length = fs::File::open(path)
            .and_then(|file| {
                let length = file.metadata()?.len();
                io::Read::take(file, 1 << 18).read_to_end(&mut head)?;
                Ok(length)
            })
            .named(unreadable)?;
        Ok(Self { path, length, head })
    }

    fn is_gzip(&self) -> bool {
        self.head.starts_with(&[0x1f, 0x8b])
    }

    /// How to open its text, if it is a table that can be read in pieces.
    fn opened(&self) -> Option<Box<csv::Open<'a>>> {
        let path = self.path;
        let text = self.text();
        // Packed with zstd; a workbook, old or new; Parquet; Arrow, as a file and as a stream.
        let whole: [&[u8]; 6] = [
            b"\x28\xb5\x2f\xfd",
            b"PK\x03\x04",
            b"\xd0\xcf\x11\xe0",
            b"PAR1",
            b"ARROW1",
            b"\xff\xff\xff\xff",
        ];
        if whole.iter().any(|magic| text.starts_with(magic))
            || Layout::of(path, &text) == Layout::Libsvm
        {
            return None;
        }
        let gzip = self.is_gzip();
        Some(Box::new(move || {
            let file = Counted(fs::File::open(path)?);
            Ok(match gzip {
                true => Box::new(flate2::read::MultiGzDecoder::new(io::BufReader::new(file))),
                false => Box::new(file),
            })
        }))
    }

    /// The records of a table that can be read in pieces.
    fn table(
        &self,
        open: &csv::Open<'_>,
        schema: &Schema,
        format: Option<&Format>,
        new: Option<Unknown>,
    ) -> Result<Table> {
        let (name, format) = (self.path.display().to_string(), format.unwrap_or(schema.format()));
        let table = csv::read_opened(open, &name, schema, format, new)?;
        Ok(if self.is_gzip() { table.unpacked("gzip") } else { table })
    }

    /// How its text begins.
    fn text(&self) -> Cow<'_, [u8]> {
        if !self.is_gzip() {
            return Cow::Borrowed(&self.head);
        }
        let mut text = Vec::new();
        // Cut off in the middle it ends with an error, after what there was.
        let _ = io::Read::take(flate2::read::MultiGzDecoder::new(&self.head[..]), 1 << 20)
            .read_to_end(&mut text);
        Cow::Owned(text)
    }

    /// About how many records it has, and bytes of encoded rows.
    fn about(&self, schema: Option<&Schema>, encoding: Encoding) -> Result<(u64, u64)> {
        let text = self.text();
        let count = |mark: u8| text.iter().filter(|&&byte| byte == mark).count().max(1) as u64;
        // A packed text is as much longer than its file as its beginning is.
        let packed = if self.is_gzip() { text.len() as u64 } else { self.head.len() as u64 };
        let length = self.length * packed.max(1) / self.head.len().max(1) as u64;
        let rows = length * count(b'\n') / text.len().max(1) as u64 + 1;
        let bytes = match schema {
            Some(schema) if Layout::of(self.path, &text) != Layout::Libsvm => {
                rows * Encoder::new(schema, encoding)?.row_bytes(schema) as u64
            }
            // A column, a number and some more for the row.
            _ => rows * 16 + length * count(b':') / text.len().max(1) as u64 * 12,
        };
        Ok((rows, bytes))
    }
}

/// The edge list of a graph that stands in a file.
fn edges(experiment: &ExperimentText, spec: &ExperimentSpec) -> Result<Option<(String, String)>> {
    Ok(match &spec.graph {
        GraphSpec::File { path, .. } => {
            let path = experiment.folder.join(path);
            let name = path.display().to_string();
            let text = fs::read_to_string(&path).named(|| {
                format!("{name}: cannot be read; graph.path names an edge list, `a b` a line")
            })?;
            Some((name, text))
        }
        _ => None,
    })
}

fn absolute(folder: &Path, path: &Path) -> Result<PathBuf> {
    std::path::absolute(folder.join(path))
        .named(|| format!("{}: has no absolute form", path.display()))
}

/// The records of an experiment, before they are divided.
#[derive(Debug)]
pub struct Tables {
    /// Those to train on, one table per file.
    pub train: Vec<Table>,
    /// Those to test on, if they have a file.
    pub test: Option<Table>,
}

/// Finds the records an experiment asks for: bundled, generated, or what `open` reads where it
/// names files, by their pattern.
///
/// # Errors
/// What cannot be opened or does not fit together.
pub fn source(
    spec: &ExperimentSpec,
    text: &str,
    file: &str,
    open: impl FnOnce(&str) -> Result<Tables>,
) -> Result<Box<dyn Source>> {
    source_of(spec, text, file, |pattern| dataset(spec, open(pattern)?))
}

fn dataset(spec: &ExperimentSpec, Tables { train, test }: Tables) -> Result<Dataset> {
    Ok(Dataset::new(train, test.as_ref(), spec.data.encoding)?)
}

fn source_of(
    spec: &ExperimentSpec,
    text: &str,
    file: &str,
    open: impl FnOnce(&str) -> Result<Dataset>,
) -> Result<Box<dyn Source>> {
    let at = |key: &str, message: &str, help: Option<&str>| {
        SpecError::at_key(file, text, key, message, help.map(str::to_owned))
    };
    let data = &spec.data;
    let mut dataset = match spec.origin(text, file)? {
        DataOrigin::Costs => return Ok(Box::new(AgentCosts::of(spec))),
        DataOrigin::Synthetic => {
            let problem =
                spec.synthetic().unwrap_or_else(|| Err(ConfigError::of("there is no such source")));
            let problem = problem.map_err(|fault| at("data", &fault.to_string(), None))?;
            return Ok(Box::new(problem));
        }
        origin @ (DataOrigin::Adult | DataOrigin::Heart { .. }) => {
            for (key, given) in [("schema", &data.schema), ("test", &data.test)] {
                if given.is_some() {
                    Err(at(key, "the bundled data have their own", Some("leave it out")))?;
                }
            }
            let dataset = match origin {
                DataOrigin::Heart { flamby: true } => bundled::heart_flamby(data.encoding),
                DataOrigin::Heart { flamby: false } => bundled::heart(data.encoding),
                _ => bundled::adult(data.encoding),
            };
            dataset.map_err(|e| at("encoding", &e.to_string(), None))?
        }
        DataOrigin::Files(pattern) => {
            if data.test.is_some() && data.hold_out.is_some() {
                Err(at(
                    "hold_out",
                    "there are test records in a file",
                    Some("keep test or hold_out"),
                ))?;
            }
            let dataset = open(pattern)?;
            if spec.privacy.is_none() {
                dataset.at_least_two_classes()?;
            }
            dataset
        }
    };
    if let Some(share) = data.hold_out {
        let keys = spec.record_keys().unwrap_or_default();
        dataset = dataset
            .hold_out(share, keys, spec.divides_by(), &Seed::from(spec.seed))
            .map_err(|e| at("hold_out", &e.to_string(), Some("a share such as 0.2")))?;
    }
    Ok(Box::new(dataset))
}

/// Opens the records an experiment names.
fn tables(experiment: &ExperimentText, spec: &ExperimentSpec, pattern: &str) -> Result<Tables> {
    let paths = expand(&experiment.folder, pattern)?;
    tables_of(experiment, spec, &paths, paths.len())
}

/// Opens some of so many files of records, and those to test on.
fn tables_of(
    experiment: &ExperimentText,
    spec: &ExperimentSpec,
    paths: &[PathBuf],
    files: usize,
) -> Result<Tables> {
    let schema = schema_of(experiment, spec, paths.first().map(PathBuf::as_path), files)?;
    let read = |path: &Path, schema: Option<&Schema>| {
        let format = schema.map(|schema| spec.format(schema.format()));
        read_table(path, schema, format.as_ref())
    };
    let test = test_file(experiment, spec, paths.iter().map(PathBuf::as_path))?;
    let train: Vec<Table> =
        paths.iter().map(|path| read(path, schema.as_ref())).collect::<Result<_>>()?;
    // Test records follow the training records' schema, even where that was drafted.
    let test = match test {
        Some(path) => Some(read(&path, train.first().map(Table::schema))?),
        None => None,
    };
    Ok(Tables { train, test })
}

/// The file of test records, which is none of the files to train on.
fn test_file<'a>(
    experiment: &ExperimentText,
    spec: &ExperimentSpec,
    train: impl IntoIterator<Item = &'a Path>,
) -> Result<Option<PathBuf>> {
    let Some(test) = &spec.data.test else { return Ok(None) };
    let path = experiment.folder.join(test);
    // By whatever names a file is called. One that is not there is said where it is read.
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if train.into_iter().any(|file| real(file) == real(&path)) {
        let message = "is a file of records to train on: test records are public, and no model is judged by what it was trained on";
        let help = "name another file, or leave test out and set hold_out = 0.2".to_owned();
        Err(SpecError::at_key(&experiment.file, &experiment.text, "test", message, Some(help)))?;
    }
    Ok(Some(path))
}

/// The schema that an experiment names; several files need one.
fn schema_of(
    experiment: &ExperimentText,
    spec: &ExperimentSpec,
    first: Option<&Path>,
    files: usize,
) -> Result<Option<Schema>> {
    if let Some(path) = &spec.data.schema {
        let schema = read_schema(&experiment.folder.join(path))?;
        let roles = spec.data.with_roles(schema).map_err(|fault| {
            let key = fault.key().map_or("data", |key| key.rsplit('.').next().unwrap_or(key));
            SpecError::at_key(&experiment.file, &experiment.text, key, &fault.to_string(), None)
        })?;
        return Ok(Some(roles));
    }
    if files > 1 {
        let help = first.map(draft_hint);
        let message = "several files need one public schema";
        Err(SpecError::at_key(&experiment.file, &experiment.text, "data", message, help))?;
    }
    Ok(None)
}

/// Returns the files a path or a pattern names, in order.
///
/// # Errors
/// A folder, or a pattern that no file matches.
pub fn expand(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>> {
    let path = folder.join(pattern);
    if path.is_dir() {
        return unfit(format!(
            "{}: is a folder; name its files, for example {pattern}/*.csv",
            path.display()
        ));
    }
    if path.exists() || !pattern.contains(['*', '?', '[']) {
        return Ok(vec![path]);
    }
    let Some(text) = path.to_str() else {
        return unfit(format!("{}: is not UTF-8", path.display()));
    };
    let mut found = glob::glob(text)
        .map_err(|source| FileError::Pattern { pattern: text.to_owned(), source })?
        .collect::<Result<Vec<_>, glob::GlobError>>()
        .map_err(|e| FileError::Open {
            what: format!("{text}: cannot be listed"),
            source: e.into(),
        })?;
    found.retain(|path| path.is_file());
    found.sort();
    if found.is_empty() {
        return unfit(format!(
            "{text}: no file matches; relative paths start at the experiment file's folder"
        ));
    }
    Ok(found)
}

/// Reads a schema file.
///
/// # Errors
/// A file that cannot be read, or is no schema.
pub fn read_schema(path: &Path) -> Result<Schema> {
    let name = path.display();
    let text = fs::read_to_string(path).named(|| {
        let near = did_you_mean(path, &[]);
        format!(
            "{name}: cannot be read{near}\n  help: `consenso data schema RECORDS.csv --out {name}` drafts one"
        )
    })?;
    Schema::from_toml(&text).map_err(|source| FileError::Schema { file: name.to_string(), source })
}

/// How a file of records is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Csv,
    Tsv,
    Libsvm,
}

impl Layout {
    /// By the extension (before `.gz` or `.zst`), else by the first line: `label index:value …` is
    /// LIBSVM.
    fn of(path: &Path, bytes: &[u8]) -> Self {
        let extension = |path: &Path| {
            path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase()
        };
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
                let second =
                    head.lines().next().and_then(|line| line.split_ascii_whitespace().nth(1));
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

/// A file of records, unpacked.
struct File {
    bytes: Vec<u8>,
    layout: Layout,
    /// What it was packed with.
    packed: Option<&'static str>,
    /// Whether the text was made here, from a workbook or a file of columns.
    made: bool,
}

impl File {
    fn of(path: &Path, bytes: Vec<u8>) -> Result<Self> {
        let (bytes, packed) =
            packed::unpack(bytes).named(|| format!("{}: cannot be read", path.display()))?;
        let (bytes, made) = crate::sheets::as_text(bytes)
            .map_err(|cause| FileError::Sheet { file: path.display().to_string(), cause })?;
        let layout = if made.is_some() { Layout::Csv } else { Layout::of(path, &bytes) };
        Ok(Self { bytes, layout, packed: packed.or(made), made: made.is_some() })
    }

    /// How the file is written: as somebody said, unless its text was made here; then only the
    /// words for "unknown" are theirs.
    fn format(&self, said: &Format) -> Format {
        let mut format = said.clone();
        if self.made {
            (format.delimiter, format.quote, format.decimal) = (Some(','), Some('"'), Some('.'));
            (format.thousands, format.comment, format.encoding) =
                (None, None, Some(TextEncoding::Utf8));
        }
        format
    }
}

/// Opens a file of records.
fn read_bytes(path: &Path) -> Result<File> {
    let unreadable = || format!("{}: cannot be read{}", path.display(), did_you_mean(path, &[]));
    let bytes = fs::read(path).named(unreadable)?;
    READ.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    File::of(path, bytes)
}

/// Reads the records of one file under a schema, which LIBSVM can do without; `format` says how the
/// file is written where the schema does not hold.
///
/// # Errors
/// [`FileError`] names the file, the line and the column.
pub fn read_table(path: &Path, schema: Option<&Schema>, format: Option<&Format>) -> Result<Table> {
    let beginning = Beginning::of(path)?;
    match (schema, beginning.opened()) {
        (Some(schema), Some(open)) => beginning.table(&*open, schema, format, None),
        _ => table(path, &read_bytes(path)?, schema, format),
    }
}

/// Reads the records of a file whose bytes somebody else has read.
///
/// # Errors
/// As [`read_table`].
pub fn table_of(
    path: &Path,
    bytes: Vec<u8>,
    schema: Option<&Schema>,
    format: Option<&Format>,
) -> Result<Table> {
    table(path, &File::of(path, bytes)?, schema, format)
}

fn table(
    path: &Path,
    file: &File,
    schema: Option<&Schema>,
    format: Option<&Format>,
) -> Result<Table> {
    let name = path.display().to_string();
    match (file.layout, schema) {
        (Layout::Libsvm, _) => Ok(libsvm::read(&file.bytes[..], &name, schema)?),
        (_, Some(schema)) => {
            let format = file.format(format.unwrap_or(schema.format()));
            let table = csv::read_as(&file.bytes[..], &name, schema, &format)?;
            Ok(match file.packed {
                Some(packed) => table.unpacked(packed),
                None => table,
            })
        }
        (_, None) => unfit(format!(
            "{name}: CSV needs a public schema (data.schema)\n  help: {}",
            draft_hint(path)
        )),
    }
}

/// Reads records to apply a model to, whose labels may be missing; also which records of the file
/// could be used. `unknown` says what becomes of categories that the schema does not declare.
///
/// # Errors
/// As [`read_table`].
pub fn read_new(
    path: &Path,
    schema: &Schema,
    format: Option<&Format>,
    unknown: Unknown,
) -> Result<(Table, Vec<bool>)> {
    let name = path.display().to_string();
    let beginning = Beginning::of(path)?;
    let table = match beginning.opened() {
        Some(open) => beginning.table(&*open, schema, format, Some(unknown))?,
        None => {
            let file = read_bytes(path)?;
            let format = file.format(format.unwrap_or(schema.format()));
            match file.layout {
                Layout::Libsvm => libsvm::read(&file.bytes[..], &name, Some(schema))?,
                _ => csv::read_unlabelled(&file.bytes[..], &name, schema, &format, unknown)?,
            }
        }
    };
    let kept = usable(&table);
    Ok((table, kept))
}

/// Reads the cells of these columns of new records as they are written, record after record.
///
/// # Errors
/// As [`read_table`], and a column that the file does not have.
pub fn read_texts(
    path: &Path,
    schema: &Schema,
    format: Option<&Format>,
    names: &[String],
) -> Result<Vec<String>> {
    let name = path.display().to_string();
    let beginning = Beginning::of(path)?;
    let said = format.unwrap_or(schema.format());
    if let Some(open) = beginning.opened() {
        return Ok(csv::read_texts(&*open, &name, schema, said, names)?);
    }
    let file = read_bytes(path)?;
    if file.layout == Layout::Libsvm {
        return unfit(format!("{name}: LIBSVM files have no named columns to keep"));
    }
    let open =
        || -> io::Result<Box<dyn io::Read + '_>> { Ok(Box::new(io::Cursor::new(&file.bytes[..]))) };
    Ok(csv::read_texts(&open, &name, schema, &file.format(said), names)?)
}

/// Which records of a file were kept in its table.
#[must_use]
pub fn usable(table: &Table) -> Vec<bool> {
    let mut kept = vec![false; (table.report().rows + table.report().dropped_missing) as usize];
    table
        .row_numbers()
        .iter()
        .filter_map(|&row| usize::try_from(row).ok())
        .for_each(|row| kept[row] = true);
    kept
}

/// What a drafted schema is made from.
#[derive(Debug)]
pub enum Drafted {
    /// A draft with what deserves a look.
    Csv(Box<Draft>),
    /// What a LIBSVM file says of itself.
    Libsvm(Box<Schema>),
}

impl Drafted {
    /// Returns the schema, not reviewed.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        match self {
            Self::Csv(draft) => draft.schema(),
            Self::Libsvm(schema) => schema,
        }
    }
}

/// Drafts one schema of one or more files from their records.
///
/// # Errors
/// Files that cannot be read, or that no one schema fits.
pub fn draft_schema(paths: &[PathBuf], mut options: DraftOptions) -> Result<Drafted> {
    let (mut files, mut packings) = (Vec::new(), Vec::new());
    for path in paths {
        let name = path.display().to_string();
        let beginning = Beginning::of(path)?;
        let (open, layout, packed): (Box<csv::Open<'_>>, _, _) = match beginning.opened() {
            Some(open) => {
                let packed = beginning.is_gzip().then_some("gzip");
                (open, Layout::of(path, &beginning.text()), packed)
            }
            None => {
                let File { bytes, layout, packed, .. } = read_bytes(path)?;
                if layout == Layout::Libsvm {
                    return draft_libsvm(&name, &bytes, paths.len(), &options);
                }
                let bytes: Arc<[u8]> = bytes.into();
                let open = move || -> io::Result<Box<dyn io::Read>> {
                    Ok(Box::new(io::Cursor::new(Arc::clone(&bytes))))
                };
                (Box::new(open), layout, packed)
            }
        };
        if layout == Layout::Tsv && paths.len() == 1 {
            options.format.delimiter = options.format.delimiter.or(Some('\t'));
        }
        packings.extend(packed.map(|packed| (files.len(), packed)));
        files.push((name, open));
    }
    let draft = Draft::of_opened(&files, &options)?;
    let draft =
        packings.into_iter().fold(draft, |draft, (file, packed)| draft.unpacked(file, packed));
    Ok(Drafted::Csv(Box::new(draft)))
}

/// What a LIBSVM file says of itself, if it is the only one.
fn draft_libsvm(name: &str, bytes: &[u8], files: usize, options: &DraftOptions) -> Result<Drafted> {
    if files > 1 {
        return unfit(format!(
            "{name}: a draft from several files needs CSV; draft from the largest LIBSVM file alone"
        ));
    }
    if options.label.is_some() || options.site.is_some() {
        return unfit(format!(
            "{name}: LIBSVM files have no named columns; leave out --label and --site"
        ));
    }
    let table = libsvm::read(bytes, name, None)?;
    Ok(Drafted::Libsvm(Box::new(table.schema().clone())))
}

fn draft_hint(path: &Path) -> String {
    format!(
        "draft one with `consenso data schema {} --out schema.toml`, then review it",
        path.display()
    )
}
