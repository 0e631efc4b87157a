//! The pieces of a run on disk: what a later command goes on from, and what shards are put together
//! from.
//!
//! One file, only ever added to. Each entry carries its length and a checksum, so that what a crash
//! cut off at the end is found and left away.
//!
//! How far a transcript under way has come is a file of its own, in a folder beside, written anew
//! at every checkpoint and taken away when the transcript is finished. Its last state is kept among
//! the pieces, so that rounds can be added later.

use anyhow::{Context as _, Result, anyhow, bail};
use consenso_engine::experiment::{
    Experiment, ExperimentSpec, Part, Piece, Place, RecordsDigest, Share, Unfinished,
};
use consenso_study::ExperimentFile as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The file's name in the folder of a run.
pub(crate) const NAME: &str = "pieces.bin";

const MAGIC: &[u8] = b"consenso pieces 1\n";

/// Something that happened.
#[derive(Debug, Serialize, Deserialize)]
enum Entry {
    /// What was asked for: the file's name, and the experiment as TOML before any choice was made.
    Asked { file: String, spec: String, entropy: bool, share: Option<(u32, u32)> },
    /// The ledgers of the records know of these transcripts, each with its stamp.
    Reserved(Vec<(Place, String)>),
    /// The noise of a transcript is about to be drawn from the operating system.
    Begun(Place, String),
    /// A piece was finished.
    Finished(Box<Piece>),
    /// A transcript is at its last round that uses records.
    Ended(Box<Unfinished>),
}

/// Everything that a file of pieces holds.
#[derive(Debug, Default)]
pub(crate) struct PieceFile {
    pub(crate) file: String,
    pub(crate) spec: String,
    pub(crate) entropy: bool,
    pub(crate) share: Option<(u32, u32)>,
    /// By place and stamp: how often a transcript was paid for, less how often it was begun.
    credit: BTreeMap<(Place, String), i64>,
    pub(crate) pieces: Vec<Piece>,
    /// Where transcripts were at their last round.
    pub(crate) ends: Vec<Unfinished>,
    /// Bytes that are whole.
    length: u64,
}

impl PieceFile {
    /// Reads a file of pieces up to where it is whole.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let bytes = fs::read(path).with_context(|| format!("{shown}: cannot be read"))?;
        let Some(mut rest) = bytes.strip_prefix(MAGIC) else {
            bail!("{shown}: is not a file of pieces that this version writes");
        };
        let mut kept = Self { length: MAGIC.len() as u64, ..Self::default() };
        while let Some((entry, after)) = next(rest) {
            let Ok(entry) = postcard::from_bytes(entry) else { break };
            kept.take(entry);
            kept.length += (rest.len() - after.len()) as u64;
            rest = after;
        }
        Ok(kept)
    }

    fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Asked { file, spec, entropy, share } => {
                (self.file, self.spec, self.entropy, self.share) = (file, spec, entropy, share);
            }
            Entry::Reserved(places) => {
                places.into_iter().for_each(|place| *self.credit.entry(place).or_default() += 1);
            }
            Entry::Begun(place, stamp) => *self.credit.entry((place, stamp)).or_default() -= 1,
            Entry::Finished(piece) => self.pieces.push(*piece),
            Entry::Ended(end) => self.ends.push(*end),
        }
    }

    /// The pieces that are of this experiment, and how many are not.
    pub(crate) fn fitting(
        &mut self,
        experiment: &Experiment,
        records: &RecordsDigest,
        share: Option<Share>,
    ) -> (Vec<Piece>, usize) {
        let places: std::collections::BTreeSet<Place> =
            experiment.places(share).into_iter().collect();
        let all = std::mem::take(&mut self.pieces);
        let fits = |piece: &Piece| {
            places.contains(&piece.place())
                && experiment
                    .stamp(records, piece.place())
                    .is_some_and(|stamp| stamp == piece.stamp())
        };
        let (fit, other): (Vec<Piece>, Vec<Piece>) = all.into_iter().partition(fits);
        (fit, other.len())
    }

    /// Whether a transcript was paid for and begun.
    pub(crate) fn cut_off(&self, transcript: &(Place, String)) -> bool {
        self.credit.get(transcript).is_some_and(|&credit| credit <= 0)
    }

    /// Of these transcripts, those that nobody has paid for: never reserved, or begun since.
    pub(crate) fn unpaid(&self, transcripts: &[(Place, String)]) -> Vec<(Place, String)> {
        let paid = |t: &&(Place, String)| self.credit.get(*t).is_some_and(|&credit| credit > 0);
        transcripts.iter().filter(|t| !paid(t)).cloned().collect()
    }
}

