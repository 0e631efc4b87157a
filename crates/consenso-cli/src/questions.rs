//! What a site answers without asking its operator: `questions.toml` in its folder, `node
//! questions` and `node answers`.

use crate::table::rounded_up;
use crate::{Failure, output};
use anyhow::{Context as _, anyhow};
use consenso_engine::experiment::Experiment;
use consenso_engine::gate::Round;
use consenso_engine::queries::{self, Question, QuestionKind};
use consenso_ledger::{Edited, RecordsLedger, clock};
use consenso_node::decisions::{self, DecidedBy, DecidedQuestion, Decision, Verdict};
use consenso_node::folder::Folder;
use consenso_node::frame::{Hex, sha256};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// What the operator has decided lies here.
const POLICY: &str = "questions.toml";

/// Show the questions of a site's study, and accept or refuse them
///
/// questions.toml in the site's folder says what is answered without asking: `kinds`, `columns`,
/// `smallest_group` (records of this site), `epsilon` of a questionnaire, `epsilon_per_day` of all
/// studies of these records within 24 hours. Everything else waits until the operator accepts it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder of the site
    pub(crate) folder: PathBuf,
    /// Answer the questions of this study
    #[arg(long, conflicts_with = "refuse")]
    accept: bool,
    /// Never answer the questions of this study
    #[arg(long)]
    refuse: bool,
}

/// `questions.toml`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Policy {
    /// Kinds of questions that are answered without asking; none if left out.
    #[serde(default)]
    kinds: Vec<QuestionKind>,
    /// Columns that may be asked about and grouped by; all if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    columns: Option<Vec<String>>,
    /// How many records this site must have for each group that is asked about, on average.
    #[serde(default)]
    smallest_group: usize,
    /// The most that one questionnaire may cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epsilon: Option<f64>,
    /// The most that all studies of these records, this one included, may cost within 24 hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epsilon_per_day: Option<f64>,
    /// Studies that the operator accepted, by the digest of their file.
    #[serde(default)]
    accepted: Vec<String>,
    /// Studies that the operator refused.
    #[serde(default)]
    refused: Vec<String>,
}

/// How a questionnaire stands at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum QuestionnaireStatus {
    Answered,
    Accepted,
    Refused,
    Pending,
}

impl Policy {
    fn read(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(POLICY);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(toml::from_str(&text).with_context(|| path.display().to_string())?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(anyhow!("{}: {error}", path.display()).into()),
        }
    }

    /// What it lets pass without asking, in one line.
    fn rules(&self) -> String {
        let kinds: Vec<&str> = self.kinds.iter().map(|k| k.name()).collect();
        let mut all = match kinds.is_empty() {
            true => vec!["no kind of question".to_owned()],
            false => vec![format!("kinds {}", kinds.join(", "))],
        };
        all.extend(self.columns.as_ref().map(|c| format!("columns {}", c.join(", "))));
        if self.smallest_group > 0 {
            all.push(format!("groups of {} records or more", self.smallest_group));
        }
        all.extend(self.epsilon.map(|e| format!("ε ≤ {e} for a questionnaire")));
        all.extend(self.epsilon_per_day.map(|e| format!("ε ≤ {e} within 24 hours")));
        all.join("; ")
    }

    /// Why a question needs the operator; `None` where the site answers it by itself.
    fn open(&self, question: &Question, records: usize, groups: usize) -> Option<String> {
        if !self.kinds.contains(&question.kind) {
            return Some(format!("{POLICY} does not list the kind {}", question.kind.name()));
        }
        let mut named = question.named_columns();
        named.extend(question.by.as_deref().filter(|by| *by != "site"));
        if let Some(columns) = &self.columns {
            let all = matches!(question.kind, QuestionKind::Summary | QuestionKind::Correlation);
            if all && question.columns.is_empty() {
                return Some(format!("{POLICY} lists columns, and the question is about all"));
            }
            if let Some(other) = named.iter().find(|c| !columns.iter().any(|l| l == *c)) {
                return Some(format!("{POLICY} does not list the column {other}"));
            }
        }
        let each = records / groups.max(1);
        (each < self.smallest_group).then(|| {
            format!("{groups} groups of {records} records: fewer than {} each", self.smallest_group)
        })
    }
}

/// Seconds of a day.
const DAY: u64 = 24 * 60 * 60;

/// Why a questionnaire does not fit into what may be spent in a day; `None` where it does. A study
/// that has begun goes on.
fn too_much_today(folder: &Folder, experiment: &Experiment, most: f64) -> Option<String> {
    let began = folder.path.join(consenso_node::store::FILE).exists();
    if began || !experiment.has_own_records() {
        return None;
    }
    let cost = experiment.claim(0)?.epsilon;
    let ledger =
        RecordsLedger::open(&folder.records(), folder.ledger().as_deref(), Edited::default());
    let spent = match ledger {
        Ok(ledger) => ledger.spent_since(clock::now().saturating_sub(DAY)),
        Err(error) => return Some(format!("what was spent today is not known: {error}")),
    };
    (spent + cost > most).then(|| {
        let (spent, cost) = (rounded_up(spent, 4), rounded_up(cost, 4));
        format!(
            "{POLICY} allows ε = {most} within 24 hours; {spent} is spent, and this costs {cost}"
        )
    })
}

