//! Cuts the text of a table into records and cells, in blocks that all threads work on.
//!
//! Where a block begins is a guess: just after a line end. Whoever cuts the block before it finds
//! out whether that was right, because the last record there ends where the next one begins. A
//! block that begins inside a quoted cell is cut again from where its first record is. So the
//! records are those of one pass from beginning to end, whatever the number of threads.

use std::io::{self, Read};
use std::ops::Range;

use rayon::prelude::*;

use super::DataError;

/// Bytes of a block.
const BLOCK: usize = 1 << 20;
/// Blocks of a thread that are in memory at once: enough that no thread waits long for another.
const BLOCKS: usize = 4;

/// The marks that text is cut at. Records end with `\n`, `\r` or both; a cell that begins with the
/// quote goes on to the next one, and two of them stand for one there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cutter {
    delimiter: u8,
    quote: u8,
    comment: Option<u8>,
}

/// Where the cells of one record lie.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Where the record begins in its text.
    pub(super) start: usize,
    places: Vec<Place>,
    /// Cells that lost a quote, one after the other.
    own: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    start: usize,
    end: usize,
    /// Whether it lies in the record's own text.
    own: bool,
}

impl Record {
    /// Adds a cell that is in the text as it is.
    #[inline]
    fn push(&mut self, text: &[u8], mut start: usize, mut end: usize) {
        while start < end && text[start].is_ascii_whitespace() {
            start += 1;
        }
        while start < end && text[end - 1].is_ascii_whitespace() {
            end -= 1;
        }
        self.places.push(Place { start, end, own: false });
    }

    /// Number of cells.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// A cell without the spaces around it; `None` if it is not UTF-8.
    #[inline]
    pub(super) fn cell<'r>(&'r self, text: Text<'r>, index: usize) -> Option<&'r str> {
        let Place { start, end, own } = self.places[index];
        match text {
            Text::Valid(text) if !own => Some(&text[start..end]),
            text => std::str::from_utf8(self.bytes(text.bytes(), index)).ok(),
        }
    }

    /// The bytes of a cell without the spaces around it.
    pub(super) fn bytes<'r>(&'r self, text: &'r [u8], index: usize) -> &'r [u8] {
        let Place { start, end, own } = self.places[index];
        if own { self.own[start..end].trim_ascii() } else { &text[start..end] }
    }

    /// The bytes of all cells.
    pub(super) fn cells<'r>(&'r self, text: &'r [u8]) -> impl Iterator<Item = &'r [u8]> {
        (0..self.len()).map(move |index| self.bytes(text, index))
    }

    /// Whether it is a line of spaces.
    pub(super) fn is_blank(&self, text: &[u8]) -> bool {
        self.len() == 1 && self.bytes(text, 0).is_empty()
    }
}

/// What follows in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// A record, and where it ends.
    Record(usize),
    /// No whole record; what there is begins at [`Record::start`].
    Rest,
}

impl Cutter {
    pub(super) fn new(delimiter: char, quote: char, comment: Option<char>) -> Self {
        let byte = |mark: char| u8::try_from(mark).expect("a checked format is ASCII");
        Self { delimiter: byte(delimiter), quote: byte(quote), comment: comment.map(byte) }
    }

    /// Cuts the first record at or after `at`, past blank lines and comments. `ended` says that no
    /// text follows this one.
    pub(super) fn next(&self, text: &[u8], at: usize, ended: bool, record: &mut Record) -> Cut {
        record.places.clear();
        record.own.clear();
        let mut at = at;
        loop {
            record.start = at;
            match text.get(at) {
                None => return Cut::Rest,
                Some(b'\n' | b'\r') => at += 1,
                Some(&byte) if Some(byte) == self.comment => {
                    match text[at..].iter().position(|&byte| byte == b'\n') {
                        Some(line) => at += line + 1,
                        None => return Cut::Rest,
                    }
                }
                Some(_) => break,
            }
        }
        loop {
            let end = match text.get(at) {
                Some(&byte) if byte == self.quote => self.quoted(text, at + 1, record),
                _ => {
                    let end = self.end_of_cell(text, at);
                    record.push(text, at, end);
                    end
                }
            };
            match text.get(end) {
                Some(&byte) if byte == self.delimiter => at = end + 1,
                Some(_) => return Cut::Record(end + 1),
                None if ended => return Cut::Record(end),
                None => return Cut::Rest,
            }
        }
    }

