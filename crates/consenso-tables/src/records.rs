//! The private rows of one agent, as the kernels want them.

use super::codes::{CodeLayout, Codes};
use std::fmt;
use std::sync::Arc;

/// Rows in a tile: as many as a kernel works on side by side.
pub const LANES: usize = 8;

/// One feature of eight rows, on a cache line of its own.
#[derive(Clone, Copy, PartialEq)]
#[repr(align(64))]
pub struct Lanes8(pub [f64; LANES]);

impl std::fmt::Debug for Lanes8 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lanes8(..)")
    }
}

/// Encoded rows and labels of one agent.
///
/// Dense rows are kept in tiles of [`LANES`] rows, feature by feature, so that a kernel works on
/// eight rows at once without ever adding across a register; the last tile is filled up with zeros.
/// Rows that are mostly zeros are kept as their non-zeros alone, and rows made of categories as the
/// categories' codes. Labels are ±1 for two classes, 0…C−1 for more, a real number for regression.
///
/// `Debug` prints the shape, never a value: records are private.
#[derive(Clone, PartialEq)]
pub struct Records {
    dim: usize,
    features: Features,
    labels: Vec<f64>,
    /// Whom each record is about; empty where every record is somebody else's.
    persons: Vec<u32>,
}

#[derive(Clone, PartialEq)]
enum Features {
    /// Tile after tile, `dim` entries each.
    Tiles(Vec<Lanes8>),
    Sparse(Nonzeros),
    Coded(Codes),
    /// Some of the rows of a block that several share, from this one on: kept once, and read row by
    /// row, for no kernel reads rows that are not standardised yet.
    Part(Arc<Records>, usize),
}

/// The non-zero features of all rows, row by row.
#[derive(Clone, PartialEq)]
pub struct Nonzeros {
    /// Where each row starts, and one more.
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl std::fmt::Debug for Nonzeros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Nonzeros(rows={})", self.starts.len().saturating_sub(1))
    }
}

impl Nonzeros {
    /// No rows.
    pub(super) fn new() -> Self {
        Self { starts: vec![0], columns: Vec::new(), values: Vec::new() }
    }

    /// Columns and values of one row.
    pub fn row(&self, index: usize) -> (&[u32], &[f64]) {
        let range = self.starts[index]..self.starts[index + 1];
        (&self.columns[range.clone()], &self.values[range])
    }

    /// Appends rows.
    fn append(&mut self, other: &Self) {
        let before = self.columns.len();
        self.starts.extend(other.starts[1..].iter().map(|start| before + start));
        self.columns.extend_from_slice(&other.columns);
        self.values.extend_from_slice(&other.values);
    }

    /// Adds a row, given by increasing column.
    pub(super) fn push(&mut self, entries: impl Iterator<Item = (u32, f64)>) {
        for (column, value) in entries.filter(|e| e.1 != 0.0) {
            self.columns.push(column);
            self.values.push(value);
        }
        self.starts.push(self.columns.len());
    }
}

/// The features as kernels read them.
#[derive(Clone, Copy)]
pub enum Layout<'a> {
    /// Numbers, eight rows side by side.
    Tiles(&'a [Lanes8]),
    /// What is not zero.
    Sparse(&'a Nonzeros),
    /// Categories by their codes.
    Coded(&'a Codes),
}

impl std::fmt::Debug for Layout<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tiles(_) => "Layout::Tiles(..)",
            Self::Sparse(_) => "Layout::Sparse(..)",
            Self::Coded(_) => "Layout::Coded(..)",
        })
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Records(rows={}, dim={})", self.len(), self.dim)
    }
}

impl Records {
    /// An empty block with room for `rows` dense rows of `dim` features.
    #[must_use]
    pub fn with_capacity(dim: usize, rows: usize) -> Self {
        let tiles = Vec::with_capacity(rows.div_ceil(LANES) * dim);
        let labels = Vec::with_capacity(rows);
        Self { dim, features: Features::Tiles(tiles), labels, persons: Vec::new() }
    }

