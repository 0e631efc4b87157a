//! Times the accountants; one JSON line a task. `benches/accounting.py` times dp-accounting on the
//! same tasks.
//!
//! `cargo run --release -p consenso-engine --example bench_accounting`
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark prints and reads the clock"
)]

use consenso_engine::privacy::calibrate::{NoiseKind, Request, calibrate, complete_sensitivity};
use consenso_engine::privacy::{Event, Profile, compose, pld};
use std::hint::black_box;
use std::time::Instant;

/// Median seconds of `task` over at least nine runs, and its value.
fn time(name: &str, task: impl Fn() -> f64) {
    let value = task();
    let mut seconds: Vec<f64> = (0..9)
        .map(|_| {
            let start = Instant::now();
            black_box(task());
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    println!("{}", serde_json::json!({"task": name, "value": value, "seconds": seconds[4]}));
}

fn pld(events: &[Event]) -> f64 {
    let profile = Profile::new(events).expect("valid events");
    pld::epsilon(&profile, 1e-6).expect("valid δ").value().expect("PLD is valid")
}

fn main() {
    let homogeneous = [Event::laplace(0.01, 1400)];
    let distinct: Vec<Event> =
        (0..1400).map(|k| Event::laplace(0.002 * 1.02f64.powf(k as f64 / 14.0), 1)).collect();
    let linear: Vec<Event> =
        (0..1400).map(|k| Event::laplace(0.005 + 0.00001 * k as f64, 1)).collect();
    time("pld-laplace-1400", || pld(&homogeneous));
    time("pld-laplace-1400-distinct", || pld(&distinct));
    time("pld-laplace-1400-linear", || pld(&linear));
    time("compose-all-laplace-1400", || {
        compose(&homogeneous, 1e-6).expect("valid").best().expect("valid").1
    });
    let sensitivity = complete_sensitivity(Some(0.01), Some(0.01), Some(0.01), 1).expect("valid");
    for (name, noise) in [
        ("calibrate-gaussian-1400", NoiseKind::Gaussian),
        ("calibrate-laplace-1400", NoiseKind::Laplace),
    ] {
        let mut request = Request::new(1.0, 1e-6, 1400, 1, sensitivity);
        request.noise = Some(noise);
        time(name, || calibrate(&request).expect("valid").multiplier);
    }
}
