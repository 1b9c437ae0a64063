//! `fio --output-format=json`: throughput, operations and CPU time of each job's direction.

use serde_json::Value;

/// One direction of one job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    /// Throughput.
    pub bytes_per_s: f64,
    /// Operations per second.
    pub operations_per_s: f64,
    /// CPU time of the job, user and kernel, per operation.
    pub cpu_ns_per_operation: f64,
}

/// Reads the jobs in order; each has done one direction.
pub fn parse(text: &str) -> Result<Vec<Phase>, String> {
    // Warnings may precede the JSON.
    let json = text.find('{').and_then(|at| text.get(at..)).ok_or("fio printed no JSON")?;
    let root: Value = serde_json::from_str(json).map_err(|error| format!("fio's JSON: {error}"))?;
    let jobs = root.get("jobs").and_then(Value::as_array).ok_or("fio's JSON has no jobs")?;
    jobs.iter().map(phase).collect()
}

fn phase(job: &Value) -> Result<Phase, String> {
    let number = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_f64).ok_or_else(|| format!("fio's JSON has no {key}"))
    };
    match job.get("error").and_then(Value::as_i64) {
        Some(0) => {}
        Some(error) => return Err(format!("fio's job failed with error {error}")),
        None => return Err("fio's JSON does not say whether it failed".to_owned()),
    }
    let moved = |direction: &&str| {
        job.get(direction).is_some_and(|part| number(part, "total_ios").unwrap_or(0.0) > 0.0)
    };
    let direction = ["read", "write"].into_iter().find(moved).ok_or("fio's job did nothing")?;
    let part = job.get(direction).ok_or("fio's job did nothing")?;
    let bytes = number(part, "io_bytes")?;
    let seconds = number(part, "runtime")? / 1000.0;
    if seconds <= 0.0 {
        return Err("fio's job took less than a millisecond".to_owned());
    }
    let cpu_share = (number(job, "usr_cpu")? + number(job, "sys_cpu")?) / 100.0;
    let operations = number(part, "total_ios")?;
    Ok(Phase {
        bytes_per_s: bytes / seconds,
        operations_per_s: operations / seconds,
        cpu_ns_per_operation: cpu_share * number(job, "job_runtime")? * 1e6 / operations,
    })
}
