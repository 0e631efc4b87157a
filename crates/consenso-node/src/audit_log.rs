//! The audit log: one JSON object a line, of everything that crossed the site's border and
//! everything that was refused.

use crate::clock;
use consenso_ledger::terminal::{harmless, harmless_json};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The log in a site's folder.
pub const FILE: &str = "audit.jsonl";

/// What of the log is also told on stderr, for whoever watches the process: everything but the
/// messages of every round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StderrEcho {
    /// Nothing.
    #[default]
    Nothing,
    /// Lines for people.
    Text,
    /// The lines of the log itself, for a machine that collects them.
    Json,
}

/// An open log. A line is one write, so lines of several threads do not mix.
#[derive(Debug)]
pub struct AuditLog {
    file: Mutex<Opened>,
    path: std::path::PathBuf,
    /// How large the file may become; see [`Self::rotating`].
    most: Option<u64>,
    echo: StderrEcho,
    refused: AtomicU64,
    /// Whether the last line may have been written in part.
    torn: AtomicBool,
    /// Whether a line is missing since it was opened.
    missing: AtomicBool,
    /// What each peer made the log write in the last hour.
    peers: Mutex<HashMap<String, Hour>>,
    /// How often each reason was given, so that a peer that knocks all day does not fill the disk.
    reasons: Mutex<HashMap<String, u32>>,
}

/// Lines that one peer can make the log write in an hour; of more, only their number is written.
const LINES: u32 = 200;

/// Peers whose lines are counted one by one; all others share a count.
const PEERS: usize = 1000;

/// Longest text of a peer that is written.
const TEXT: usize = 500;

/// What one peer made the log write since `began`.
#[derive(Debug)]
struct Hour {
    began: std::time::Instant,
    lines: u32,
    more: u64,
}

/// Different reasons that are counted; then the counts start again.
const REASONS: usize = 1000;

impl AuditLog {
    /// Opens it at its end.
    ///
    /// # Errors
    /// What the file system says.
    pub fn open(folder: &Path) -> std::io::Result<Self> {
        Self::open_file(&folder.join(FILE))
    }

    /// Opens a log of another name.
    pub(crate) fn open_file(path: &Path) -> std::io::Result<Self> {
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        // A line that was cut off must not take the next one along.
        if ends_in_the_middle(path)? {
            file.write_all(b"\n")?;
        }
        let length = file.metadata()?.len();
        Ok(Self {
            file: Mutex::new(Opened { file, base: base(path), length, start: Value::Null }),
            path: path.to_owned(),
            most: None,
            echo: StderrEcho::Nothing,
            refused: AtomicU64::new(0),
            torn: AtomicBool::new(false),
            missing: AtomicBool::new(false),
            peers: Mutex::default(),
            reasons: Mutex::default(),
        })
    }

    /// Tells lines on stderr, too.
    #[must_use]
    pub fn echoing(self, echo: StderrEcho) -> Self {
        Self { echo, ..self }
    }

    /// Writes the log in pieces: when the file has so many bytes it is renamed (`audit.1.jsonl`, then
    /// `audit.2.jsonl`, …) and another one begins. Whatever reads the log reads all of them that
    /// are there.
    #[must_use]
    pub fn rotating(self, most: Option<u64>) -> Self {
        Self { most, ..self }
    }

    /// Writes a line: the time, what happened, and what belongs to it.
    ///
    /// A line that cannot be written is reported on stderr: the ledger, not the log, is what
    /// charges rest on.
    pub fn write(&self, event: &str, fields: Value) {
        let mut line = Map::new();
        line.insert("time".into(), clock::text(clock::now()).into());
        line.insert("event".into(), event.into());
        if let Value::Object(fields) = fields {
            line.extend(fields);
        }
        let mut text = harmless_json(&Value::Object(line).to_string());
        text.push('\n');
        let written = self.file.lock().map_err(|_| ()).and_then(|mut f| {
            let torn = self.torn.load(Ordering::Relaxed);
            let whole = if torn { format!("\n{text}") } else { text.clone() };
            if event == "start" {
                f.start = serde_json::from_str(&text).unwrap_or_default();
            }
            let written = f.file.write_all(whole.as_bytes());
            self.torn.store(written.is_err(), Ordering::Relaxed);
            f.length += whole.len() as u64;
            if written.is_ok() && self.most.is_some_and(|most| f.length >= most) {
                // What cannot be renamed goes on to grow.
                let _ = f.rotate(&self.path);
            }
            written.map_err(|_| ())
        });
        if written.is_err() {
            self.missing.store(true, Ordering::Relaxed);
            let lost = serde_json::json!({ "event": "log-unwritable", "line": text.trim_end() });
            match self.echo {
                StderrEcho::Json => eprintln!("{lost}"),
                _ => eprint!("audit log cannot be written: {text}"),
            }
        }
        if let Some(told) = self.echo.of(event, &text) {
            // Whoever read this may be gone: that must not end the run.
            let _ = std::io::stderr().write_all(told.as_bytes());
        }
    }