/// The next whole entry, and what comes after it.
fn next(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<8>()?;
    let (entry, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    (checksum(entry) == u64::from_le_bytes(*sum)).then_some((entry, rest))
}

/// FNV-1a: it guards against a torn end, not against anybody.
fn checksum(bytes: &[u8]) -> u64 {
    with_more(EMPTY, bytes)
}

const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// The checksum of what had this one, and more.
fn with_more(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// How often the state of a transcript under way is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckpointInterval {
    Rounds(u32),
    Time(Duration),
}

impl std::str::FromStr for CheckpointInterval {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let help =
            "write a number of rounds, as in 200, or a time, as in 30s, 10m or 2h; 0 is never";
        let number = |digits: &str| digits.parse::<u32>().map_err(|_| anyhow!(help));
        let unit =
            [('s', 1), ('m', 60), ('h', 3600)].into_iter().find(|(end, _)| text.ends_with(*end));
        match unit {
            Some((end, seconds)) => match number(text.trim_end_matches(end))? {
                0 => Ok(Self::Rounds(0)),
                n => Ok(Self::Time(Duration::from_secs(u64::from(n) * seconds))),
            },
            None => number(text).map(Self::Rounds),
        }
    }
}

/// The folder of states of transcripts under way.
#[derive(Debug)]
pub(crate) struct States {
    folder: PathBuf,
    every: CheckpointInterval,
    /// When each was written last.
    written: Mutex<BTreeMap<Place, Instant>>,
}

impl States {
    pub(crate) fn new(folder: PathBuf, every: CheckpointInterval) -> Self {
        Self { folder, every, written: Mutex::default() }
    }

    fn file(&self, place: Place) -> PathBuf {
        let part = match place.part {
            Part::Algorithm(algorithm) => algorithm + 1,
            _ => 0,
        };
        self.folder.join(format!("point-{}-run-{}-algorithm-{part}.bin", place.point, place.run))
    }

    /// Every state that is there and whole.
    pub(crate) fn read(&self) -> Vec<Unfinished> {
        let files = fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok);
        let ours = files.filter(|f| f.file_name().to_string_lossy().starts_with("point-"));
        ours.filter_map(|f| kept(&f.path())).collect()
    }

    /// Takes away what an earlier run of this name left.
    fn clear(&self) {
        for state in fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok) {
            if state.file_name().to_string_lossy().starts_with("point-") {
                let _ = fs::remove_file(state.path());
            }
        }
        let _ = fs::remove_dir(&self.folder);
    }

    fn due(&self, place: Place, round: u32) -> bool {
        match self.every {
            CheckpointInterval::Rounds(every) => every > 0 && round.is_multiple_of(every),
            CheckpointInterval::Time(time) => {
                let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
                written.entry(place).or_insert_with(Instant::now).elapsed() >= time
            }
        }
    }

    fn write(&self, state: &Unfinished) -> Result<()> {
        private_folder(&self.folder)?;
        keep(&self.file(state.place()), state)?;
        self.written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(state.place(), Instant::now());
        Ok(())
    }

    fn remove(&self, place: Place) {
        let _ = fs::remove_file(self.file(place));
        // The last one to leave takes the folder away.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Makes a folder, and those above it, that nobody else may look into.
pub(crate) fn private_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).with_context(|| format!("{}: cannot be made", folder.display()))
}

/// Writes down what happens in a run. The file is made when there is something to write.
#[derive(Debug)]
pub(crate) struct Keeper {
    path: PathBuf,
    asked: Vec<u8>,
    /// Whether noise is the operating system's: then what was begun must be on the disk before it
    /// is.
    entropy: bool,
    /// Stamps of transcripts, where `entropy`.
    stamps: BTreeMap<Place, String>,
    states: States,
    /// Whether last states are small enough to be kept among the pieces.
    ends: bool,
    file: Mutex<Option<File>>,
}

impl Keeper {
    /// For a run that goes to `path`; what was kept there is kept on, else the file begins anew.
    pub(crate) fn new(
        path: PathBuf,
        asked: (&str, &ExperimentSpec),
        entropy: bool,
        share: Option<Share>,
        kept: Option<&PieceFile>,
        (states, resumes, ends): (States, bool, bool),
    ) -> Result<Self> {
        if !resumes {
            states.clear();
        }
        let asked = Entry::Asked {
            file: asked.0.to_owned(),
            spec: asked.1.to_toml(),
            entropy,
            share: share.map(|s| (s.index(), s.of())),
        };
        let (asked, stamps, file) = (framed(&asked)?, BTreeMap::new(), Mutex::new(None));
        let keeper = Self { path, asked, entropy, stamps, states, ends, file };
        let shown = keeper.path.display();
        match kept {
            Some(kept) => {
                let mut file = keeper.open(fs::OpenOptions::new().append(true))?;
                let cut = file.set_len(kept.length).and_then(|()| file.write_all(&keeper.asked));
                cut.with_context(|| format!("{shown}: cannot be written"))?;
                *keeper.lock() = Some(file);
            }
            None if keeper.path.exists() => {
                fs::remove_file(&keeper.path)
                    .with_context(|| format!("{shown}: cannot be removed"))?;
            }
            None => {}
        }
        Ok(keeper)
    }