    /// An empty block of `dim` features that keeps non-zeros only.
    #[must_use]
    pub fn sparse(dim: usize) -> Self {
        Self {
            dim,
            features: Features::Sparse(Nonzeros::new()),
            labels: Vec::new(),
            persons: Vec::new(),
        }
    }

    /// An empty block with room for about `rows` rows of that shape.
    #[doc(hidden)]
    pub fn coded(shape: Arc<CodeLayout>, rows: usize) -> Self {
        let (dim, labels) = (shape.dim(), Vec::with_capacity(rows));
        let features = Features::Coded(Codes::new(shape, rows));
        Self { dim, features, labels, persons: Vec::new() }
    }

    /// Some rows of a block, from one on, which stay where they are.
    ///
    /// # Panics
    /// If the block does not have so many.
    #[doc(hidden)]
    #[must_use]
    pub fn part(of: &Arc<Self>, first: usize, rows: usize) -> Self {
        let range = first..first + rows;
        let persons = of.persons.get(range.clone()).unwrap_or_default().to_vec();
        let labels = of.labels[range].to_vec();
        Self { dim: of.dim, features: Features::Part(Arc::clone(of), first), labels, persons }
    }

    /// The block that a row lies in, and its number there.
    fn place(&self, row: usize) -> (&Self, usize) {
        match &self.features {
            Features::Part(of, first) => of.place(first + row),
            _ => (self, row),
        }
    }

    /// The rows of a part, kept as its block is; nothing if these are no part.
    fn taken_out(&self) -> Option<Self> {
        let Features::Part(of, first) = &self.features else { return None };
        let rows: Vec<usize> = (*first..first + self.len()).collect();
        Some(of.select(&rows).about(&self.persons))
    }

    /// Adds a row by its numbers, in the order of their features, and its level in every category.
    /// Panics if rows are not kept as codes.
    #[doc(hidden)]
    pub fn push_coded(
        &mut self,
        numbers: impl Iterator<Item = f64>,
        level: impl Fn(usize) -> usize,
        label: f64,
    ) {
        let Features::Coded(codes) = &mut self.features else { unreachable!("rows kept as codes") };
        codes.push(numbers, level);
        self.labels.push(label);
        self.persons.clear();
    }

    /// Adds one row. Panics if `row` is not `dim` long: encoders own that invariant.
    pub fn push(&mut self, row: &[f64], label: f64) {
        assert_eq!(
            row.len(),
            self.dim,
            "a row of {} features in a block of {}",
            row.len(),
            self.dim
        );
        self.push_entries((0..).zip(row.iter().copied()), label);
    }

    /// Adds one row given by some of its features, by increasing column; the others are zero.
    /// Panics if a column is not below `dim`.
    #[doc(hidden)]
    pub fn push_entries(&mut self, entries: impl Iterator<Item = (u32, f64)>, label: f64) {
        let dim = self.dim;
        let inside = |e: &(u32, f64)| assert!((e.0 as usize) < dim, "column {} of {dim}", e.0);
        if let Some(whole) = self.taken_out() {
            *self = whole;
        }
        if let Features::Coded(_) = self.features {
            // A row that no encoder made: all are kept as such from now on.
            let mut plain = Self::with_capacity(dim, self.len() + 1);
            (0..self.len()).for_each(|row| plain.push(&self.row(row), self.labels[row]));
            *self = plain;
        }
        match &mut self.features {
            Features::Tiles(tiles) => {
                let lane = self.labels.len() % LANES;
                if lane == 0 {
                    tiles.resize(tiles.len() + dim, Lanes8([0.0; LANES]));
                }
                let start = tiles.len() - dim;
                for (column, value) in entries.inspect(inside) {
                    tiles[start + column as usize].0[lane] = value;
                }
            }
            Features::Sparse(nonzeros) => nonzeros.push(entries.inspect(inside)),
            Features::Coded(_) | Features::Part(..) => unreachable!("made plain above"),
        }
        self.labels.push(label);
        self.persons.clear();
    }