    /// Writes a line that a peer caused, as long as it has not caused too many: it must not fill
    /// the disk.
    pub fn of_peer(&self, event: &str, peer: &str, fields: Value) {
        let (may, more) = self.peers.lock().map_or((true, 0), |mut all| {
            let key = if all.len() < PEERS || all.contains_key(peer) { peer } else { "others" };
            let new = || Hour { began: std::time::Instant::now(), lines: 0, more: 0 };
            let hour = all.entry(key.to_owned()).or_insert_with(new);
            let mut more = 0;
            if hour.began.elapsed().as_secs() >= 3600 {
                more = hour.more;
                *hour = new();
            }
            hour.lines += 1;
            hour.more += u64::from(hour.lines > LINES);
            (hour.lines <= LINES, more)
        });
        if more > 0 {
            self.write("and-more", serde_json::json!({ "peer": peer, "lines": more }));
        }
        if may {
            self.write(event, fields);
        }
    }

    /// Whether every line since it was opened was written.
    pub(crate) fn is_whole(&self) -> bool {
        !self.missing.load(Ordering::Relaxed)
    }

    /// How long the log is, with the pieces before this file.
    pub(crate) fn length(&self) -> u64 {
        self.file.lock().map_or(0, |opened| {
            opened.base + opened.file.metadata().map_or(opened.length, |meta| meta.len())
        })
    }

    /// Brings the log to disk.
    pub(crate) fn sync(&self) {
        if let Ok(file) = self.file.lock() {
            let _ = file.file.sync_all();
        }
    }

    /// Says of every peer how many lines were left out.
    pub(crate) fn sum_up(&self) {
        let left: Vec<(String, u64)> = self.peers.lock().map_or(Vec::new(), |mut all| {
            let take =
                |(peer, hour): (&String, &mut Hour)| (peer.clone(), std::mem::take(&mut hour.more));
            all.iter_mut().map(take).filter(|left| left.1 > 0).collect()
        });
        for (peer, lines) in left {
            self.write("and-more", serde_json::json!({ "peer": peer, "lines": lines }));
        }
    }

    /// A peer or a message that was not let in, or a peer that did not let us in.
    pub fn refused(&self, peer: &str, reason: &str) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.again("refused", peer, reason);
    }

    /// How many refusals there were.
    #[must_use]
    pub fn refusals(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A peer that could not be called.
    pub fn unreached(&self, peer: &str, reason: &str) {
        self.again("unreached", peer, reason);
    }

    /// Writes a line the first time; of more of the same, only the 10th, 100th, … with their count.
    /// Numbers in the reason (a time, a port) do not make it another one.
    fn again(&self, event: &str, peer: &str, reason: &str) {
        let end = reason.char_indices().nth(TEXT).map_or(reason.len(), |(at, _)| at);
        let reason = &reason[..end];
        let key: String =
            format!("{peer}: {reason}").chars().filter(|c| !c.is_ascii_digit()).collect();
        let count = self.reasons.lock().map_or(1, |mut all| {
            if all.len() >= REASONS {
                all.clear();
            }
            let count = all.entry(key).or_insert(0u32);
            *count = count.saturating_add(1);
            *count
        });
        if count == 1 || (count >= 10 && 10u32.pow(count.ilog10()) == count) {
            self.of_peer(
                event,
                peer,
                serde_json::json!({ "peer": peer, "reason": reason, "times": count }),
            );
        }
    }
}