/// A question, and why it needs the operator.
type Asked = (String, Option<String>);

/// Every question with why it needs the operator, and how the questionnaire stands.
fn standing(
    folder: &Folder,
    experiment: &Experiment,
    digest: &str,
) -> Result<(QuestionnaireStatus, Vec<Asked>), Failure> {
    let policy = Policy::read(&folder.path)?;
    let Some(asked) = experiment.questionnaire() else {
        return Ok((QuestionnaireStatus::Answered, Vec::new()));
    };
    let records = folder.peers[folder.me].records;
    let claim = experiment.claim(0);
    let dear = policy.epsilon.filter(|most| claim.as_ref().is_none_or(|c| c.epsilon > *most));
    let today = policy.epsilon_per_day.and_then(|most| too_much_today(folder, experiment, most));
    let of = |(question, groups): (&Question, usize)| {
        let why = policy.open(question, records, groups);
        let price = || dear.map(|most| format!("it costs more than ε = {most}, or claims nothing"));
        (question.phrase(), why.or_else(price).or_else(|| today.clone()))
    };
    let groups = asked.plan().groups();
    let all: Vec<_> = asked.plan().questions().iter().zip(groups).map(of).collect();
    let is = |list: &[String]| list.iter().any(|d| d == digest);
    let standing = if is(&policy.refused) {
        QuestionnaireStatus::Refused
    } else if is(&policy.accepted) {
        QuestionnaireStatus::Accepted
    } else if all.iter().all(|(_, why)| why.is_none()) {
        QuestionnaireStatus::Answered
    } else {
        QuestionnaireStatus::Pending
    };
    Ok((standing, all))
}

/// Writes down what was decided about the questions of a study, for the audit.
fn decide(
    folder: &Folder,
    experiment: &Experiment,
    digest: &str,
    decision: Verdict,
    by: DecidedBy,
    questions: &[Asked],
) -> Result<(), Failure> {
    let asked = |(question, because): &Asked| DecidedQuestion {
        question: question.clone(),
        because: because.clone(),
    };
    let decision = Decision {
        time: clock::text(clock::now()),
        study: digest.to_owned(),
        decision,
        by,
        questions: questions.iter().map(asked).collect(),
        rules: Policy::read(&folder.path)?.rules(),
        cost: experiment.claim(0).map(|c| (c.epsilon, c.delta)),
        before: String::new(),
        hash: String::new(),
    };
    decisions::write(&folder.path, decision).map_err(|e| Failure::Run(e.into()))?;
    Ok(())
}

/// The decisions of a site as `node audit` prints them, a line each; `answers` says by which of them
/// studies of the ledger began.
pub(crate) fn decided(all: &[Decision]) -> String {
    let line = |d: &Decision| {
        let word = match d.decision {
            Verdict::Accepted => "accepted",
            Verdict::Refused => "refused",
        };
        let by = match d.by {
            DecidedBy::Operator => "by the operator",
            DecidedBy::Policy => "by questions.toml",
        };
        let cost = d.cost.map_or_else(
            || "without a claim".to_owned(),
            |(epsilon, delta)| format!("ε = {}, δ = {delta:e}", rounded_up(epsilon, 4)),
        );
        let head = format!(
            "decision   {} {word} {by}: study {}, {cost} ({})\n",
            d.time,
            &d.study[..d.study.len().min(12)],
            d.rules
        );
        let question = |q: &DecidedQuestion| match &q.because {
            Some(why) => format!("             {}: {why}\n", q.question),
            None => format!("             {}\n", q.question),
        };
        head + &d.questions.iter().map(question).collect::<String>()
    };
    all.iter().map(line).collect()
}

/// What a study is known by: a digest of its file.
fn digest(folder: &Folder) -> Result<String, Failure> {
    let path = folder.path.join(consenso_node::folder::EXPERIMENT);
    let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
    Ok(Hex(&sha256(&[&bytes])).to_string())
}

