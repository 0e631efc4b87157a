//! From a budget to noise.