    /// Adds one row written in place: `fill` gets `dim` zeros and returns the label.
    #[doc(hidden)]
    pub fn push_with(&mut self, fill: impl FnOnce(&mut [f64]) -> f64) {
        let mut row = vec![0.0; self.dim];
        let label = fill(&mut row);
        self.push(&row, label);
    }

    /// The rows with the given indices, in that order.
    #[must_use]
    pub fn select(&self, rows: &[usize]) -> Self {
        let mut out = match &self.features {
            Features::Tiles(_) => Self::with_capacity(self.dim, rows.len()),
            Features::Sparse(_) => Self::sparse(self.dim),
            Features::Coded(codes) => {
                let labels = rows.iter().map(|&row| self.labels[row]).collect();
                return Self {
                    dim: self.dim,
                    features: Features::Coded(codes.select(rows)),
                    labels,
                    persons: self.persons_of(rows),
                };
            }
            Features::Part(of, first) => {
                let rows: Vec<usize> = rows.iter().map(|row| first + row).collect();
                return of.select(&rows);
            }
        };
        if let (Features::Tiles(from), Features::Tiles(tiles)) = (&self.features, &mut out.features)
        {
            tiles.resize(rows.len().div_ceil(LANES) * self.dim, Lanes8([0.0; LANES]));
            for (at, &row) in rows.iter().enumerate() {
                let from = &from[row / LANES * self.dim..][..self.dim];
                let places = tiles[at / LANES * self.dim..].iter_mut();
                places.zip(from).for_each(|(place, it)| place.0[at % LANES] = it.0[row % LANES]);
            }
            out.labels.extend(rows.iter().map(|&row| self.labels[row]));
            out.persons = self.persons_of(rows);
            return out;
        }
        for &row in rows {
            out.push_entries(self.entries(row), self.labels[row]);
        }
        out.persons = self.persons_of(rows);
        out
    }

    fn persons_of(&self, rows: &[usize]) -> Vec<u32> {
        if self.persons.is_empty() {
            return Vec::new();
        }
        rows.iter().map(|&row| self.persons[row]).collect()
    }

    /// Whom each record is about, as numbers; empty where every record is somebody else's, or that
    /// is not known.
    #[must_use]
    pub fn persons(&self) -> &[u32] {
        &self.persons
    }

    /// Says whom each record is about: all or nobody. Rows that are added afterwards are nobody's,
    /// and then nobody is known.
    ///
    /// # Panics
    /// Unless there is a number for every record, or none at all.
    #[must_use]
    pub fn about(mut self, persons: &[u32]) -> Self {
        assert!(persons.is_empty() || persons.len() == self.len(), "a person for every record");
        self.persons = persons.to_vec();
        self
    }

    /// No rows yet, kept as these are, and grouped as they are where they are codes.
    pub(super) fn emptied(&self) -> Self {
        let features = match &self.features {
            Features::Tiles(_) => Features::Tiles(Vec::new()),
            Features::Sparse(_) => Features::Sparse(Nonzeros::new()),
            Features::Coded(codes) => Features::Coded(codes.emptied()),
            Features::Part(of, _) => return of.emptied(),
        };
        Self { dim: self.dim, features, labels: Vec::new(), persons: Vec::new() }
    }

    /// Appends rows that are kept as these are. All tiles so far must be full.
    pub(super) fn append(&mut self, other: &Self) {
        assert!(self.len().is_multiple_of(LANES), "whole tiles");
        match (&mut self.features, &other.features) {
            (Features::Tiles(tiles), Features::Tiles(other)) => tiles.extend_from_slice(other),
            (Features::Sparse(rows), Features::Sparse(other)) => rows.append(other),
            (Features::Coded(codes), Features::Coded(other)) => codes.append(other),
            _ => unreachable!("rows that are kept in one way"),
        }
        self.labels.extend_from_slice(&other.labels);
        self.persons.clear();
    }