/// The file that is written to.
#[derive(Debug)]
struct Opened {
    file: File,
    /// Where it begins in the whole log.
    base: u64,
    length: u64,
    /// The line of the last start.
    start: Value,
}

impl Opened {
    /// Puts the file aside and begins another one, whose first line says what it goes on from.
    fn rotate(&mut self, path: &Path) -> std::io::Result<()> {
        self.file.sync_all()?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let number = pieces(folder).last().map_or(1, |(number, _)| number + 1);
        let name = format!("audit.{number}.jsonl");
        std::fs::rename(path, folder.join(&name))?;
        let base = self.base + self.length;
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let time = clock::text(clock::now());
        let first = serde_json::json!({
            "time": time, "event": CONTINUED, "after": name, "offset": base,
            "study": self.start["study"], "site": self.start["site"],
        });
        let first = format!("{first}\n");
        file.write_all(first.as_bytes())?;
        (self.file, self.base, self.length) = (file, base, first.len() as u64);
        Ok(())
    }
}

/// The first event of a log that goes on from another file.
pub(crate) const CONTINUED: &str = "continued";

/// Where a piece of the log begins in the whole.
fn base(path: &Path) -> u64 {
    use std::io::BufRead as _;
    let mut line = String::new();
    let read = File::open(path).map(|file| std::io::BufReader::new(file).read_line(&mut line));
    let line: Option<Value> = read.ok().and_then(|_| serde_json::from_str(&line).ok());
    let first = line.filter(|line| line["event"] == CONTINUED);
    first.and_then(|line| line["offset"].as_u64()).unwrap_or(0)
}

/// The pieces of a folder's log that were put aside because of their size, oldest first, with their
/// numbers.
pub(crate) fn pieces(folder: &Path) -> Vec<(u32, std::path::PathBuf)> {
    let number = |file: &std::fs::DirEntry| {
        let name = file.file_name();
        let name = name.to_str()?;
        name.strip_prefix("audit.")?.strip_suffix(".jsonl")?.parse().ok()
    };
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<(u32, std::path::PathBuf)> =
        files.filter_map(|file| Some((number(&file)?, file.path()))).collect();
    all.sort();
    all
}

/// All files of a folder's log, oldest first; the one that is written to is the last.
pub(crate) fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut all: Vec<_> = pieces(folder).into_iter().map(|piece| piece.1).collect();
    all.push(folder.join(FILE));
    all
}

/// The files that are one log: those put aside before it, where `log` is a folder or the file that
/// a site writes to; a piece alone is itself.
pub(crate) fn pieces_of(log: &Path) -> Vec<std::path::PathBuf> {
    match log.file_name() {
        _ if log.is_dir() => files(log),
        Some(name) if name == FILE => files(log.parent().unwrap_or(Path::new("."))),
        _ => vec![log.to_owned()],
    }
}

impl StderrEcho {
    /// What to tell of a line of the log.
    fn of(self, event: &str, line: &str) -> Option<String> {
        if matches!(event, "received" | "released") {
            return None;
        }
        match self {
            Self::Nothing => None,
            Self::Json => Some(line.to_owned()),
            Self::Text => {
                let Ok(Value::Object(fields)) = serde_json::from_str(line) else { return None };
                let plain = |v: &Value| match v.as_str() {
                    Some(words) => harmless(words),
                    None => harmless_json(&v.to_string()),
                };
                let get = |key: &str| fields.get(key).map(plain).unwrap_or_default();
                let rest =
                    fields.iter().filter(|(key, _)| !["time", "event"].contains(&key.as_str()));
                let rest: String =
                    rest.map(|(key, value)| format!(", {key} {}", plain(value))).collect();
                Some(format!("{} {}{rest}\n", get("time"), get("event")))
            }
        }
    }
}

fn ends_in_the_middle(path: &Path) -> std::io::Result<bool> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// The hashes of the ledger's rows of all releases that a folder's log knows of from a place in the
/// file on. Lines that cannot be read are passed over.
pub(crate) fn releases_after(folder: &Path, from: u64) -> HashSet<String> {
    released(folder, from).collect()
}