    /// Where the delimiter or the line end after `at` is: eight bytes at a time.
    #[inline]
    fn end_of_cell(&self, text: &[u8], mut at: usize) -> usize {
        const ONES: u64 = 0x0101_0101_0101_0101;
        let delimiters = ONES * u64::from(self.delimiter);
        // The lowest bit that is set is that of the first byte that is zero.
        let zeros = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
        while let Some(bytes) = text.get(at..at + 8) {
            let word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            let found = zeros(word ^ delimiters)
                | zeros(word ^ (ONES * u64::from(b'\n')))
                | zeros(word ^ (ONES * u64::from(b'\r')));
            if found != 0 {
                return at + found.trailing_zeros() as usize / 8;
            }
            at += 8;
        }
        let ends = |&byte: &u8| byte == self.delimiter || matches!(byte, b'\n' | b'\r');
        at + text[at..].iter().position(ends).unwrap_or(text.len() - at)
    }

    /// Cuts a quoted cell whose text begins at `at`; where it ends.
    fn quoted(&self, text: &[u8], at: usize, record: &mut Record) -> usize {
        let quote = |from: usize| text[from..].iter().position(|&b| b == self.quote);
        let close = at + quote(at).unwrap_or(text.len() - at);
        let after = text.get(close + 1).copied();
        let ends = |byte: u8| byte == self.delimiter || matches!(byte, b'\n' | b'\r');
        if after.is_none_or(ends) {
            record.push(text, at, close);
            return (close + 1).min(text.len());
        }
        // Two quotes are one; what follows the last one belongs to the cell as it is.
        let start = record.own.len();
        let (mut from, mut end) = (at, close);
        loop {
            record.own.extend_from_slice(&text[from..end]);
            if text.get(end + 1) != Some(&self.quote) {
                break;
            }
            record.own.push(self.quote);
            from = end + 2;
            end = from + quote(from).unwrap_or(text.len() - from);
        }
        let end = match text.get(end + 1) {
            Some(_) => {
                let until = self.end_of_cell(text, end + 1);
                record.own.extend_from_slice(&text[end + 1..until]);
                until
            }
            None => text.len(),
        };
        record.places.push(Place { start, end: record.own.len(), own: true });
        end
    }
}

/// Text that was found to be UTF-8, or was not.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text<'t> {
    Valid(&'t str),
    Bytes(&'t [u8]),
}

impl<'t> Text<'t> {
    /// The text of a buffer, without a character that goes on after its end.
    fn of(buffer: &'t [u8], ended: bool) -> Self {
        let cut = match std::str::from_utf8(buffer) {
            Ok(text) => return Self::Valid(text),
            Err(error) if error.error_len().is_none() && !ended => error.valid_up_to(),
            Err(_) => return Self::Bytes(buffer),
        };
        std::str::from_utf8(&buffer[..cut]).map_or(Self::Bytes(buffer), Self::Valid)
    }

    pub(super) fn bytes(self) -> &'t [u8] {
        match self {
            Self::Valid(text) => text.as_bytes(),
            Self::Bytes(text) => text,
        }
    }
}

/// A part of a text: the records that begin in its range.
#[derive(Clone, Debug)]
pub(super) struct Block<'t> {
    /// The text it lies in.
    pub(super) text: Text<'t>,
    range: Range<usize>,
    /// Whether no text follows this one.
    ended: bool,
    /// Where the text begins in its file.
    offset: u64,
}

/// How far a block was cut.
#[derive(Clone, Copy, Debug)]
struct Reach {
    /// Where the last record ends, or one begins that is not whole.
    at: usize,
    whole: bool,
}

