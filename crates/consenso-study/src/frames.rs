//! Studies of records that a program in another language holds: Python and R hand over the text of
//! a table per site, or the columns of a frame as they are, and get back JSON.
//!
//! Both are read as a file's would be, so that one schema and one seed give the same bits from a
//! file, from Python and from R.

use crate::files::{self, FileError, Tables, table_of};
use crate::{ExperimentFile as _, SchemaFile as _};
use consenso_engine::Study;
use consenso_engine::data::{Columns, DataError, Draft, DraftOptions, Schema, Unknown, csv};
use consenso_engine::experiment::{
    self, Asking, CallerError, Experiment, ExperimentSpec, Inputs, Observer, RunError, Source,
    SpecError,
};
use consenso_engine::model::{Model, ModelError, Prediction};
use consenso_engine::privacy::Claim;
use consenso_engine::problem::scores;
use consenso_engine::queries::{self, Answered, Question, QuestionError, QuestionKind};
use consenso_engine::study::{Fitted, Noise};
use serde_json::{Value, json};
use std::path::Path;

/// An experiment and the content of the files it names.
#[derive(Debug)]
pub struct Frames {
    /// Its name, for messages.
    pub file: String,
    /// Its TOML text.
    pub text: String,
    /// The training records: a name and the text of a table each.
    pub files: Vec<(String, Vec<u8>)>,
    /// The training records as columns, instead of as text.
    pub columns: Option<FrameColumns>,
    /// The schema, as TOML.
    pub schema: Option<String>,
    /// The test records.
    pub test: Option<(String, Vec<u8>)>,
    /// The edges of a graph in a file: its name and its text.
    pub edges: Option<(String, String)>,
    /// A column that is there because a schema has a label, and that nobody means by "all columns".
    pub spare: Option<String>,
}

/// The columns of a frame, and whose records are in which of its rows.
#[derive(Debug)]
pub struct FrameColumns {
    /// The columns.
    pub columns: Columns,
    /// What would be files: a name and the rows of each.
    pub files: Vec<(String, Vec<u32>)>,
}

