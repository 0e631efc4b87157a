//! Files as the command line names them: what `consenso-study` opens, with the changes and formats
//! of arguments.

use crate::overrides::{self, Override};
use crate::progress::ReadingProgress;
use anyhow::{Result, anyhow, bail};
use consenso_engine::data::{Format, Schema, Table, TextEncoding, Unknown};
use consenso_engine::experiment::{
    Asking, Experiment, ExperimentSpec, FormatSpec, Inputs, SpecError,
};
use consenso_engine::simulate::{Ranks, SingleRank};
use consenso_study::files::{self, FileError};
pub(crate) use consenso_study::files::{
    Drafted, ExperimentText as Text, Outline, RowStore, draft_schema, expand, experiment, inputs,
    inputs_among, inputs_streamed, read_schema,
};
use std::path::Path;

/// A checked experiment, `adult` if none is named, with the changes of `--set` applied and their
/// errors in place; its files are written as the command line says.
pub(crate) fn checked(
    name: Option<&str>,
    set: &[String],
    format: &FormatArgs,
) -> Result<Experiment, crate::Failure> {
    let text = experiment(name.unwrap_or("adult"))?;
    let changes = set.iter().map(|s| s.parse()).collect::<Result<Vec<Override>, _>>()?;
    let mut spec = overrides::read(&text.text, &text.file, &changes)?;
    format.set(&mut spec);
    let original = text.text.clone();
    let located = |error: SpecError| overrides::relocate(error, &original, &changes);
    Ok(Experiment::check(opened(text, spec, None, located)?).map_err(located)?)
}

/// The questions of an experiment that also trains, checked as a study of their own; `None` where
/// everything they ask is public.
pub(crate) fn checked_questions(
    name: Option<&str>,
    set: &[String],
    format: &FormatArgs,
) -> Result<Option<Experiment>, crate::Failure> {
    let text = experiment(name.unwrap_or("adult"))?;
    let changes = set.iter().map(|s| s.parse()).collect::<Result<Vec<Override>, _>>()?;
    let mut spec = overrides::read(&text.text, &text.file, &changes)?;
    format.set(&mut spec);
    let Some(spec) = spec.questions_alone() else { return Ok(None) };
    let original = text.text.clone();
    let located = |error: SpecError| overrides::relocate(error, &original, &changes);
    let inputs = opened(text, spec, None, located)?;
    match Experiment::check_asking(inputs, &[]).map_err(located)? {
        Asking::Known(_) => Ok(None),
        Asking::ToAsk(experiment) => Ok(Some(*experiment)),
    }
}

/// Opens what an experiment names; `located` puts what is wrong with it in its place.
pub(crate) fn opened(
    text: Text,
    spec: ExperimentSpec,
    entropy: Option<[u8; 32]>,
    located: impl Fn(SpecError) -> SpecError,
) -> Result<Inputs> {
    opened_among(text, spec, entropy, &mut SingleRank, located)
}

/// Opens what one process among several needs of it.
pub(crate) fn opened_among(
    text: Text,
    spec: ExperimentSpec,
    entropy: Option<[u8; 32]>,
    ranks: &mut dyn Ranks,
    located: impl Fn(SpecError) -> SpecError,
) -> Result<Inputs> {
    let _progress = ReadingProgress::begin();
    inputs_among(text, spec, entropy, ranks).map_err(|error| in_place(error, located))
}

/// Opens what one process among several needs of it, and keeps encoded records outside memory.
pub(crate) fn opened_streamed(
    text: Text,
    spec: ExperimentSpec,
    entropy: Option<[u8; 32]>,
    ranks: &mut dyn Ranks,
    store: &mut RowStore<'_>,
    located: impl Fn(SpecError) -> SpecError,
) -> Result<Inputs> {
    let _progress = ReadingProgress::begin();
    inputs_streamed(text, spec, entropy, ranks, store).map_err(|error| in_place(error, located))
}

fn in_place(error: FileError, located: impl Fn(SpecError) -> SpecError) -> anyhow::Error {
    match error {
        FileError::Spec(error) => located(error).into(),
        error => error.into(),
    }
}

/// Reads the records of one file under a schema; an experiment may say how the file is written.
#[cfg(feature = "network")]
pub(crate) fn read_table(path: &Path, schema: &Schema, spec: &ExperimentSpec) -> Result<Table> {
    Ok(files::read_table(path, Some(schema), Some(&spec.format(schema.format())))?)
}

/// Reads the records of one file under a schema; the command line may say how the file is written.
pub(crate) fn read_table_as(path: &Path, schema: &Schema, format: &FormatArgs) -> Result<Table> {
    let _progress = ReadingProgress::begin();
    Ok(files::read_table(path, Some(schema), Some(&format.over(schema.format())))?)
}

/// How a file of records is written, where the command line says so; a schema's words hold for the
/// rest.
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
    /// The text's encoding: utf-8, utf-16, latin-1 or windows-1252 [default: utf-8, unless it
    /// begins with a byte order mark]
    #[arg(long, value_name = "NAME", value_parser = encoding)]
    pub(crate) encoding: Option<TextEncoding>,
}

impl FormatArgs {
    /// What the command line says, and what `format` says where it says nothing.
    pub(crate) fn over(&self, format: &Format) -> Format {
        let Self { delimiter, decimal, thousands, encoding } = *self;
        FormatSpec { delimiter, decimal, thousands, encoding }.over(format)
    }

    /// Writes what the command line says into an experiment, so that the resolved one repeats it.
    pub(crate) fn set(&self, spec: &mut ExperimentSpec) {
        let said = &mut spec.data.format;
        said.delimiter = self.delimiter.or(said.delimiter);
        said.decimal = self.decimal.or(said.decimal);
        said.thousands = self.thousands.or(said.thousands);
        said.encoding = self.encoding.or(said.encoding);
    }
}

/// Reads records to apply a model to, whose labels may be missing; also which records of the file
/// could be used.
pub(crate) fn read_new(
    path: &Path,
    schema: &Schema,
    format: &FormatArgs,
    unknown: Unknown,
) -> Result<(Table, Vec<bool>)> {
    Ok(files::read_new(path, schema, Some(&format.over(schema.format())), unknown)?)
}

/// Reads the cells of some columns of such a file as they are written, record after record.
pub(crate) fn read_texts(
    path: &Path,
    schema: &Schema,
    format: &FormatArgs,
    names: &[String],
) -> Result<Vec<String>> {
    Ok(files::read_texts(path, schema, Some(&format.over(schema.format())), names)?)
}

fn mark(text: &str) -> Result<char> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(one), None) => Ok(one),
        _ => bail!("it must be one character"),
    }
}

fn delimiter(text: &str) -> Result<char> {
    match text {
        "tab" | "\\t" => Ok('\t'),
        "space" => Ok(' '),
        "comma" => Ok(','),
        "semicolon" => Ok(';'),
        other => mark(other),
    }
}

fn encoding(text: &str) -> Result<TextEncoding> {
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
        .ok_or_else(|| anyhow!("it is one of {}", known.map(TextEncoding::name).join(", ")))
}
