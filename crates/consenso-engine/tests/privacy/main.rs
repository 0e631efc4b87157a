//! What a claim rests on: exact noise, noise that is shared, attacks and the auditor.

mod attack;
mod audit;
mod distributed_noise;
mod exact_noise;
mod masked;
mod masked_words;