/// The first eight bytes of each of those hashes: a long log in little memory.
#[must_use]
pub fn marks(folder: &Path) -> HashSet<u64> {
    released(folder, 0).filter_map(|hash| u64::from_str_radix(hash.get(..16)?, 16).ok()).collect()
}

fn released(folder: &Path, from: u64) -> impl Iterator<Item = String> {
    use std::io::BufRead as _;
    let open = move |path: std::path::PathBuf| {
        let (mut file, base) = (File::open(&path).ok()?, base(&path));
        let length = file.metadata().ok()?.len();
        if base + length <= from && from > 0 {
            return None;
        }
        file.seek(SeekFrom::Start(from.saturating_sub(base))).ok()?;
        Some(file)
    };
    let lines = files(folder)
        .into_iter()
        .filter_map(open)
        .flat_map(|file| std::io::BufReader::new(file).split(b'\n').map_while(Result::ok));
    lines
        .filter_map(|line| serde_json::from_slice::<Value>(&line).ok())
        .filter(|line| line["event"] == "released")
        .filter_map(|line| line["ledger"].as_str().map(str::to_owned))
}

/// The hash of the ledger's row of the last release that a folder's log knows of.
pub(crate) fn last_release(folder: &Path) -> Option<String> {
    files(folder).iter().rev().find_map(|path| last_release_of(path))
}

fn last_release_of(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    // It is near the end, unless somebody made much noise since.
    let mut tail = 1 << 20;
    loop {
        if let Some(found) = last_release_in(&mut file, length.saturating_sub(tail)) {
            return Some(found);
        }
        if tail >= length {
            return None;
        }
        tail *= 16;
    }
}

