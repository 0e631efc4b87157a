//! Encoded rows outside memory: written once, row after row, and read again by whoever needs them.
//!
//! The library opens no files. Whoever runs it hands it a [`Scratch`], and gets the same rows back,
//! bit for bit, as if they had been held.

use super::{Records, Shard};
use std::fmt;
use std::io::{self, Write as _};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// A place outside memory for rows that are too many to hold. They are as private as the records,
/// and of no use after the run.
pub trait Scratch: Send + Sync {
    /// Begins an empty file; one of the same name that was begun before is not read any more.
    ///
    /// # Errors
    /// What the operating system says.
    fn begin(&self, name: &str) -> io::Result<Box<dyn ScratchFile>>;
}

/// A file of a [`Scratch`] that is being written.
pub trait ScratchFile: io::Write + Send {
    /// Ends the writing, so that it can be read.
    ///
    /// # Errors
    /// What the operating system says.
    fn done(self: Box<Self>) -> io::Result<Arc<dyn ReadAt>>;
}

/// Bytes that several threads read at any place.
pub trait ReadAt: Send + Sync {
    /// Fills `bytes` with what begins at `place`.
    ///
    /// # Errors
    /// What the operating system says; an end of the file before `bytes` are full is an error, too.
    fn read_at(&self, place: u64, bytes: &mut [u8]) -> io::Result<()>;
}

/// Bytes read at once where rows lie close together.
const WINDOW: u64 = 1 << 18;
/// Bytes of agents that lie together and are read together.
const BLOCK: u64 = 1 << 20;
/// Bytes of agents whose rows are brought together in memory before they are written.
const GATHERED: u64 = 1 << 26;

/// The training rows of a dataset, in the order of its files.
#[derive(Clone)]
pub struct StoredRows {
    scratch: Arc<dyn Scratch>,
    file: Arc<dyn ReadAt>,
    /// An empty block that keeps rows as these are kept.
    form: Records,
    ends: Ends,
    /// The rows to train on by their number in the file, where some were held out.
    kept: Option<Vec<u32>>,
    /// Where somebody asked for them.
    pub(super) labels: Vec<f64>,
    /// The label of all rows that were written, if they have the same.
    pub(super) only_label: Option<f64>,
}

/// Where rows end in a file.
#[derive(Clone, Debug)]
pub(super) enum Ends {
    /// All have as many bytes.
    Even { bytes: u64, rows: usize },
    /// Each has its own number.
    Own(Vec<u64>),
}

impl Ends {
    pub(super) fn of(form: &Records) -> Self {
        match form.row_bytes() {
            Some(bytes) => Self::Even { bytes: bytes as u64, rows: 0 },
            None => Self::Own(Vec::new()),
        }
    }

    /// One more row ends here.
    pub(super) fn push(&mut self, end: u64) {
        match self {
            Self::Even { rows, .. } => *rows += 1,
            Self::Own(ends) => ends.push(end),
        }
    }

    fn rows(&self) -> usize {
        match self {
            Self::Even { rows, .. } => *rows,
            Self::Own(ends) => ends.len(),
        }
    }

    fn span(&self, row: usize) -> Range<u64> {
        match self {
            Self::Even { bytes, .. } => bytes * row as u64..bytes * (row as u64 + 1),
            Self::Own(ends) => row.checked_sub(1).map_or(0, |before| ends[before])..ends[row],
        }
    }
}

impl fmt::Debug for StoredRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredRows(rows={}, dim={})", self.len(), self.form.dim())
    }
}

impl PartialEq for StoredRows {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file) && self.kept == other.kept
    }
}

fn damaged() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the scratch file of encoded rows is not as it was written",
    )
}

impl StoredRows {
    pub(super) fn new(
        scratch: Arc<dyn Scratch>,
        file: Arc<dyn ReadAt>,
        form: Records,
        ends: Ends,
        labels: Vec<f64>,
        only_label: Option<f64>,
    ) -> Self {
        Self { scratch, file, form, ends, kept: None, labels, only_label }
    }

