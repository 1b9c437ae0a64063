//! Who ran where, in Chrome's trace event format (the "Trace Event Format" document of the Chromium project), which
//! Perfetto and `chrome://tracing` open.
//!
//! The host is process 1 with a thread per CPU; each VM is a process of its own with a thread per virtual CPU, so the same
//! stretch can be seen from both sides. Time stamps are microseconds, as the format wants, with three decimals.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use model::simulation::{StretchMode, TimeLine};
use units::Nanos;

/// Number of the host's process.
const HOST: u64 = 1;

/// The trace as JSON text, an event a line.
pub fn json(line: &TimeLine) -> String {
    let vms = vms(line);
    let mut out = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    let mut events = names(line, &vms);
    events.extend(line.stretches.iter().flat_map(|stretch| {
        let name = line.vcpus.get(stretch.vcpu as usize).map_or("?", String::as_str);
        let mode = mode(stretch.mode);
        let own = vms.get(vm_of(name)).copied().unwrap_or(0);
        let text = if stretch.mode == StretchMode::User { name.to_owned() } else { format!("{name} {mode}") };
        let cpu = format!("CPU {}", stretch.cpu);
        let times = (stretch.start_ns, stretch.length_ns);
        [
            slice(&text, mode, times, (HOST, stretch.cpu.into())),
            slice(&format!("{cpu} {mode}"), mode, times, (own, stretch.vcpu.into())),
        ]
    }));
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    out.push_str(&lines.join(",\n"));
    let _ = writeln!(out, "\n],\"otherData\":{{\"stretches_left_out\":{}}}}}", line.left_out);
    out
}

const fn mode(mode: StretchMode) -> &'static str {
    match mode {
        StretchMode::User => "user",
        StretchMode::Kernel => "kernel",
        StretchMode::Spin => "spin",
        StretchMode::Switch => "switch",
    }
}

/// `A` of `A.0`.
fn vm_of(vcpu: &str) -> &str {
    vcpu.rsplit_once('.').map_or(vcpu, |(vm, _)| vm)
}

/// Process numbers of the VMs, in the order in which their virtual CPUs are listed.
fn vms(line: &TimeLine) -> BTreeMap<&str, u64> {
    let mut vms = BTreeMap::new();
    for vcpu in &line.vcpus {
        let next = HOST + 1 + vms.len() as u64;
        vms.entry(vm_of(vcpu)).or_insert(next);
    }
    vms
}

/// What processes and threads are called.
fn names(line: &TimeLine, vms: &BTreeMap<&str, u64>) -> Vec<Value> {
    let process = |pid: u64, name: &str| json!({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}});
    let thread = |(pid, tid): (u64, u64), name: &str| json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}});
    let mut events = vec![process(HOST, "host")];
    events.extend((0..line.cpus).map(|cpu| thread((HOST, cpu.into()), &format!("CPU {cpu}"))));
    events.extend(vms.iter().map(|(name, pid)| process(*pid, &format!("VM {name}"))));
    events.extend(
        (0u64..)
            .zip(&line.vcpus)
            .map(|(number, name)| thread((vms.get(vm_of(name)).copied().unwrap_or(0), number), name)),
    );
    events
}

/// A stretch of time of a thread.
fn slice(name: &str, category: &str, (start, length): (Nanos, Nanos), (pid, tid): (u64, u64)) -> Value {
    let micros = |nanos: Nanos| nanos.as_f64() / 1000.0;
    json!({"ph": "X", "name": name, "cat": category, "ts": micros(start), "dur": micros(length), "pid": pid, "tid": tid})
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::simulation::TimeStretch;

    #[test]
    fn every_stretch_stands_at_its_cpu_and_at_its_vm_in_microseconds() {
        let stretch = |vcpu, start, mode| TimeStretch {
            cpu: 1,
            vcpu,
            start_ns: Nanos::from_nanos(start),
            length_ns: Nanos::from_nanos(1500),
            mode,
        };
        let line = TimeLine {
            cpus: 2,
            vcpus: vec!["b.0".to_owned(), "b.1".to_owned(), "a.0".to_owned()],
            stretches: vec![stretch(2, 0, StretchMode::User), stretch(1, 1500, StretchMode::Spin)],
            left_out: 3,
        };
        let trace: Value = serde_json::from_str(&json(&line)).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let slices: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
        assert_eq!(slices.len(), 4);
        assert_eq!(
            (&slices[0]["name"], &slices[0]["pid"], &slices[0]["tid"]),
            (&json!("a.0"), &json!(1), &json!(1))
        );
        assert_eq!(
            (&slices[1]["name"], &slices[1]["pid"], &slices[1]["tid"]),
            (&json!("CPU 1 user"), &json!(3), &json!(2))
        );
        assert_eq!(
            (&slices[2]["name"], &slices[2]["ts"], &slices[2]["dur"]),
            (&json!("b.1 spin"), &json!(1.5), &json!(1.5))
        );
        let named = |pid: u64| {
            events.iter().find(|e| e["name"] == "process_name" && e["pid"] == pid).unwrap()["args"]["name"]
                .clone()
        };
        assert_eq!([named(1), named(2), named(3)], [json!("host"), json!("VM b"), json!("VM a")]);
        assert_eq!(trace["otherData"]["stretches_left_out"], 3);
    }
}