/// The hash of the last release from a place in the file on.
fn last_release_in(file: &mut File, from: u64) -> Option<String> {
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).ok()?;
    // The first line may be cut, and the last one may be half written: what does not parse is
    // passed over.
    let lines = tail
        .rsplit(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let mut released = lines.filter(|line| line["event"] == "released");
    released.next()?["ledger"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_an_object_and_repeated_refusals_do_not_fill_the_disk() {
        let folder = std::env::temp_dir().join(format!("consenso-audit-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let log = AuditLog::open(&folder).unwrap();
        log.write("received", serde_json::json!({ "round": 3, "peer": "b\n\"c" }));
        (0..1000).for_each(|i| log.refused("127.0.0.1", &format!("expired {i} s ago")));
        log.refused("127.0.0.1", "no certificate");
        log.refused("127.0.0.1", "expired 7 s ago");
        let text = std::fs::read_to_string(folder.join(FILE)).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 6, "{text}");
        assert_eq!(lines[0]["round"], 3);
        assert_eq!(lines[4]["times"], 1000);
        assert_eq!(lines[5]["reason"], "no certificate");
        assert_eq!(log.refusals(), 1002);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_line_that_was_cut_off_does_not_take_the_next_one_along() {
        let folder =
            std::env::temp_dir().join(format!("consenso-audit-torn-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(
            folder.join(FILE),
            "{\"event\":\"released\",\"ledger\":\"aa\"}\n{\"event\":\"rele",
        )
        .unwrap();
        let log = AuditLog::open(&folder).unwrap();
        log.write("released", serde_json::json!({ "round": 2, "ledger": "bb" }));
        let mut found: Vec<String> = releases_after(&folder, 0).into_iter().collect();
        found.sort();
        assert_eq!(found, ["aa", "bb"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A log of a long study grew without end.
    #[test]
    fn a_log_in_pieces_is_read_as_one() {
        let folder =
            std::env::temp_dir().join(format!("consenso-audit-pieces-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let hash = |i: u32| format!("{i:064x}");
        let line = |i: u32| serde_json::json!({ "round": i, "ledger": hash(i) });
        let mut middle = 0;
        for start in 0..4 {
            let log = AuditLog::open(&folder).unwrap().rotating(Some(2000));
            log.write("start", serde_json::json!({ "study": "x", "site": "a" }));
            for i in 10 * start..10 * start + 10 {
                if i == 17 {
                    middle = log.length();
                }
                log.write("released", line(i));
            }
        }
        let pieces = pieces(&folder);
        assert!(pieces.len() >= 2, "{pieces:?}");
        assert_eq!(
            pieces.iter().map(|p| p.0).collect::<Vec<_>>(),
            (1..=pieces.len() as u32).collect::<Vec<_>>()
        );
        // Whoever gets one piece alone knows whose it is, and of which study.
        for piece in files(&folder) {
            let text = std::fs::read_to_string(piece).unwrap();
            let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
            assert_eq!((&first["study"], &first["site"]), (&"x".into(), &"a".into()));
        }
        assert_eq!(pieces_of(&folder.join(FILE)), files(&folder));
        assert_eq!(pieces_of(&folder), files(&folder));
        assert_eq!(releases_after(&folder, 0).len(), 40);
        let late = releases_after(&folder, middle);
        assert!(
            late.len() == 23 && late.contains(&hash(17)) && !late.contains(&hash(16)),
            "{}",
            late.len()
        );
        assert_eq!(last_release(&folder), Some(hash(39)));
        let all: u64 = files(&folder).iter().map(|p| std::fs::metadata(p).unwrap().len()).sum();
        assert_eq!(AuditLog::open(&folder).unwrap().length(), all);
        // Whose newest file has no release yet still knows the last one.
        std::fs::rename(folder.join(FILE), folder.join("audit.99.jsonl")).unwrap();
        AuditLog::open(&folder).unwrap().write("start", serde_json::json!({}));
        assert_eq!(last_release(&folder), Some(hash(39)));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// 0.64 MB/s of link-up lines, 55 GB a day, before.
    #[test]
    fn a_peer_cannot_fill_the_disk_with_lines_that_differ() {
        let folder =
            std::env::temp_dir().join(format!("consenso-audit-flood-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let log = AuditLog::open(&folder).unwrap();
        let word = |i: u32| {
            (0..8).map(|k| char::from(b'a' + (i >> (3 * k)) as u8 % 8)).collect::<String>()
        };
        (0..5000).for_each(|i| {
            log.refused("b", &format!("it refused: {}{}", word(i), "x".repeat(9000)));
        });
        (0..5000).for_each(|_| log.of_peer("link-up", "c", serde_json::json!({ "peer": "c" })));
        log.sum_up();
        let text = std::fs::read_to_string(folder.join(FILE)).unwrap();
        assert!(text.len() < 300_000, "{}", text.len());
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let more: Vec<u64> = lines
            .iter()
            .filter(|l| l["event"] == "and-more")
            .map(|l| l["lines"].as_u64().unwrap())
            .collect();
        assert_eq!((more, lines.len()), (vec![4800, 4800], 402), "nothing is left out in silence");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_last_release_is_found_behind_any_amount_of_noise() {
        let folder =
            std::env::temp_dir().join(format!("consenso-audit-tail-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert_eq!(last_release(&folder), None);
        let log = AuditLog::open(&folder).unwrap();
        log.write("released", serde_json::json!({ "round": 1, "ledger": "aa" }));
        log.write("released", serde_json::json!({ "round": 2, "ledger": "bb" }));
        let noise = "x".repeat(1000);
        (0..2200).for_each(|_| log.write("refused", serde_json::json!({ "reason": noise })));
        assert_eq!(last_release(&folder).as_deref(), Some("bb"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_told_is_what_a_person_must_act_on() {
        let line = "{\"time\":\"2026\",\"event\":\"refused\",\"peer\":\"b\",\"reason\":\"no \\\"c\\\"\",\"times\":10}\n";
        assert_eq!(
            StderrEcho::Text.of("refused", line).unwrap(),
            "2026 refused, peer b, reason no \"c\", times 10\n"
        );
        // What a peer says is told as text, whatever a terminal would make of it.
        let forged =
            "{\"time\":\"2026\",\"event\":\"refused\",\"reason\":\"\\u001b[2Kdone\\r\\n\"}\n";
        let told = StderrEcho::Text.of("refused", forged).unwrap();
        assert_eq!(told, "2026 refused, reason \\u{1b}[2Kdone\\u{d}\\u{a}\n");
        assert_eq!(StderrEcho::Json.of("refused", line).as_deref(), Some(line));
        assert_eq!(StderrEcho::Nothing.of("refused", line), None);
        assert_eq!(
            StderrEcho::Json.of("released", line),
            None,
            "a line every round would fill the journal"
        );
    }
}