    /// Rows to train on.
    pub fn len(&self) -> usize {
        self.kept.as_ref().map_or_else(|| self.ends.rows(), Vec::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all rows in their file.
    pub fn bytes(&self) -> u64 {
        self.ends.rows().checked_sub(1).map_or(0, |last| self.ends.span(last).end)
    }

    /// Bytes of memory that knowing where rows lie takes, beside what divides them among agents.
    pub fn index_bytes(&self) -> u64 {
        let ends = if let Ends::Own(ends) = &self.ends { 8 * ends.len() } else { 0 };
        (ends + 4 * self.kept.as_ref().map_or(0, Vec::len) + 8 * self.labels.len()) as u64
    }

    /// Whether rows follow each other in the file.
    pub fn lie_together(&self, rows: &[usize]) -> bool {
        rows.windows(2).all(|pair| self.number(pair[0]) + 1 == self.number(pair[1]))
    }

    /// Leaves only these rows, by increasing number.
    pub(super) fn keep(&mut self, rows: &[usize]) {
        let number = |&row: &usize| self.number(row) as u32;
        let kept = rows.iter().map(number).collect();
        if !self.labels.is_empty() {
            self.labels = rows.iter().map(|&row| self.labels[row]).collect();
        }
        self.kept = Some(kept);
    }

    /// The number in the file of a row to train on.
    fn number(&self, row: usize) -> usize {
        self.kept.as_ref().map_or(row, |kept| kept[row] as usize)
    }

    /// Hands the bytes of rows to `take`, with their places in `rows`, in the order in which they
    /// lie in the file.
    fn visit(&self, rows: &[(usize, usize)], mut take: impl FnMut(usize, &[u8])) -> io::Result<()> {
        let mut buffer = Vec::new();
        let mut rest = rows;
        while let [(first, _), ..] = rest {
            let start = self.ends.span(*first).start;
            // As many as begin within the window, if they fill some of it.
            let near =
                rest.iter().take_while(|(row, _)| self.ends.span(*row).end - start <= WINDOW);
            let (count, wanted) = near.fold((0, 0), |(count, wanted), (row, _)| {
                let span = self.ends.span(*row);
                (count + 1, wanted + span.end - span.start)
            });
            let end = |count: usize| self.ends.span(rest[count - 1].0).end;
            let count = if count > 0 && wanted >= (end(count) - start) / 16 { count } else { 1 };
            buffer.resize((end(count) - start) as usize, 0);
            self.file.read_at(start, &mut buffer)?;
            let (now, later) = rest.split_at(count);
            for &(row, place) in now {
                let span = self.ends.span(row);
                take(place, &buffer[(span.start - start) as usize..(span.end - start) as usize]);
            }
            rest = later;
        }
        Ok(())
    }

    /// Reads rows to train on, by increasing number.
    pub fn select(&self, rows: &[usize]) -> io::Result<Records> {
        let numbered: Vec<(usize, usize)> = rows.iter().map(|&row| (self.number(row), 0)).collect();
        let mut records = self.form.like(rows.len());
        let mut whole = true;
        self.visit(&numbered, |_, bytes| whole &= records.read_row(bytes) == Some(bytes.len()))?;
        if whole { Ok(records) } else { Err(damaged()) }
    }

    /// The rows of some agents, so that each has its rows together: in the file as it is if they
    /// are there, else in one that is written for it.
    pub fn of_agents(
        &self,
        shards: &[Shard],
        mine: impl Iterator<Item = usize>,
    ) -> io::Result<AgentRows> {
        let mine: Vec<usize> = mine.collect();
        let length = |agent: usize| -> u64 {
            let span = |&row: &usize| self.ends.span(self.number(row));
            shards[agent].rows.iter().map(span).map(|s| s.end - s.start).sum()
        };
        let mut spans = vec![(0..0, 0); shards.len()];
        if mine.iter().all(|&agent| self.lie_together(&shards[agent].rows)) {
            for &agent in &mine {
                let rows = &shards[agent].rows;
                let start = rows.first().map_or(0, |&row| self.ends.span(self.number(row)).start);
                spans[agent] = (start..start + length(agent), rows.len() as u32);
            }
            return Ok(AgentRows::new(Arc::clone(&self.file), self.form.clone(), spans));
        }
        let mut file = self.scratch.begin("agents")?;
        let (mut at, mut buffer, mut rest) = (0, Vec::new(), &mine[..]);
        while !rest.is_empty() {
            let (mut rows, mut filled, mut count) = (Vec::new(), 0, 0);
            for &agent in rest {
                let bytes = length(agent);
                if count > 0 && filled + bytes > GATHERED {
                    break;
                }
                spans[agent] = (at + filled..at + filled + bytes, shards[agent].rows.len() as u32);
                for &row in &shards[agent].rows {
                    let span = self.ends.span(self.number(row));
                    rows.push((self.number(row), filled as usize));
                    filled += span.end - span.start;
                }
                count += 1;
            }
            rows.sort_unstable();
            buffer.resize(filled as usize, 0);
            self.visit(&rows, |place, bytes| {
                buffer[place..place + bytes.len()].copy_from_slice(bytes);
            })?;
            file.write_all(&buffer)?;
            at += filled;
            rest = &rest[count..];
        }
        Ok(AgentRows::new(file.done()?, self.form.clone(), spans))
    }
}

/// The rows of agents outside memory, each agent's together. Agents that lie side by side are read
/// together.
pub struct AgentRows {
    file: Arc<dyn ReadAt>,
    form: Records,
    /// By agent, where its rows are and how many.
    spans: Vec<(Range<u64>, u32)>,
    /// By agent, the block it is read with.
    block_of: Vec<u32>,
    blocks: Vec<Range<u64>>,
    /// Blocks that were read last, one for every thread at work at the most.
    read: Mutex<Vec<(u32, Vec<u8>)>>,
}

impl std::fmt::Debug for AgentRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AgentRows(agents={})", self.spans.len())
    }
}

