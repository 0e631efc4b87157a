//! Studies of files, from Rust: a pattern of CSV files and a schema are enough.

use crate::files::{self, ExperimentText, FileError};
use consenso_engine::Study;
use consenso_engine::data::{Kind, Label};
use consenso_engine::experiment::{ExperimentSpec, LossKind};
use std::path::{Path, PathBuf};

/// Studies of files.
pub trait StudyFiles: Sized {
    /// Begins a study of CSV files, one per site, under a public schema. The loss follows from the
    /// label: logistic for two classes, softmax for more, ridge for numbers.
    ///
    /// Files are read when the study is checked or run. Noise is the operating system's; under a
    /// budget columns are scouted, unless [`Study::encoding`] says otherwise.
    ///
    /// # Errors
    /// A pattern that names no file, or a schema that cannot be read.
    fn from_csv(pattern: &str, schema: impl AsRef<Path>) -> Result<Self, FileError>;
}

impl StudyFiles for Study {
    fn from_csv(pattern: &str, schema: impl AsRef<Path>) -> Result<Self, FileError> {
        let schema = schema.as_ref();
        files::expand(Path::new(""), pattern)?;
        let public = files::read_schema(schema)?;
        let mut spec = ExperimentSpec::named("study");
        spec.data.path = Some(pattern.to_owned());
        spec.data.schema = Some(schema.display().to_string());
        let label = public.columns().iter().find_map(|column| match &column.kind {
            Kind::Label(label) => Some(label),
            _ => None,
        });
        spec.objective.loss = match label {
            Some(Label::Classes(classes)) if classes.len() > 2 => LossKind::Softmax,
            Some(Label::Range { .. }) => LossKind::Ridge,
            _ => LossKind::Logistic,
        };
        Ok(Self::opening(spec, |spec| {
            let text = ExperimentText {
                file: "study".into(),
                text: String::new(),
                folder: PathBuf::new(),
            };
            files::inputs(text, spec, None).map_err(Into::into)
        }))
    }
}