    fn open(&self, options: &mut fs::OpenOptions) -> Result<File> {
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
        options
            .open(&self.path)
            .with_context(|| format!("{}: cannot be written", self.path.display()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, entry: &Entry) -> Result<()> {
        let bytes = framed(entry)?;
        let mut file = self.lock();
        if file.is_none() {
            if let Some(parent) = self.path.parent().filter(|p| !p.as_os_str().is_empty()) {
                fs::create_dir_all(parent)
                    .with_context(|| format!("{}: cannot be made", parent.display()))?;
            }
            let mut new = self.open(fs::OpenOptions::new().create_new(true).append(true))?;
            new.write_all(MAGIC)?;
            new.write_all(&self.asked)?;
            *file = Some(new);
        }
        let file = file.as_mut().context("the file of pieces")?;
        file.write_all(&bytes)?;
        if self.entropy {
            file.sync_data()?;
        }
        Ok(())
    }

    /// Notes what the ledgers were charged for, of all transcripts that will be made.
    pub(crate) fn reserved(
        &mut self,
        all: Vec<(Place, String)>,
        now: Vec<(Place, String)>,
    ) -> Result<()> {
        if !self.entropy {
            return Ok(());
        }
        self.stamps = all.into_iter().collect();
        if now.is_empty() { Ok(()) } else { self.add(&Entry::Reserved(now)) }
    }

    /// Notes that the noise of a transcript will be drawn now.
    pub(crate) fn begins(&self, place: Place) -> Result<()> {
        match self.stamps.get(&place) {
            Some(stamp) => self.add(&Entry::Begun(place, stamp.clone())),
            None => Ok(()),
        }
    }

    /// Notes a finished piece.
    pub(crate) fn finished(&self, piece: &Piece) -> Result<()> {
        self.add(&Entry::Finished(Box::new(piece.clone())))?;
        if piece.is_transcript() {
            self.states.remove(piece.place());
        }
        Ok(())
    }

    /// Whether the state of a transcript is to be written down after this round.
    pub(crate) fn keeps(&self, place: Place, round: u32, last: bool) -> bool {
        (last && self.ends) || self.states.due(place, round)
    }

    /// Writes down how far a transcript has come.
    pub(crate) fn reached(&self, state: &Unfinished, last: bool) -> Result<()> {
        if last && self.ends {
            return self.add(&Entry::Ended(Box::new(state.clone())));
        }
        self.states.write(state)
    }

    /// The file as it is now, to go into the folder of the run; nothing if nothing was written.
    pub(crate) fn bytes(&self) -> Result<Option<Vec<u8>>> {
        if self.lock().is_none() {
            return Ok(None);
        }
        fs::read(&self.path)
            .map(Some)
            .with_context(|| format!("{}: cannot be read", self.path.display()))
    }

    /// What a file without anything finished holds.
    pub(crate) fn empty(&self) -> Vec<u8> {
        [MAGIC, &self.asked].concat()
    }

    /// Takes the file away, once its bytes are in the folder of the run.
    pub(crate) fn remove(self) -> Result<()> {
        let made = self.lock().take().is_some();
        if made {
            fs::remove_file(&self.path)
                .with_context(|| format!("{}: cannot be removed", self.path.display()))?;
        }
        Ok(())
    }
}

/// Writes a state to a file, beside the one that was there and moved to its place: there is always
/// a whole one, and a checksum finds what a machine that lost its power left of it.
pub(crate) fn keep(file: &Path, state: &impl Serialize) -> Result<()> {
    let beside = file.with_extension("new");
    let written = || -> Result<()> {
        let to = summed(io::BufWriter::new(File::create(&beside)?), state)?;
        to.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(fs::rename(&beside, file)?)
    };
    written().with_context(|| format!("{}: cannot be written", file.display()))
}

/// The state that [`keep`] wrote, if nothing of it is missing or changed.
pub(crate) fn kept<T: DeserializeOwned>(file: &Path) -> Option<T> {
    whole(&fs::read(file).ok()?)
}

/// Writes a state and its checksum, without holding its bytes.
fn summed<W: io::Write>(to: W, state: &impl Serialize) -> Result<W> {
    let Summing { mut to, sum } = postcard::to_io(state, Summing { to, sum: EMPTY })?;
    to.write_all(&sum.to_le_bytes())?;
    Ok(to)
}

fn whole<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (state, sum) = bytes.split_last_chunk::<8>()?;
    if checksum(state) != u64::from_le_bytes(*sum) {
        return None;
    }
    let (state, rest) = postcard::take_from_bytes(state).ok()?;
    rest.is_empty().then_some(state)
}

struct Summing<W> {
    to: W,
    sum: u64,
}

impl<W: io::Write> io::Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.sum = with_more(self.sum, &bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn framed(entry: &impl Serialize) -> Result<Vec<u8>> {
    let entry = postcard::to_stdvec(entry).context("a piece of the run")?;
    let length = u32::try_from(entry.len()).context("a piece of more than 4 GB")?;
    Ok([&length.to_le_bytes()[..], &checksum(&entry).to_le_bytes(), &entry].concat())
}

/// One file of pieces from several, whose shares are together the whole.
pub(crate) fn joined(
    paths: &[PathBuf],
    asked: (&str, &ExperimentSpec),
    entropy: bool,
) -> Result<Vec<u8>> {
    let mut all = MAGIC.to_vec();
    for path in paths {
        let length = PieceFile::read(path)?.length as usize;
        let bytes =
            fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
        all.extend(bytes.get(MAGIC.len()..length).unwrap_or_default());
    }
    let spec = asked.1.to_toml();
    all.extend(framed(&Entry::Asked { file: asked.0.to_owned(), spec, entropy, share: None })?);
    Ok(all)
}

/// The file of pieces in the folder of a run, wherever it is in there.
pub(crate) fn within(folder: &Path) -> Option<PathBuf> {
    [folder.join(NAME), folder.join(crate::folder::PRIVATE).join(NAME)]
        .into_iter()
        .find(|path| path.is_file())
}

/// The transcripts among some places, with their stamps.
pub(crate) fn transcripts(
    experiment: &Experiment,
    records: &RecordsDigest,
    places: impl IntoIterator<Item = Place>,
) -> Vec<(Place, String)> {
    let transcripts = places.into_iter().filter(|place| matches!(place.part, Part::Algorithm(_)));
    transcripts.filter_map(|place| Some((place, experiment.stamp(records, place)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(run: u32) -> Place {
        Place { point: 0, run, part: Part::Algorithm(0) }
    }

    /// A crash can cut the file anywhere; every prefix is read up to its last whole entry.
    #[test]
    fn a_torn_end_is_left_away() {
        let path = std::env::temp_dir().join(format!("consenso-pieces-{}", std::process::id()));
        let mut whole = MAGIC.to_vec();
        let mut ends = Vec::new();
        for run in 0..3 {
            whole.extend(framed(&Entry::Begun(place(run), "stamp".into())).unwrap());
            ends.push(whole.len());
        }
        for cut in MAGIC.len()..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let kept = PieceFile::read(&path).unwrap();
            assert_eq!(
                kept.credit.len(),
                ends.iter().filter(|&&end| end <= cut).count(),
                "cut at {cut}"
            );
        }
        whole[ends[1] - 1] ^= 1;
        fs::write(&path, &whole).unwrap();
        assert_eq!(PieceFile::read(&path).unwrap().credit.len(), 1);
        fs::remove_file(&path).unwrap();
    }

    /// A state that lost or changed a byte is none: going on from it would not be bit for bit.
    #[test]
    fn a_damaged_state_is_not_gone_on_from() {
        let state = (place(7), vec![1.5f64; 9]);
        let bytes = summed(Vec::new(), &state).unwrap();
        assert_eq!(whole(&bytes), Some(state.clone()));
        for at in 0..bytes.len() {
            assert_eq!(whole::<(Place, Vec<f64>)>(&bytes[..at]), None, "cut at {at}");
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(whole::<(Place, Vec<f64>)>(&changed), None, "changed at {at}");
        }
    }

    /// Paid once, drawn once. What was begun and lost is drawn again, and so paid again.
    #[test]
    fn what_is_drawn_again_is_paid_again() {
        let t = |run| (place(run), "stamp".to_owned());
        let mut kept = PieceFile::default();
        kept.take(Entry::Reserved(vec![t(0), t(1)]));
        assert_eq!(kept.unpaid(&[t(0), t(1), t(2)]), [t(2)]);
        kept.take(Entry::Begun(place(0), "stamp".into()));
        assert_eq!(kept.unpaid(&[t(0), t(1), t(2)]), [t(0), t(2)]);
        assert_eq!([t(0), t(1), t(2)].map(|t| kept.cut_off(&t)), [true, false, false]);
        kept.take(Entry::Reserved(vec![t(0), t(2)]));
        assert_eq!(kept.unpaid(&[t(0), t(1), t(2)]), []);
        kept.take(Entry::Begun(place(0), "stamp".into()));
        assert_eq!(kept.unpaid(&[t(0)]), [t(0)]);
        // Other parameters are another transcript.
        assert_eq!(kept.unpaid(&[(place(1), "other".into())]).len(), 1);
    }
}