impl AgentRows {
    fn new(file: Arc<dyn ReadAt>, form: Records, spans: Vec<(Range<u64>, u32)>) -> Self {
        let (mut blocks, mut block_of): (Vec<Range<u64>>, _) = (Vec::new(), vec![0; spans.len()]);
        for ((span, _), block) in spans.iter().zip(&mut block_of) {
            match blocks.last_mut() {
                Some(last) if last.end == span.start && span.end - last.start <= BLOCK => {
                    last.end = span.end;
                }
                _ => blocks.push(span.clone()),
            }
            *block = blocks.len() as u32 - 1;
        }
        Self { file, form, spans, block_of, blocks, read: Mutex::default() }
    }

    /// Reads the rows of an agent.
    pub fn records(&self, agent: usize) -> io::Result<Records> {
        let (span, rows) = &self.spans[agent];
        let block = self.block_of[agent];
        let read = || self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let known = {
            let mut read = read();
            let place = read.iter().position(|(number, _)| *number == block);
            place.or(read.len().checked_sub(1)).map(|place| read.swap_remove(place))
        };
        let (number, mut bytes) = known.unwrap_or((u32::MAX, Vec::new()));
        let place = &self.blocks[block as usize];
        if number != block {
            bytes.resize((place.end - place.start) as usize, 0);
            self.file.read_at(place.start, &mut bytes)?;
        }
        let mut mine =
            &bytes[(span.start - place.start) as usize..(span.end - place.start) as usize];
        let mut records = self.form.like(*rows as usize);
        for _ in 0..*rows {
            let used = records.read_row(mine).ok_or_else(damaged)?;
            mine = &mine[used..];
        }
        read().push((block, bytes));
        Ok(records)
    }
}