/// Why frames cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Records, schema or experiment are not as they should be.
    #[error(transparent)]
    File(#[from] FileError),
    /// The model cannot be applied.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A question cannot be read.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// What was asked for does not fit together.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The run failed, or whoever keeps the budget refused it.
    #[error(transparent)]
    Run(#[from] RunError),
    /// There is nothing to answer: no question, or a run that was cancelled.
    #[error("there is no answer: no question was asked, or the run was cancelled")]
    Unanswered,
}

impl Frames {
    /// Reads the records, for an [`Experiment`] or a [`Study`].
    ///
    /// # Errors
    /// What is wrong with the experiment, the schema or the records.
    pub fn inputs(self, entropy: Option<[u8; 32]>) -> Result<Inputs, FileError> {
        let Self { file, text, files, columns, schema, test, edges, spare: _ } = self;
        let spec = ExperimentSpec::from_toml(&text, &file)?;
        let records = (files, columns);
        let source = source(&spec, &text, &file, records, schema.as_deref(), test)?;
        Ok(Inputs { file, text, spec, source, edges, entropy })
    }

    /// Reads the records of a study; without a seed its noise is the operating system's.
    ///
    /// # Errors
    /// As [`Self::inputs`].
    pub fn study(self, seed: Option<u64>) -> Result<Study, FileError> {
        let noise = seed.map_or(Noise::Os, Noise::Seed);
        Ok(Study::from(self.inputs(None)?).noise(noise))
    }

    /// Asks for statistics of all records in one exchange, as `consenso ask` does: the questions,
    /// each a phrase such as `mean age by sex`, or the `[[query]]` tables of the experiment where
    /// there are none. Whoever keeps a budget books the cost in `charge`, before anything is
    /// released.
    ///
    /// `queries` are the answers, `claim` is what they cost.
    ///
    /// # Errors
    /// [`FrameError`]: what is wrong with the records or the questions, or what `charge` says.
    pub fn ask(
        mut self,
        questions: &[String],
        noise: AskNoise,
        observer: &dyn Observer,
        charge: impl FnOnce(&Experiment) -> Result<(), CallerError>,
    ) -> Result<Value, FrameError> {
        if !questions.is_empty() {
            // An experiment trains or asks something; what is asked takes the place of this.
            self.text = format!("query = [{{ kind = \"count\" }}]\n{}", self.text);
        }
        let (seed, entropy) = match noise {
            AskNoise::Seed(seed) => (Some(seed), None),
            AskNoise::Entropy(bytes) => (None, Some(bytes)),
        };
        let spare = self.spare.take();
        let mut inputs = self.inputs(entropy)?;
        inputs.spec.seed = seed.unwrap_or(inputs.spec.seed);
        if !questions.is_empty() {
            let asked = questions.iter().enumerate();
            inputs.spec.query =
                asked.map(|(k, q)| Question::from_phrase(q, k)).collect::<Result<_, _>>()?;
        }
        let phrases: Vec<String> = inputs.spec.query.iter().map(Question::phrase).collect();
        let in_words = |mut answers: Vec<Answered>| {
            answers.iter_mut().zip(&phrases).for_each(|(a, asked)| a.question.clone_from(asked));
            answers
        };
        if let (Some(spare), Some(data)) = (spare, inputs.source.dataset()) {
            name_all_but(&spare, &data.schema, &mut inputs.spec.query);
        }
        inputs.spec = inputs.spec.questions_alone().ok_or(FrameError::Unanswered)?;
        let experiment = match Experiment::check_asking(inputs, &[])? {
            Asking::Known(answers) => return Ok(answered(&in_words(answers), None)),
            Asking::ToAsk(experiment) => experiment,
        };
        charge(&experiment).map_err(RunError::Caller)?;
        let finished = experiment::run(&experiment, observer)?;
        let (_, answers) = experiment.answered(&finished).ok_or(FrameError::Unanswered)?;
        Ok(answered(&in_words(answers), Some(&experiment)))
    }
}

/// Names the columns of a summary of all columns, which this one is not among.
fn name_all_but(spare: &str, schema: &Schema, questions: &mut [Question]) {
    let all = queries::Columns::of(schema);
    for question in questions {
        if question.kind == QuestionKind::Summary && question.columns.is_empty() {
            let names = all.all().iter().map(|column| &column.name);
            let meant = names.filter(|name| *name != spare && Some(*name) != question.by.as_ref());
            question.columns = meant.cloned().collect();
        }
    }
}

/// Where the noise of answers comes from.
#[derive(Clone, Copy)]
pub enum AskNoise {
    /// A stream that repeats bit for bit, for science.
    Seed(u64),
    /// Bytes of the operating system's entropy, which a claim holds for.
    Entropy([u8; 32]),
}

/// Entropy is never printed.
impl std::fmt::Debug for AskNoise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Seed(_) => "Seed",
            Self::Entropy(_) => "Entropy",
        })
    }
}

fn answered(answers: &[Answered], experiment: Option<&Experiment>) -> Value {
    let claim = experiment.and_then(|e| e.claim(0));
    json!({
        "queries": answers, "claim": claim.as_ref().map(claimed),
        "warnings": experiment.map(|e| e.warnings().to_vec()).unwrap_or_default(),
    })
}

fn claimed(claim: &Claim) -> Value {
    json!({
        "epsilon": claim.epsilon, "delta": claim.delta, "method": claim.method.to_string(),
        "neighbours": claim.neighbours.name(), "adversary": claim.adversary,
        "sampler": claim.sampler, "caveats": claim.caveats, "statement": claim.to_string(),
    })
}

fn source(
    spec: &ExperimentSpec,
    text: &str,
    file: &str,
    (files, columns): (Vec<(String, Vec<u8>)>, Option<FrameColumns>),
    schema: Option<&str>,
    test: Option<(String, Vec<u8>)>,
) -> Result<Box<dyn Source>, FileError> {
    let named = |source| FileError::Schema { file: "the schema".into(), source };
    let schema = schema.map(Schema::from_toml).transpose().map_err(named)?;
    let format = schema.as_ref().map(|schema| spec.format(schema.format()));
    let read = |(name, bytes): (String, Vec<u8>)| {
        table_of(Path::new(&name), bytes, schema.as_ref(), format.as_ref())
    };
    let tables = |_: &str| {
        let train = match (columns, &schema) {
            (Some(FrameColumns { columns, files }), Some(schema)) => {
                let read = |(name, rows): (String, Vec<u32>)| {
                    columns.read(Some(&rows), &name, schema, None)
                };
                files.into_iter().map(read).collect::<Result<_, _>>()?
            }
            _ => files.into_iter().map(read).collect::<Result<_, _>>()?,
        };
        Ok(Tables { train, test: test.map(read).transpose()? })
    };
    files::source(spec, text, file, tables)
}

