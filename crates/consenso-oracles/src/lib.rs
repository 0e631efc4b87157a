//! Tests of `consenso` against other libraries; see `tests/`.
