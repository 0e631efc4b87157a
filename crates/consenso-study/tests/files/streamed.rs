//! Records of files outside memory: the same transcripts as with all of them in memory, whatever
//! they look like and however they are divided.

use consenso_engine::data::{DataError, DatasetWriter, Encoding, csv};
use consenso_engine::experiment::{
    AfterRound, CallerError, Experiment, ExperimentSpec, Inputs, LargeOutcome, LargeProgress,
    LargeRecord, RankObserver, run_parted, run_streamed, run_watched,
};
use consenso_engine::simulate::{SingleRank, ThreadRanks};
use consenso_study::ExperimentFile as _;
use consenso_study::SchemaFile as _;
use consenso_study::files::{self, ExperimentText, Outline, RowStore};
use consenso_study::scratch::ScratchFolder;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SCHEMA: &str = r#"reviewed = true
[[column]]
name = "age"
kind = "numeric"
min = 0
max = 120
[[column]]
name = "dose"
kind = "numeric"
min = -5
max = 5
missing = { impute = 0.5 }
[[column]]
name = "ward"
kind = "categorical"
categories = ["a", "b", "c", "d", "e", "f"]
[[column]]
name = "site"
kind = "site"
[[column]]
name = "ill"
kind = "label"
classes = ["no", "yes"]
"#;

const EXPERIMENT: &str = r#"name = "streamed"
seed = 9
runs = 2
trace_every = 3
[data]
path = "PATH"
schema = "schema.toml"
REST
[graph]
kind = "ring"
[privacy]
epsilon = 4.0
delta = 1e-5
[[algorithm]]
kind = "admm"
rounds = 6
[[algorithm]]
kind = "dgd"
rounds = 5
"#;

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("streamed-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("schema.toml"), SCHEMA).unwrap();
        Self(path)
    }

    /// Records of one file: more than are encoded at once, five sites mixed, values that are
    /// missing and out of range.
    fn table(&self, name: &str, rows: u32, salt: u32) {
        let mut text = String::from("ward,age,site,ill,dose\r\n");
        for i in 0..rows {
            let k = i.wrapping_mul(2_654_435_761).wrapping_add(salt) >> 7;
            let dose = if k.is_multiple_of(11) {
                String::new()
            } else {
                format!("{:.3}", f64::from(k % 1200) / 100.0 - 6.0)
            };
            let age = if k.is_multiple_of(97) { "?".to_owned() } else { (18 + k % 70).to_string() };
            let (ward, site) = (char::from(b'a' + (k % 6) as u8), k % 5);
            text += &format!(
                "{ward},{age},s{site},{},{dose}\r\n",
                if k % 7 < 3 { "yes" } else { "no" }
            );
        }
        fs::write(self.0.join(name), text).unwrap();
    }

    fn text(&self, path: &str, rest: &str) -> (ExperimentText, ExperimentSpec) {
        let mut text = EXPERIMENT.replace("PATH", path).replace("REST", rest);
        if rest.ends_with("add-remove") {
            text = text.replace("[privacy]", "[privacy]\nneighbours = \"add-remove\"");
        }
        let spec = ExperimentSpec::from_toml(&text, "streamed.toml").unwrap();
        (ExperimentText { file: "streamed.toml".into(), text, folder: self.0.clone() }, spec)
    }

    fn held(&self, path: &str, rest: &str) -> Experiment {
        let (text, spec) = self.text(path, rest);
        Experiment::check(files::inputs(text, spec, None).unwrap()).unwrap()
    }

    /// The same with its records outside memory, and what was said before.
    fn stored(&self, path: &str, rest: &str) -> (Experiment, Outline) {
        let (text, spec) = self.text(path, rest);
        let mut said = None;
        let mut store = RowStore {
            open: &mut || Ok(Arc::new(ScratchFolder::new(&self.0.join("scratch"), 0, 1).unwrap())),
            before: &mut |outline| {
                said = Some(*outline);
                Ok(())
            },
        };
        let inputs: Inputs =
            files::inputs_streamed(text, spec, None, &mut SingleRank, &mut store).unwrap();
        (Experiment::check(inputs).unwrap(), said.unwrap())
    }
}