impl Block<'_> {
    /// Where a record begins in its file.
    pub(super) fn position(&self, record: &Record) -> u64 {
        self.offset + record.start as u64
    }

    /// Hands on every record until one is refused.
    fn each(
        &self,
        cutter: &Cutter,
        mut each: impl FnMut(&Record) -> Result<(), DataError>,
    ) -> (Result<(), DataError>, Reach) {
        let (bytes, mut record) = (self.text.bytes(), Record::default());
        let mut at = self.range.start;
        loop {
            let cut = cutter.next(bytes, at, self.ended, &mut record);
            if record.start >= self.range.end {
                return (Ok(()), Reach { at, whole: true });
            }
            match cut {
                Cut::Rest => {
                    let (at, whole) = (record.start, self.ended);
                    return (Ok(()), Reach { at, whole });
                }
                Cut::Record(end) => {
                    at = end;
                    if let Err(error) = each(&record) {
                        return (Err(error), Reach { at, whole: true });
                    }
                }
            }
        }
    }
}

/// Whether blocks may be cut side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Several at once; what they give is still taken in order.
    AnyOrder,
    /// One after the other, for whoever remembers what came before.
    InOrder,
}

/// What happens to the records of a block.
pub(super) trait Work: Sync {
    /// A block under way.
    type Piece;
    /// What became of a block.
    type Done: Send;

    /// A block about to be worked on.
    fn begin(&self) -> Self::Piece;

    /// Adds a record.
    fn add(
        &self,
        piece: &mut Self::Piece,
        block: &Block<'_>,
        record: &Record,
    ) -> Result<(), DataError>;

    /// Ends a block, on the thread that worked on it.
    fn end(&self, piece: Self::Piece) -> Self::Done;
}

/// Works on all records of a text from its byte `from` on; `take` gets what became of the blocks,
/// in order.
pub(super) fn in_blocks<W: Work>(
    reader: &mut dyn Read,
    cutter: &Cutter,
    from: u64,
    order: Order,
    file: &str,
    work: &W,
    take: impl FnMut(W::Done) -> Result<(), DataError>,
) -> Result<(), DataError> {
    in_blocks_of(BLOCK, reader, cutter, from, order, file, work, take)
}

#[expect(clippy::too_many_arguments, reason = "what `in_blocks` is given, and the size of a block")]
fn in_blocks_of<W: Work>(
    size: usize,
    reader: &mut dyn Read,
    cutter: &Cutter,
    from: u64,
    order: Order,
    file: &str,
    work: &W,
    mut take: impl FnMut(W::Done) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let failed = |source| DataError::Read { file: file.to_owned(), source };
    io::copy(&mut reader.take(from), &mut io::sink()).map_err(failed)?;
    let threads = match order {
        Order::AnyOrder => rayon::current_num_threads(),
        Order::InOrder => 1,
    };
    let batch = if threads == 1 { size } else { threads * BLOCKS * size };
    let (mut buffer, mut offset) = (Vec::new(), from);
    loop {
        let read = reader.take(batch as u64).read_to_end(&mut buffer).map_err(failed)?;
        let ended = read < batch;
        let text = Text::of(&buffer, ended);
        let block = |range: Range<usize>| Block { text, range, ended, offset };
        let worked = |range: Range<usize>| {
            let (block, mut piece) = (block(range), work.begin());
            let (result, reach) = block.each(cutter, |record| work.add(&mut piece, &block, record));
            (result.map(|()| work.end(piece)), reach)
        };
        let ranges = match order {
            Order::AnyOrder => ranges(text.bytes(), size),
            Order::InOrder => std::iter::once(0..text.bytes().len()).collect(),
        };
        let results: Vec<_> =
            ranges.par_iter().with_max_len(1).map(|range| worked(range.clone())).collect();
        let mut at = 0;
        for (range, (mut piece, mut reach)) in ranges.into_iter().zip(results) {
            if at >= range.end && range.end > 0 {
                continue; // all of it belongs to a record before
            }
            if at > range.start {
                (piece, reach) = worked(at..range.end);
            }
            take(piece?)?;
            at = if reach.whole { reach.at.max(range.end) } else { reach.at };
            if !reach.whole {
                break;
            }
        }
        if ended {
            return Ok(());
        }
        buffer.drain(..at);
        offset += at as u64;
    }
}

