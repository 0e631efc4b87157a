//! Accounting alone: what releases cost together, and how much noise a budget needs.
#![expect(clippy::print_stdout, reason = "an example prints")]
use consenso::privacy::{Event, Request, calibrate, complete_sensitivity, compose, printed_up};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // 1,400 releases with Laplace noise of a hundred times the l1 sensitivity, and 1,000 with
    // Gaussian noise.
    let events = [Event::laplace(0.01, 1400), Event::gaussian(0.02, 1000)];
    let found = compose(&events, 1e-6)?;
    for (method, bound) in found.bounds() {
        match bound.value() {
            Some(epsilon) => println!("{:9} ε = {}", method.name(), printed_up(epsilon, 4)),
            None => println!("{:9} does not apply", method.name()),
        }
    }
    // The least noise for 200 releases of 106 numbers, one record moving each by at most 6.7e-4 in
    // l2.
    let step = complete_sensitivity(None, Some(6.7e-4), None, 106)?;
    let plan = calibrate(&Request::new(1.0, 1e-6, 200, 106, step))?;
    println!(
        "{:?} noise of scale {:.5} spends ε = {}",
        plan.mechanism, plan.multiplier, plan.spent.epsilon
    );
    Ok(())
}
