//! Which questions a site let pass or refused, when, and by which word of its operator: one JSON
//! object a line in `decisions.jsonl`, each with the hash of the line before.
//!
//! The ledger names the line under which a study of questions began, so that neither can be changed
//! without the other.

use crate::error::NodeError;
use crate::frame::{Hex, sha256};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The decisions in a site's folder.
pub const FILE: &str = "decisions.jsonl";

/// What was decided about the questions of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The site answers them.
    Accepted,
    /// It does not.
    Refused,
}

/// Whose word decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecidedBy {
    /// The operator's, by `consenso node questions`.
    Operator,
    /// What `questions.toml` lets pass without asking.
    Policy,
}

/// A question, and why it was not answered without asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedQuestion {
    /// The question in words.
    pub question: String,
    /// The rule of `questions.toml` that left it to the operator; `None` where all let it pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// When.
    pub time: String,
    /// SHA-256 of the study's file.
    pub study: String,
    /// What was decided.
    pub decision: Verdict,
    /// Whose word it was.
    pub by: DecidedBy,
    /// The questions.
    pub questions: Vec<DecidedQuestion>,
    /// What `questions.toml` said then, the lists of studies left out.
    pub rules: String,
    /// What all of it costs at most: ε and δ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<(f64, f64)>,
    /// Hash of the line before; of nothing for the first.
    pub before: String,
    /// Hash of this line, which is not written.
    #[serde(default, skip_serializing)]
    pub hash: String,
}

fn hash(line: &str) -> String {
    Hex(&sha256(&[line.as_bytes()])).to_string()
}

/// Reads all decisions of a site, the oldest first.
///
/// # Errors
/// What the file system says, or a line that does not follow the one before.
pub fn read(folder: &Path) -> Result<Vec<Decision>, NodeError> {
    let path = folder.join(FILE);
    let text = String::from_utf8_lossy(&whole_lines(&path)?).into_owned();
    let mut all: Vec<Decision> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let before = all.last().map_or_else(|| hash(""), |d| d.hash.clone());
        let mut read: Decision = serde_json::from_str(line)
            .ok()
            .filter(|read: &Decision| read.before == before)
            .ok_or_else(|| {
                let (path, line) = (path.display(), number + 1);
                NodeError::Experiment(format!(
                    "{path}: line {line} does not follow the one before: a decision was changed or taken out"
                ))
            })?;
        read.hash = hash(line);
        all.push(read);
    }
    Ok(all)
}

/// What the file holds up to its last end of a line: a line that was cut off when the machine went
/// down was never acted upon.
fn whole_lines(path: &Path) -> Result<Vec<u8>, NodeError> {
    let mut bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(NodeError::System { what: path.display().to_string(), cause }),
    };
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    bytes.truncate(end);
    Ok(bytes)
}

/// The decision by which a site answers the questions of the study in its folder, if there is one
/// and none refused them since.
pub(crate) fn accepted(folder: &Path) -> Result<Option<Decision>, NodeError> {
    let path = folder.join(crate::folder::EXPERIMENT);
    let failed = |cause| NodeError::System { what: path.display().to_string(), cause };
    let study = Hex(&sha256(&[&std::fs::read(&path).map_err(failed)?])).to_string();
    let last = read(folder)?.into_iter().rfind(|d| d.study == study);
    Ok(last.filter(|d| d.decision == Verdict::Accepted))
}

/// Writes a decision down, durably, and returns it with its hash; one that repeats the last word
/// about its study is not written again.
///
/// # Errors
/// As [`read`], or what the file system says.
pub fn write(folder: &Path, mut decision: Decision) -> Result<Decision, NodeError> {
    let known = read(folder)?;
    let last = known.iter().rfind(|d| d.study == decision.study);
    if let Some(same) = last.filter(|d| (d.decision, d.by) == (decision.decision, decision.by)) {
        return Ok(same.clone());
    }
    decision.before = known.last().map_or_else(|| hash(""), |d| d.hash.clone());
    let path = folder.join(FILE);
    let failed = |cause| NodeError::System { what: path.display().to_string(), cause };
    let line = serde_json::to_string(&decision).map_err(|e| failed(e.into()))?;
    let mut file =
        OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(failed)?;
    file.set_len(whole_lines(&path)?.len() as u64).map_err(failed)?;
    file.write_all(format!("{line}\n").as_bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    decision.hash = hash(&line);
    Ok(decision)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(study: &str, verdict: Verdict) -> Decision {
        let question = "mean age by ward".to_owned();
        let because = Some("questions.toml does not list the kind mean".to_owned());
        Decision {
            time: "2026-11-18T10:00:00Z".into(),
            study: study.into(),
            decision: verdict,
            by: DecidedBy::Operator,
            questions: vec![DecidedQuestion { question, because }],
            rules: "kinds = []".into(),
            cost: Some((0.5, 1e-6)),
            before: String::new(),
            hash: String::new(),
        }
    }

    /// Decisions are kept in order, a repeated one once, and none can be changed or taken out
    /// unnoticed, but for the last.
    #[test]
    fn decisions_are_kept_in_a_chain() {
        let folder =
            std::env::temp_dir().join(format!("consenso-decisions-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        assert!(read(&folder).unwrap().is_empty());
        let first = write(&folder, decision("a", Verdict::Accepted)).unwrap();
        assert_eq!(write(&folder, decision("a", Verdict::Accepted)).unwrap(), first);
        write(&folder, decision("b", Verdict::Refused)).unwrap();
        write(&folder, decision("a", Verdict::Refused)).unwrap();
        let all = read(&folder).unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!((all[0].clone(), &all[1].before), (first, &all[0].hash));
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replacen("accepted", "refused", 1)).unwrap();
        assert!(read(&folder).unwrap_err().to_string().contains("line 2 does not follow"));
        let (_, rest) = text.split_once('\n').unwrap();
        std::fs::write(&path, rest).unwrap();
        assert!(read(&folder).unwrap_err().to_string().contains("line 1 does not follow"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A machine that goes down while a decision is written does not keep a site from deciding.
    #[test]
    fn a_decision_that_was_cut_off_does_not_end_a_site() {
        let folder = std::env::temp_dir().join(format!("consenso-cut-off-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let first = write(&folder, decision("a", Verdict::Accepted)).unwrap();
        write(&folder, decision("ä", Verdict::Accepted)).unwrap();
        let path = folder.join(FILE);
        let bytes = std::fs::read(&path).unwrap();
        let line = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for end in line..bytes.len() {
            std::fs::write(&path, &bytes[..end]).unwrap();
            assert_eq!(read(&folder).unwrap(), std::slice::from_ref(&first), "{end}");
        }
        write(&folder, decision("b", Verdict::Refused)).unwrap();
        let studies: Vec<String> = read(&folder).unwrap().into_iter().map(|d| d.study).collect();
        assert_eq!(studies, ["a", "b"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