    /// An empty block with room for so many rows that are kept as these are.
    #[doc(hidden)]
    pub fn like(&self, rows: usize) -> Self {
        match &self.features {
            Features::Tiles(_) => Self::with_capacity(self.dim, rows),
            Features::Sparse(_) => Self::sparse(self.dim),
            Features::Coded(codes) => Self::coded(Arc::clone(&codes.shape), rows),
            Features::Part(of, _) => of.like(rows),
        }
    }

    /// Bytes that [`Self::write_row`] makes of a row, where they are as many for all rows.
    #[doc(hidden)]
    pub fn row_bytes(&self) -> Option<usize> {
        match &self.features {
            Features::Tiles(_) => Some(8 * (self.dim + 1)),
            Features::Sparse(_) => None,
            Features::Coded(codes) => Some(codes.row_bytes() + 8),
            Features::Part(of, _) => of.row_bytes(),
        }
    }

    /// Appends a row, as it is kept, to `bytes`: numbers, codes, and its label.
    #[doc(hidden)]
    pub fn write_row(&self, row: usize, bytes: &mut Vec<u8>) {
        match &self.features {
            Features::Tiles(_) => {
                self.entries(row).for_each(|(_, value)| bytes.extend(value.to_le_bytes()));
            }
            Features::Sparse(nonzeros) => {
                let (columns, values) = nonzeros.row(row);
                bytes.extend((columns.len() as u32).to_le_bytes());
                columns.iter().for_each(|column| bytes.extend(column.to_le_bytes()));
                values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
            }
            Features::Coded(codes) => codes.write_row(row, bytes),
            Features::Part(of, first) => return of.write_row(first + row, bytes),
        }
        bytes.extend(self.labels[row].to_le_bytes());
    }

    /// Adds the row that `bytes` begin with, and gives how many of them it has; `None` if they are
    /// not what [`Self::write_row`] writes.
    #[doc(hidden)]
    pub fn read_row(&mut self, bytes: &[u8]) -> Option<usize> {
        let number = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let label = |end: usize| bytes.get(end..end + 8).map(number);
        let (end, dim) = match &mut self.features {
            Features::Tiles(_) => (8 * self.dim, self.dim),
            Features::Coded(codes) => {
                let end = codes.row_bytes();
                let label = label(end)?;
                codes.read_row(&bytes[..end])?;
                self.labels.push(label);
                return Some(end + 8);
            }
            Features::Sparse(_) => {
                let count = bytes.get(..4)?.try_into().map(u32::from_le_bytes).ok()? as usize;
                (4 + 12 * count, count)
            }
            Features::Part(..) => return None,
        };
        let label = label(end)?;
        let values = |from: usize| bytes[from..end].chunks_exact(8).map(number);
        if self.row_bytes().is_some() {
            self.push_entries((0..).zip(values(0)), label);
        } else {
            let column = |b: &[u8]| u32::from_le_bytes(b.try_into().unwrap_or_default());
            let columns = || bytes[4..4 + 4 * dim].chunks_exact(4).map(column);
            if columns().any(|column| column as usize >= self.dim) {
                return None;
            }
            self.push_entries(columns().zip(values(4 + 4 * dim)), label);
        }
        Some(end + 8)
    }

    /// All rows of blocks of one width, one after the other.
    #[must_use]
    #[doc(hidden)]
    pub fn joined(blocks: &[&Self]) -> Self {
        let Some(first) = blocks.first() else { return Self::with_capacity(0, 0) };
        let mut out = first.like(blocks.iter().map(|block| block.len()).sum());
        blocks.iter().for_each(|block| out.extend(block));
        out
    }