fn in_memory(experiment: &Experiment) -> LargeRecord {
    run_parted(experiment, &mut SingleRank, None, 0, |_| Ok(())).unwrap().unwrap()
}

fn streamed(experiment: &Experiment) -> LargeRecord {
    run_streamed(experiment, &mut SingleRank, None, 0, |_| Ok(())).unwrap().unwrap()
}

#[test]
fn rows_on_disk_give_the_transcripts_of_rows_in_memory() {
    let place = Place::new("kinds");
    (0..4).for_each(|file| place.table(&format!("many-{file}.csv"), 9 + 40 * file, file));
    place.table("one.csv", 5000, 77);
    let whole = fs::read(place.0.join("one.csv")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &whole).unwrap();
    fs::write(place.0.join("packed.csv.gz"), packed.finish().unwrap()).unwrap();
    let wide: Vec<u8> = [0xff, 0xfe]
        .into_iter()
        .chain(String::from_utf8(whole).unwrap().encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    fs::write(place.0.join("wide.csv"), wide).unwrap();
    let cases = [
        // Every file is an agent: its rows lie together.
        ("many-*.csv", "encoding = \"one-hot\"", Some(false)),
        ("many-*.csv", "encoding = \"paper\"\nhold_out = 0.2", Some(true)),
        // Codes, brought together from all over the file.
        ("one.csv", "encoding = \"one-hot\"\npartition = { by = \"site\" }", None),
        ("one.csv", "encoding = \"one-hot\"\npartition = { by = \"ward\" }\nhold_out = 0.1", None),
        (
            "one.csv",
            "encoding = \"one-hot\"\nagents = 7\npartition = { dirichlet = 0.5 }",
            Some(true),
        ),
        ("packed.csv.gz", "encoding = \"paper\"\nagents = 9\nrecords_per_agent = 300", Some(true)),
        ("wide.csv", "encoding = \"paper\"\nagents = 9", Some(true)),
        // Every record by what it says.
        ("one.csv", "agents = 5\nhold_out = 0.1\nencoding = \"one-hot\" # add-remove", Some(true)),
        (
            "one.csv",
            "partition = { by = \"site\" }\nhold_out = 0.2\nencoding = \"one-hot\" # add-remove",
            None,
        ),
    ];
    for (path, rest, again) in cases {
        let held = place.held(path, rest);
        let (stored, outline) = place.stored(path, rest);
        assert_eq!(outline.again, again, "{path}, {rest}");
        let (bytes, more) = stored.scratch_bytes().unwrap();
        assert!(
            outline.bytes > bytes / 2 && outline.bytes < 2 * bytes + 10_000,
            "{path}: {outline:?}, {bytes}"
        );
        assert!(again != Some(false) || more == 0, "{path}, {rest}");
        assert_eq!(stored.records_digest(), held.records_digest(), "{path}, {rest}");
        assert_eq!(streamed(&stored), in_memory(&held), "{path}, {rest}");
        assert_eq!(in_memory(&stored), in_memory(&held), "{path}, {rest}");
        assert!(place.0.join("scratch").exists());
        drop(stored);
        assert!(!place.0.join("scratch").exists(), "rows are gone with the run");
    }
}

#[test]
fn sparse_rows_are_kept_as_what_is_not_zero() {
    let place = Place::new("sparse");
    let mut text = String::new();
    for i in 0u32..600 {
        let k = i.wrapping_mul(2_654_435_761) >> 9;
        text += &format!(
            "{} {}:{} {}:1\n",
            if k.is_multiple_of(3) { 1 } else { -1 },
            1 + k % 20,
            0.25 + f64::from(k % 7),
            21 + k % 19
        );
    }
    fs::write(place.0.join("list.libsvm"), text).unwrap();
    let rest = "encoding = \"numeric\"\nagents = 6";
    let strip = |text: (ExperimentText, ExperimentSpec)| {
        let (mut text, mut spec) = text;
        text.text = text
            .text
            .replace("schema = \"schema.toml\"\n", "")
            .replace("[privacy]\nepsilon = 4.0\ndelta = 1e-5\n", "");
        (spec.data.schema, spec.privacy) = (None, None);
        (text, spec)
    };
    let (text, spec) = strip(place.text("list.libsvm", rest));
    let held = Experiment::check(files::inputs(text, spec, None).unwrap()).unwrap();
    let (text, spec) = strip(place.text("list.libsvm", rest));
    let mut store = RowStore {
        open: &mut || Ok(Arc::new(ScratchFolder::new(&place.0.join("scratch"), 0, 1).unwrap())),
        before: &mut |_| Ok(()),
    };
    let stored = files::inputs_streamed(text, spec, None, &mut SingleRank, &mut store).unwrap();
    let stored = Experiment::check(stored).unwrap();
    // Two numbers of a row, their columns, how many they are, and a label.
    assert_eq!(stored.scratch_bytes().unwrap().0, 600 * (2 * 12 + 4 + 8));
    assert_eq!(streamed(&stored), in_memory(&held));
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let place = Place::new("refused");
    place.table("one.csv", 50, 1);
    let (text, spec) = place.text("one.csv", "encoding = \"paper\"\nagents = 5");
    let mut store = RowStore {
        open: &mut || panic!("nothing is opened"),
        before: &mut |outline| Err(format!("no room for {}", outline.rows).into()),
    };
    let refused = files::inputs_streamed(text, spec, None, &mut SingleRank, &mut store)
        .unwrap_err()
        .to_string();
    assert!(refused.starts_with("no room for "), "{refused}");
    // A line is named wherever the text lies.
    let table = fs::read_to_string(place.0.join("one.csv")).unwrap();
    fs::write(place.0.join("bad.csv"), format!("{table}\r\na,old,s1,no,1\r\n")).unwrap();
    let path = place.0.join("bad.csv");
    let open = || Ok(Box::new(fs::File::open(&path)?) as Box<dyn std::io::Read>);
    let schema = consenso_engine::data::Schema::from_toml(SCHEMA).unwrap();
    let scratch = Arc::new(ScratchFolder::new(&place.0.join("scratch"), 0, 1).unwrap());
    let mut storing = DatasetWriter::new(scratch, Encoding::Paper, None, false);
    let mut push = |table| storing.push(0, table);
    let error =
        csv::read_in_pieces(&open, "bad.csv", &schema, schema.format(), &mut push).unwrap_err();
    let whole = csv::read(fs::File::open(&path).unwrap(), "bad.csv", &schema).unwrap_err();
    assert!(matches!(&error, DataError::NotANumber { line: 53, .. }), "{error}");
    assert_eq!(error.to_string(), whole.to_string());
}

/// Stops everybody once one process was told to.
struct StopAfter {
    after: u32,
    asked: u32,
    saved: Vec<u8>,
}

impl RankObserver for StopAfter {
    fn save(&mut self, progress: &LargeProgress) -> Result<(), CallerError> {
        self.saved = postcard::to_stdvec(progress)?;
        Ok(())
    }

    fn asks(&self) -> bool {
        true
    }

    fn told(&mut self) -> bool {
        self.asked += 1;
        self.asked > self.after
    }

    fn decide(&mut self, told: bool) -> (AfterRound, u32) {
        (if told { AfterRound::Stop } else { AfterRound::GoOn }, 1)
    }
}

/// A signal that one of three processes gets stops all at the same round, and they go on from
/// there.
#[test]
fn processes_stop_together_and_go_on() {
    let place = Place::new("together");
    place.table("one.csv", 300, 5);
    let held = place.held("one.csv", "encoding = \"paper\"\nagents = 12");
    let whole = in_memory(&held);
    let part = |mut end: ThreadRanks, from: Option<&Vec<u8>>, after: u32| {
        let from = from.map(|bytes| postcard::from_bytes::<LargeProgress>(bytes).unwrap());
        let mut watch = StopAfter { after, asked: 0, saved: Vec::new() };
        (run_watched(&held, &mut end, true, from, &mut watch).unwrap(), watch.saved)
    };
    let all = |from: &[Vec<u8>], after: [u32; 3]| -> Vec<(LargeOutcome, Vec<u8>)> {
        std::thread::scope(|scope| {
            let ends = ThreadRanks::new(3).into_iter().enumerate();
            let started: Vec<_> = ends
                .map(|(rank, end)| {
                    let (part, from) = (&part, from.get(rank));
                    scope.spawn(move || part(end, from, after[rank]))
                })
                .collect();
            started.into_iter().map(|one| one.join().unwrap()).collect()
        })
    };
    // Asked after every round; the tenth time one has been told.
    let stopped = all(&[], [u32::MAX - 1, 9, u32::MAX - 1]);
    for (ended, _) in &stopped {
        assert!(matches!(ended, LargeOutcome::Stopped { runs: 0, round: 10 }), "{ended:?}");
    }
    let saved: Vec<Vec<u8>> = stopped.into_iter().map(|s| s.1).collect();
    let mut done = all(&saved, [u32::MAX - 1; 3]);
    let LargeOutcome::Done(Some(record)) = done.swap_remove(0).0 else {
        panic!("rank 0 has the record")
    };
    assert_eq!(record.algorithms, whole.algorithms);
}

/// `1,5` in one record had `1.250` of every other one read as 1250, and both data sets were read
/// without a word. Under a claim the schema says how numbers are written, whoever reads the file;
/// without one it is found out as ever.
#[test]
fn one_cell_does_not_change_how_the_others_are_read_under_a_claim() {
    let place = Place::new("marks");
    let schema = "reviewed = true\n[[column]]\nname = \"x\"\nkind = \"numeric\"\nmin = 0\nmax = 2000\n\
                  [[column]]\nname = \"ill\"\nkind = \"label\"\nclasses = [\"no\", \"yes\"]\n";
    fs::write(place.0.join("schema.toml"), schema).unwrap();
    let rows = |first: &str| {
        let row =
            |k: u32| format!("1.{};{}\n", 200 + k, if k.is_multiple_of(2) { "yes" } else { "no" });
        format!("x;ill\n{first};no\n{}", (0..40).map(row).collect::<String>())
    };
    fs::write(place.0.join("plain.csv"), rows("2")).unwrap();
    fs::write(place.0.join("comma.csv"), rows("1,5")).unwrap();
    let rest = "agents = 4\nencoding = \"numeric\"";
    let numbers = |path: &str, claim: bool, schema_says: &str| {
        fs::write(place.0.join("schema.toml"), schema_says.to_owned() + schema).unwrap();
        let (mut text, mut spec) = place.text(path, rest);
        if !claim {
            let (before, after) = text.text.split_once("[privacy]").unwrap();
            let (_, algorithms) = after.split_once("delta = 1e-5\n").unwrap();
            text.text = format!("{before}{algorithms}");
            spec = ExperimentSpec::from_toml(&text.text, "streamed.toml").unwrap();
        }
        let inputs = files::inputs(text, spec, None)?;
        let consenso_engine::experiment::Source::Data(data) = inputs.source else { panic!() };
        Ok::<f64, files::FileError>(
            (0..data.train.len()).map(|i| data.train.row(i)[0]).fold(0.0, f64::max),
        )
    };
    let one = numbers("plain.csv", true, "").unwrap();
    for claimed in [true, false] {
        assert_eq!(numbers("plain.csv", claimed, "").unwrap(), one);
    }
    let refused = numbers("comma.csv", true, "").unwrap_err().to_string();
    assert!(refused.contains("comma.csv:2") && refused.contains("decimal = \",\""), "{refused}");
    let (found_out, said) = (
        numbers("comma.csv", false, ""),
        numbers("comma.csv", true, "decimal = \",\"\nthousands = \".\"\n"),
    );
    assert_eq!(found_out.unwrap(), said.unwrap());
}