/// What a fit answers: models, claim, record, the model file, and personal models, which are as
/// private as the records.
#[must_use]
pub fn answer(fitted: &Fitted) -> Value {
    json!({
        "models": fitted.models(), "mean": fitted.model(),
        "claim": fitted.claim().map(claimed), "record": fitted.record(),
        "shareable": fitted.shareable(), "file": fitted.model_file(),
        "personal": fitted.personal_models(),
    })
}

/// What a checked study will cost whoever's records are in it, before it runs; `None` where nothing
/// is claimed.
#[must_use]
pub fn cost(experiment: &Experiment) -> Option<Value> {
    let found = experiment.cost().ok()?;
    Some(json!({
        "cost": found.cost, "relation": found.relation, "adversary": found.adversary,
        "against": found.against, "seeded": experiment.is_seeded(), "transcripts": found.transcripts,
    }))
}

/// Records that a model is applied to.
#[derive(Clone, Copy, Debug)]
pub enum NewRecords<'a> {
    /// The text of a table.
    Text(&'a [u8]),
    /// The columns of a frame.
    Columns(&'a Columns),
}

/// Applies a model file to records: `kept` says which records have an answer, and
/// `scores`, `predictions` and `probabilities` are those of the kept ones.
///
/// # Errors
/// A model that cannot be applied, or records that do not follow its schema.
pub fn predict(
    model: &str,
    name: &str,
    records: NewRecords<'_>,
    agent: Option<&str>,
    unknown: Unknown,
    interval: Option<f64>,
) -> Result<Value, FrameError> {
    let model = Model::from_json(model)?;
    let (schema, encoder, loss) = model.applicable()?;
    let weights = model.weights_of(agent)?;
    let read = match records {
        NewRecords::Text(text) => {
            csv::read_unlabelled(text, name, schema, schema.format(), unknown)
        }
        NewRecords::Columns(columns) => columns.read(None, name, schema, Some(unknown)),
    };
    let new = match read {
        Ok(new) => new,
        // Nobody is left to answer for, which is no error where each record may have no answer.
        Err(DataError::AllMissing { rows, .. }) => {
            let (none, kept) = (Vec::<f64>::new(), vec![false; rows as usize]);
            return Ok(json!({
                "kept": kept, "predictions": none, "probabilities": none, "scores": none,
                "outputs": loss.outputs(), "classes": model.classes, "unknown": {}, "clamped": {},
            }));
        }
        Err(error) => return Err(FileError::Data(error).into()),
    };
    let records = encoder.encode_table(&new);
    let answers = model.answers(&records, weights, model.threshold.unwrap_or(0.5))?;
    let intervals = interval.map(|level| model.intervals(&records, level)).transpose()?;
    let class = |name: &str| model.classes.iter().position(|class| class == name).unwrap_or(0);
    let predictions: Vec<f64> = answers
        .iter()
        .map(|answer| match &answer.prediction {
            Prediction::Class(name) => class(name) as f64,
            Prediction::Number(number) => *number,
        })
        .collect();
    let probabilities: Vec<&[f64]> = answers.iter().map(|a| &a.probabilities[..]).collect();
    Ok(json!({
        "kept": files::usable(&new), "predictions": predictions, "probabilities": probabilities,
        "scores": scores(loss, &records, weights), "outputs": loss.outputs(), "classes": model.classes,
        "unknown": new.report().unknown, "clamped": new.report().clamped, "intervals": intervals,
    }))
}

/// Drafts a schema from the text of a table: its TOML, with what to look at as comments, and what
/// deserves a look in sentences.
///
/// # Errors
/// A text that is no table, or has no column of the given names.
pub fn draft(
    name: &str,
    text: &[u8],
    options: &DraftOptions,
) -> Result<(String, Vec<String>), FileError> {
    let draft = Draft::of([(name.to_owned(), text)], options)?;
    Ok((crate::schema::drafted(&draft), draft.warnings().to_vec()))
}