    /// All rows of blocks that are made one after the other, `rows` in all: a block is gone before
    /// the next one is made, where rows are kept as they are.
    #[must_use]
    #[doc(hidden)]
    pub fn gathered(rows: usize, mut blocks: impl Iterator<Item = Self>) -> Self {
        let Some(first) = blocks.next() else { return Self::joined(&[]) };
        let mut out = first.like(rows);
        for block in std::iter::once(first).chain(blocks) {
            out.extend(&block);
        }
        out
    }

    /// Adds all rows of a block of the same width.
    fn extend(&mut self, block: &Self) {
        if let Some(whole) = block.taken_out() {
            return self.extend(&whole);
        }
        if let (Features::Coded(codes), Features::Coded(more)) =
            (&mut self.features, &block.features)
            && codes.extend(more)
        {
            self.labels.extend_from_slice(&block.labels);
            return;
        }
        for row in 0..block.len() {
            self.push_entries(block.entries(row), block.labels[row]);
        }
    }

    /// Some rows, divided by their feature `unit` (which is left out), every other feature times
    /// its factor, and with `last` as one more feature.
    #[must_use]
    #[doc(hidden)]
    pub fn rescaled(&self, rows: &[usize], unit: Option<u32>, factors: &[f64], last: f64) -> Self {
        if let Features::Part(of, first) = &self.features {
            let rows: Vec<usize> = rows.iter().map(|row| first + row).collect();
            return of.rescaled(&rows, unit, factors, last);
        }
        let mut out = match &self.features {
            Features::Coded(codes) if codes.scaled_by() == unit => {
                let labels = rows.iter().map(|&row| self.labels[row]).collect();
                let features = Features::Coded(codes.rescaled(rows, factors, last));
                return Self { dim: self.dim + 1, features, labels, persons: Vec::new() };
            }
            Features::Sparse(_) => Self::sparse(self.dim + 1),
            _ => Self::with_capacity(self.dim + 1, rows.len()),
        };
        for &row in rows {
            let whole = self.unit_of(row, unit);
            let entries = self.entries(row).filter(|e| e.1 != 0.0 && Some(e.0) != unit);
            let entries = entries.map(|(c, v)| (c, v / whole * factors[c as usize]));
            out.push_entries(entries.chain([(self.dim as u32, last)]), self.labels[row]);
        }
        out
    }

    /// What a row has in the feature `unit`; 1 if it has none.
    #[doc(hidden)]
    pub fn unit_of(&self, row: usize, unit: Option<u32>) -> f64 {
        match (&self.features, unit) {
            (_, None) => 1.0,
            (Features::Tiles(tiles), Some(unit)) => {
                tiles[row / LANES * self.dim + unit as usize].0[row % LANES]
            }
            (_, unit) => self.entries(row).find(|e| Some(e.0) == unit).map_or(1.0, |e| e.1),
        }
    }

    /// Keeps the non-zeros alone where most features are zero: kernels then read a fraction of the
    /// memory. Whether it pays off shows in the first rows; one-hot encodings have as many
    /// non-zeros in every row.
    #[must_use]
    pub fn compressed(self) -> Self {
        if matches!(self.features, Features::Coded(_) | Features::Part(..)) {
            return self;
        }
        let sample = self.len().min(32);
        let filled = (0..sample).flat_map(|row| self.entries(row)).filter(|e| e.1 != 0.0).count();
        if matches!(self.features, Features::Sparse(_)) || 4 * filled > sample * self.dim {
            return self;
        }
        let mut out = Self::sparse(self.dim);
        for (row, &label) in self.labels.iter().enumerate() {
            out.push_entries(self.entries(row), label);
        }
        out
    }

