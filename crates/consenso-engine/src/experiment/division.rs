//! Whose records are whose: how a file divides them among agents, run by run.

use super::source::Source;
use super::spec::{ExperimentSpec, PartitionSpec};
use crate::config_error::ConfigError;
use crate::data::{Dataset, Partition, Shard, StablePartition};
use crate::random::Seed;

pub(super) fn partition(spec: &ExperimentSpec, data: &Dataset) -> Result<Partition, ConfigError> {
    let agents = spec.data.agents;
    match &spec.data.partition {
        Some(PartitionSpec::By(column)) => Ok(Partition::By { column: column.clone() }),
        Some(PartitionSpec::Dirichlet(alpha)) => {
            let agents = agents.ok_or_else(|| ConfigError::at("agents", "agents is missing"))?;
            Ok(Partition::Dirichlet { agents, alpha: *alpha })
        }
        None => match agents {
            Some(agents) => {
                Ok(Partition::Equal { agents, records_per_agent: spec.data.records_per_agent })
            }
            None if data.grouping("file").is_ok() => Ok(Partition::By { column: "file".into() }),
            None => Err(ConfigError::at(
                "agents",
                "agents is missing: say how many agents share the records, or partition = { by = \"column\" }",
            )),
        },
    }
}

pub(super) fn shards(
    spec: &ExperimentSpec,
    data: &Dataset,
    seed: &Seed,
) -> Result<Vec<Shard>, ConfigError> {
    if data.elsewhere.is_some() {
        // Every file is an agent; those of other processes have no rows here.
        let grouping = data.grouping("file").map_err(ConfigError::of)?;
        let shard = |name: &String| Shard { name: name.clone(), rows: Vec::new() };
        let mut shards: Vec<Shard> = grouping.names.iter().map(shard).collect();
        for (row, &file) in grouping.codes.iter().enumerate() {
            shards[file as usize].rows.push(row);
        }
        return Ok(shards);
    }
    let partition = partition(spec, data)?;
    let stable = spec.record_keys().map(|keys| StablePartition::new(partition.clone(), keys, data));
    let shards = match stable {
        Some(Ok(stable)) => stable.divide(data, seed),
        // Public records, or noise from a seed: real noise was refused (`own_records`).
        _ => data.partition(&partition, seed),
    }
    .map_err(ConfigError::of)?;
    if let (Some(agents), Some(PartitionSpec::By(column))) =
        (spec.data.agents, &spec.data.partition)
        && agents != shards.len()
    {
        let message = format!(
            "agents = {agents}, but column \"{column}\" has {} groups; leave agents out",
            shards.len()
        );
        return Err(ConfigError::at("agents", message));
    }
    Ok(shards)
}

/// Records of every agent, by run. They are public: b_i is part of every sensitivity.
pub(super) fn shard_counts(
    spec: &ExperimentSpec,
    source: &dyn Source,
    seed: &Seed,
) -> Result<Vec<Vec<usize>>, ConfigError> {
    (0..spec.runs).map(|run| source.counts(spec, &seed.for_run(u64::from(run)))).collect()
}
