//! The private rows of one agent, as the kernels want them.

use std::fmt;

/// Lanes of the kernels: rows are padded with zeros to a multiple of this.
pub const LANES: usize = 8;

/// Encoded rows and labels, one contiguous row-major block.
///
/// A row has `dim` features and is padded with zeros to a multiple of [`LANES`], so that kernels never see a remainder.
/// Labels are ±1 for two classes, 0…C−1 for more, a real number for regression.
///
/// `Debug` prints the shape, never a value: records are private.
#[derive(Clone, PartialEq)]
pub struct Records {
    dim: usize,
    stride: usize,
    features: Vec<f64>,
    labels: Vec<f64>,
    nonzeros: Option<Nonzeros>,
}

/// The non-zero features of all rows, row by row.
#[derive(Clone, PartialEq)]
pub(crate) struct Nonzeros {
    /// Where each row starts, and one more.
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Nonzeros {
    /// Columns and values of one row.
    pub(crate) fn row(&self, index: usize) -> (&[u32], &[f64]) {
        let range = self.starts[index]..self.starts[index + 1];
        (&self.columns[range.clone()], &self.values[range])
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Records(rows={}, dim={})", self.len(), self.dim)
    }
}

impl Records {
    /// An empty block with room for `rows` rows of `dim` features.
    #[must_use]
    pub fn with_capacity(dim: usize, rows: usize) -> Self {
        let stride = dim.next_multiple_of(LANES);
        Self {
            dim,
            stride,
            features: Vec::with_capacity(rows * stride),
            labels: Vec::with_capacity(rows),
            nonzeros: None,
        }
    }

    /// Adds one row. Panics if `row` is not `dim` long: encoders own that invariant.
    pub fn push(&mut self, row: &[f64], label: f64) {
        self.nonzeros = None;
        assert_eq!(row.len(), self.dim, "a row of {} features in a block of {}", row.len(), self.dim);
        self.features.extend_from_slice(row);
        self.features.resize(self.features.len() + self.stride - self.dim, 0.0);
        self.labels.push(label);
    }

    /// Adds one row written in place: `fill` gets `dim` zeros and returns the label.
    pub fn push_with(&mut self, fill: impl FnOnce(&mut [f64]) -> f64) {
        self.nonzeros = None;
        let start = self.features.len();
        self.features.resize(start + self.stride, 0.0);
        let label = fill(&mut self.features[start..start + self.dim]);
        self.labels.push(label);
    }

    /// The rows with the given indices, in that order.
    #[must_use]
    pub fn select(&self, rows: &[usize]) -> Self {
        let mut out = Self::with_capacity(self.dim, rows.len());
        for &row in rows {
            out.features.extend_from_slice(&self.features[row * self.stride..(row + 1) * self.stride]);
            out.labels.push(self.labels[row]);
        }
        out
    }

    /// The same records with an index of their non-zero features, where most features are zero: kernels then read a fraction of the
    /// memory. Whether it pays off shows in the first rows; one-hot encodings have as many non-zeros in every row.
    #[must_use]
    pub fn indexed(mut self) -> Self {
        let sample = self.len().min(32);
        let filled = (0..sample).flat_map(|row| self.row(row)).filter(|x| **x != 0.0).count();
        if 4 * filled > sample * self.dim {
            return self;
        }
        let mut index = Nonzeros { starts: vec![0], columns: Vec::new(), values: Vec::new() };
        for row in 0..self.len() {
            for (column, &value) in self.row(row).iter().enumerate().filter(|(_, x)| **x != 0.0) {
                index.columns.push(column as u32);
                index.values.push(value);
            }
            index.starts.push(index.columns.len());
        }
        self.nonzeros = Some(index);
        self
    }

    /// The index of non-zero features, if there is one.
    pub(crate) fn nonzeros(&self) -> Option<&Nonzeros> {
        self.nonzeros.as_ref()
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

    /// Features a row, without padding.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Features a row, with padding.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// All features, row-major, padded rows of [`Self::stride`].
    #[must_use]
    pub fn padded(&self) -> &[f64] {
        &self.features
    }

    /// One row, without padding.
    #[must_use]
    pub fn row(&self, index: usize) -> &[f64] {
        &self.features[index * self.stride..index * self.stride + self.dim]
    }

    /// The labels.
    #[must_use]
    pub fn labels(&self) -> &[f64] {
        &self.labels
    }
}

/// Public bounds on the norm of every encoded row: what the sensitivity of a gradient is computed from.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RowBounds {
    /// ‖z‖₁ ≤ `l1` for every row the encoding can produce.
    pub l1: f64,
    /// ‖z‖₂ ≤ `l2`.
    pub l2: f64,
    /// ‖z‖_∞ ≤ `linf`.
    pub linf: f64,
    /// Whether the bounds follow from the public schema alone. If not, they were computed from the records and no privacy
    /// claim may rest on them.
    pub public: bool,
}