    /// The features as kernels read them.
    #[doc(hidden)]
    pub fn layout(&self) -> Layout<'_> {
        match &self.features {
            Features::Tiles(tiles) => Layout::Tiles(tiles),
            Features::Sparse(nonzeros) => Layout::Sparse(nonzeros),
            Features::Coded(codes) => Layout::Coded(codes),
            Features::Part(..) => unreachable!("rows that are standardised have their own memory"),
        }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Features a row.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Numbers kept: all features, the non-zero ones, or numbers and codes.
    #[must_use]
    pub fn stored(&self) -> usize {
        match &self.features {
            Features::Tiles(tiles) => tiles.len() * LANES,
            Features::Sparse(nonzeros) => nonzeros.values.len(),
            Features::Coded(codes) => codes.stored(),
            Features::Part(of, _) => of.stored() / of.len().max(1) * self.len(),
        }
    }

    /// One row's features by column: all of them, or the non-zero ones.
    pub fn entries(&self, index: usize) -> impl Iterator<Item = (u32, f64)> + '_ {
        let (mut tile, mut nonzeros, mut decoded): (&[Lanes8], (&[u32], &[f64]), _) =
            (&[], (&[], &[]), Vec::new());
        let (block, index) = self.place(index);
        match &block.features {
            Features::Tiles(tiles) => tile = &tiles[index / LANES * self.dim..][..self.dim],
            Features::Sparse(rows) => nonzeros = rows.row(index),
            Features::Coded(codes) => decoded = codes.row(index),
            Features::Part(..) => {}
        }
        let dense = (0..).zip(tile.iter().map(move |lanes| lanes.0[index % LANES]));
        let decoded = (0..).zip(decoded).filter(|e| e.1 != 0.0);
        dense.chain(nonzeros.0.iter().copied().zip(nonzeros.1.iter().copied())).chain(decoded)
    }

    /// One row, zeros and all.
    #[must_use]
    pub fn row(&self, index: usize) -> Vec<f64> {
        let mut row = Vec::with_capacity(self.dim);
        self.row_into(index, &mut row);
        row
    }

    /// Writes one row, zeros and all, into room that is kept from one row to the next.
    #[doc(hidden)]
    pub fn row_into(&self, index: usize, row: &mut Vec<f64>) {
        let (block, index) = self.place(index);
        match &block.features {
            Features::Part(..) => {}
            Features::Coded(codes) => codes.row_into(index, row),
            Features::Tiles(tiles) => {
                let tile = &tiles[index / LANES * self.dim..][..self.dim];
                row.clear();
                row.extend(tile.iter().map(|lanes| lanes.0[index % LANES]));
            }
            Features::Sparse(rows) => {
                row.clear();
                row.resize(self.dim, 0.0);
                let (columns, values) = rows.row(index);
                columns.iter().zip(values).for_each(|(&column, &v)| row[column as usize] = v);
            }
        }
    }

    /// The labels.
    #[must_use]
    pub fn labels(&self) -> &[f64] {
        &self.labels
    }
}

/// Public bounds on the norm of every encoded row: what the sensitivity of a gradient is computed
/// from.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RowBounds {
    /// ‖z‖₁ ≤ `l1` for every row the encoding can produce.
    pub(crate) l1: f64,
    /// ‖z‖₂ ≤ `l2`.
    pub(crate) l2: f64,
    /// ‖z‖_∞ ≤ `linf`.
    pub(crate) linf: f64,
    /// Whether the bounds follow from the public schema alone. If not, they were computed from the
    /// records and no privacy claim may rest on them.
    pub(crate) public: bool,
    /// ‖z − z'‖₂ ≤ `apart` for every two rows, where more is known than 2·`l2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) apart: Option<f64>,
}

impl RowBounds {
    /// Bounds that somebody stands for without having looked at the records: whoever declares them
    /// takes on what is claimed from them.
    #[must_use]
    pub const fn declared(l1: f64, l2: f64, linf: f64) -> Self {
        Self { l1, l2, linf, public: true, apart: None }
    }