pub(crate) fn command(
    args: &Args,
    experiment: &Experiment,
    folder: &Folder,
    json: bool,
) -> Result<(), Failure> {
    let digest = digest(folder)?;
    if experiment.questionnaire().is_none() {
        return Err(anyhow!("the study of {} asks no questions", folder.path.display()).into());
    }
    if args.accept || args.refuse {
        let mut policy = Policy::read(&folder.path)?;
        policy.accepted.retain(|d| *d != digest);
        policy.refused.retain(|d| *d != digest);
        if args.accept { &mut policy.accepted } else { &mut policy.refused }.push(digest.clone());
        // What is written down first cannot be forgotten: the word counts once it is in the policy.
        let (_, questions) = standing(folder, experiment, &digest)?;
        let verdict = if args.accept { Verdict::Accepted } else { Verdict::Refused };
        decide(folder, experiment, &digest, verdict, DecidedBy::Operator, &questions)?;
        let path = folder.path.join(POLICY);
        let text = toml::to_string_pretty(&policy).context("the policy")?;
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    let (standing, questions) = standing(folder, experiment, &digest)?;
    let claim = experiment.claim(0);
    if json {
        let all: Vec<_> = questions
            .iter()
            .map(|(question, why)| json!({ "question": question, "answered": why.is_none(), "because": why }))
            .collect();
        let epsilon = claim.map(|c| json!({ "claim": c.epsilon, "delta": c.delta }));
        output::print_json(
            &json!({ "site": folder.site.name, "standing": standing, "study": digest, "questions": all, "epsilon": epsilon }),
        );
        return Ok(());
    }
    for (question, why) in &questions {
        output::print(&format!(
            "{question}: {}",
            why.as_deref().unwrap_or("answered without asking")
        ));
    }
    if let Some(claim) = claim {
        output::print(&format!(
            "all together: ε = {} at δ = {:e}",
            rounded_up(claim.epsilon, 4),
            claim.delta
        ));
    }
    output::print(match standing {
        QuestionnaireStatus::Answered => "this site answers: `consenso node run`",
        QuestionnaireStatus::Accepted => "accepted by the operator",
        QuestionnaireStatus::Refused => "refused by the operator",
        QuestionnaireStatus::Pending => "pending: `consenso node questions --accept` or --refuse",
    });
    Ok(())
}

/// Refuses to take part in a questionnaire that the operator has not let pass.
pub(crate) fn allowed(folder: &Folder, experiment: &Experiment) -> Result<(), Failure> {
    if experiment.questionnaire().is_none() {
        return Ok(());
    }
    let digest = digest(folder)?;
    let (standing, questions) = standing(folder, experiment, &digest)?;
    let path = folder.path.display();
    match standing {
        QuestionnaireStatus::Answered => {
            let by = DecidedBy::Policy;
            decide(folder, experiment, &digest, Verdict::Accepted, by, &questions)
        }
        QuestionnaireStatus::Accepted => {
            // Also where the operator's word is older than this list, or was written by hand.
            let by = DecidedBy::Operator;
            decide(folder, experiment, &digest, Verdict::Accepted, by, &questions)
        }
        QuestionnaireStatus::Refused => Err(anyhow!(
            "the operator refused the questions of this study (`consenso node questions {path} --accept` takes it back)"
        )
        .into()),
        QuestionnaireStatus::Pending => {
            let open: Vec<String> = questions
                .into_iter()
                .filter_map(|(question, why)| Some(format!("  {question}: {}", why?)))
                .collect();
            Err(anyhow!(
                "questions wait for the operator of this site:\n{}\n  help: look at them with `consenso node questions {path}`, then --accept or --refuse",
                open.join("\n")
            )
            .into())
        }
    }
}

/// Print the answers that a finished questionnaire gave this site
#[derive(clap::Args)]
pub(crate) struct Answers {
    /// Folder of the site
    pub(crate) folder: PathBuf,
    /// Folder to write: answers.csv, answers.tex and a page, answers.html
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn answers(
    args: &Answers,
    experiment: &Experiment,
    folder: &Folder,
    (mean, gone): (&[f64], &[(u32, Round)]),
    json: bool,
) -> Result<(), Failure> {
    let names: Vec<String> = folder.peers.iter().map(|p| p.name.clone()).collect();
    let answers = experiment
        .site_answers(mean, &names, gone)
        .with_context(|| format!("the study of {} asks no questions", folder.path.display()))?;
    let claim = experiment.claim(0);
    if let Some(out) = &args.out {
        fs::create_dir_all(out).with_context(|| out.display().to_string())?;
        let put = |name: &str, text: String| {
            fs::write(out.join(name), text).with_context(|| out.join(name).display().to_string())
        };
        put("answers.csv", queries::csv(&answers))?;
        put("answers.tex", queries::latex(&answers))?;
        let words = claim.as_ref().map_or_else(String::new, ToString::to_string);
        put("answers.html", queries::html(experiment.name(), &words, &answers))?;
    }
    if json {
        let epsilon = claim
            .map(|c| json!({ "claim": c.epsilon, "delta": c.delta, "statement": c.to_string() }));
        output::print_json(
            &json!({ "site": folder.site.name, "queries": answers, "epsilon": epsilon, "out": args.out }),
        );
    } else {
        output::print(&queries::text(&answers));
        if let Some(claim) = claim {
            output::print(&claim.to_string());
        }
    }
    Ok(())
}
