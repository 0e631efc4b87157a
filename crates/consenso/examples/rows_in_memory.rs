//! Rows in memory: four sites fit a ridge regression under (ε = 2, δ = 1e-6) on a ring.
#![expect(clippy::print_stdout, reason = "an example prints")]
use consenso::{Bounds, Graph, Loss, Rows, Study, protocol::Dgd};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Rent by floor space and age of a house; ranges are what everybody knows, not what the records
    // happen to hold.
    let bounds = Bounds::named([("space", 20.0, 200.0), ("age", 0.0, 150.0)]).labels(0.0, 4.0);
    let site = |first: usize| {
        let rows: Vec<[f64; 2]> = (first..first + 2000)
            .map(|i| [(20 + i * 37 % 181) as f64, (i * 11 % 151) as f64])
            .collect();
        let rents: Vec<f64> = rows.iter().map(|r| 0.015 * r[0] - 0.004 * r[1] + 0.5).collect();
        Rows::clip(&rows, &rents, &bounds)
    };
    let sites = [site(0)?, site(17)?, site(400)?, site(999)?];
    // A squared loss has an unbounded gradient: a record's residual counts up to 1.
    let fitted = Study::new(&sites, Loss::Ridge { clip: 1.0 })
        .graph(Graph::ring(sites.len()))
        .budget(2.0, 1e-6)
        .algorithm(Dgd::default())
        .run()?;
    println!("{}", fitted.claim().ok_or("no claim")?);
    for (site, model) in fitted.models().iter().enumerate() {
        println!("site {}: {model:.3?}", site + 1);
    }
    println!("a new house of 80 rents at {:.2}", fitted.predict(&[[80.0, 5.0]])?[0]);
    Ok(())
}