    /// Bounds of rows √`weight` times as long, rounded up; the same ones for a weight of 1.
    #[doc(hidden)]
    pub fn stretched(&self, weight: f64) -> Self {
        if weight == 1.0 {
            return *self;
        }
        let by = weight.sqrt().next_up();
        let up = |r: f64| (r * by).next_up();
        Self {
            l1: up(self.l1),
            l2: up(self.l2),
            linf: up(self.linf),
            apart: self.apart.map(up),
            ..*self
        }
    }

    /// States that any two rows are at most so far apart in l2.
    #[must_use]
    #[doc(hidden)]
    pub const fn at_most_apart(self, apart: f64) -> Self {
        Self { apart: Some(apart), ..self }
    }

    /// States whether the bounds follow from public knowledge alone.
    #[must_use]
    #[doc(hidden)]
    pub const fn public_if(self, public: bool) -> Self {
        Self { public, ..self }
    }

    /// Returns the largest l2 distance of two rows.
    #[must_use]
    #[doc(hidden)]
    pub fn apart(&self) -> f64 {
        self.apart.unwrap_or(2.0 * self.l2).min(2.0 * self.l2)
    }

    /// Returns the bound on ‖z‖₁.
    #[must_use]
    pub fn l1(&self) -> f64 {
        self.l1
    }

    /// Returns the bound on ‖z‖₂.
    #[must_use]
    pub fn l2(&self) -> f64 {
        self.l2
    }

    /// Returns the bound on ‖z‖_∞.
    #[must_use]
    pub fn linf(&self) -> f64 {
        self.linf
    }

    /// Returns whether the bounds follow from public knowledge alone, so that a claim may rest on
    /// them.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.public
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_block_has_its_rows() {
        let mut dense = Records::with_capacity(3, 40);
        for j in 0..40 {
            dense.push(&[f64::from(j), -0.5, f64::from(j % 7)], f64::from(j % 2));
        }
        let mut shape = CodeLayout::default();
        shape.number();
        shape.category(5, 5, |l| (l, 1.0 + l as f64));
        let mut coded = Records::coded(Arc::new(shape), 40);
        (0..40).for_each(|j| coded.push_coded([0.1 * j as f64].into_iter(), |_| j % 5, j as f64));
        for block in [dense, coded] {
            let persons: Vec<u32> = (0..40).map(|j| j / 2).collect();
            let block = Arc::new(block.about(&persons));
            let part = Records::part(&Arc::new(Records::part(&block, 3, 30)), 2, 20);
            let same = block.select(&(5..25).collect::<Vec<_>>());
            let rows = |records: &Records| -> Vec<Vec<f64>> {
                (0..records.len()).map(|row| records.row(row)).collect()
            };
            assert_eq!((rows(&part), part.labels()), (rows(&same), same.labels()));
            assert_eq!((part.persons(), part.dim()), (same.persons(), same.dim()));
            let entries = |records: &Records| -> Vec<(u32, f64)> {
                (0..records.len())
                    .flat_map(|row| records.entries(row).collect::<Vec<_>>())
                    .collect()
            };
            assert_eq!(entries(&part), entries(&same));
            // What is made of it has memory of its own, kept as its block is.
            assert!(part.select(&[7, 0]) == same.select(&[7, 0]));
            assert!(Records::joined(&[&part, &part]) == Records::joined(&[&same, &same]));
            let factors = vec![2.0; part.dim()];
            let scaled = |records: &Records| records.rescaled(&[4, 1], None, &factors, 1.0);
            assert!(scaled(&part) == scaled(&same));
            let bytes = |records: &Records| {
                let mut bytes = Vec::new();
                (0..records.len()).for_each(|row| records.write_row(row, &mut bytes));
                bytes
            };
            assert_eq!(bytes(&part), bytes(&same));
            let mut longer = part.clone();
            longer.push(&vec![0.25; part.dim()], 9.0);
            assert_eq!((longer.len(), longer.row(0)), (21, part.row(0)));
        }
    }
}
