//! Files: records, schemas, sweeps and reports.

#[path = "../support/html.rs"]
mod html;
#[path = "../support/made_up.rs"]
mod made_up;

mod combinations;
mod conditions;
mod data_adult;
mod data_load;
mod data_partition;
mod goldens;
mod report;
mod streamed;
mod sweep;