/// Parts of a text that begin after line ends.
fn ranges(text: &[u8], size: usize) -> Vec<Range<usize>> {
    let (mut ranges, mut start) = (Vec::new(), 0);
    while text.len() - start > size {
        let rest = &text[start + size..];
        // Not after `\r`: a comment goes on there.
        let Some(line) = rest.iter().position(|&byte| byte == b'\n') else { break };
        let end = start + size + line + 1;
        ranges.push(start..end);
        start = end;
    }
    ranges.push(start..text.len());
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every record as its cells.
    struct Listing;

    impl Work for Listing {
        type Piece = Vec<(u64, Vec<Vec<u8>>)>;
        type Done = Self::Piece;

        fn begin(&self) -> Self::Piece {
            Vec::new()
        }

        fn add(
            &self,
            piece: &mut Self::Piece,
            block: &Block<'_>,
            record: &Record,
        ) -> Result<(), DataError> {
            let cells = record.cells(block.text.bytes()).map(<[u8]>::to_vec).collect();
            piece.push((block.position(record), cells));
            Ok(())
        }

        fn end(&self, piece: Self::Piece) -> Self::Done {
            piece
        }
    }

    fn ours(text: &[u8], comment: Option<char>, size: usize, order: Order) -> Vec<Vec<Vec<u8>>> {
        let (cutter, mut all) = (Cutter::new(',', '"', comment), Vec::new());
        let take = |piece| {
            all.extend(piece);
            Ok(())
        };
        in_blocks_of(size, &mut &text[..], &cutter, 0, order, "t", &Listing, take).expect("cut");
        let first =
            |byte: &u8| !matches!(byte, b'\n' | b'\r') && Some(char::from(*byte)) != comment;
        assert!(all.iter().all(|(at, _)| first(&text[*at as usize])), "where records begin");
        all.into_iter().map(|(_, cells)| cells).collect()
    }

    /// What the csv crate makes of a text.
    fn theirs(text: &[u8], comment: Option<char>) -> Vec<Vec<Vec<u8>>> {
        let mut reader = csv::ReaderBuilder::new();
        reader.has_headers(false).flexible(true).comment(comment.map(|c| c as u8));
        let records = reader.from_reader(text).into_byte_records();
        let cells = |record: csv::ByteRecord| {
            record.iter().map(|cell| cell.trim_ascii().to_vec()).collect::<Vec<_>>()
        };
        records.map(|record| cells(record.expect("text in memory"))).collect()
    }

    proptest! {
        /// Whatever a text is made of, and wherever blocks begin, records and cells are those of
        /// another program's reader.
        #[test]
        fn blocks_cut_at_random_give_the_records_of_another_reader(
            text in "[ab,\"\n\r# é]{0,120}",
            size in 1_usize..40,
            comment in prop_oneof![Just(None), Just(Some('#'))],
        ) {
            // The other reader takes a comment without a line end for a record.
            let text = if comment.is_some() { format!("{text}\n") } else { text };
            let text = text.as_bytes();
            for order in [Order::AnyOrder, Order::InOrder] {
                prop_assert_eq!(ours(text, comment, size, order), theirs(text, comment));
            }
        }
    }

    #[test]
    fn a_line_end_inside_a_quoted_cell_that_begins_a_block_is_no_record() {
        let text = b"1,\"x\ny\nz\"\n2,\"a\"\"\nb\"\n3,c\n";
        for size in 1..text.len() {
            let rows = ours(text, None, size, Order::AnyOrder);
            let expected: [[&[u8]; 2]; 3] = [[b"1", b"x\ny\nz"], [b"2", b"a\"\nb"], [b"3", b"c"]];
            assert_eq!(rows, expected.map(|row| row.map(<[u8]>::to_vec).to_vec()), "{size}");
        }
    }
}
