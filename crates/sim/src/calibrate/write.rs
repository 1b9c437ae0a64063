//! A calibrated model as the text of a scenario: the first platform's held-out load as it stands, every load of every platform
//! as a case that sets what is other there, assumptions with their intervals, and the held-out loads as published figures.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use analysis::policy::{Others, words};
use model::policy::SharingPolicy;
use model::results::{RunResults, made_up};
use model::scenario::{CalibratedSpec, Scenario};
use probes::ProbeKind;
use probes::share::metrics::Observation;
use toml::{Table, Value};
use units::three_digits;

use super::Calibrated;
use super::load::{self, LEAST_LIMIT, LEAST_OTHERS};
use super::measured::{Phase, bound_95, load_words};
use super::within::{Within, measured_interval};

/// How often each case is simulated.
const REPLICATIONS: u32 = 4;
/// Simulated time after which a case ends, whatever happens.
const LIMIT_S: u32 = 60;
/// CPUs that others took, as a part of the host's, from which on a run is dirty.
const DIRTY: f64 = 0.05;
/// Factors that are tried on a parameter are within these.
const FACTORS: (f64, f64) = (0.1, 10.0);

/// The whole text.
pub(super) fn scenario(run: &RunResults, all: &[Calibrated<'_>], left_out: Vec<String>, seed: u64) -> String {
    let from = CalibratedSpec {
        run: run.experiment.name.clone(),
        dirty: dirty(run, all),
        not_estimated: not_estimated(run, left_out),
    };
    let mut text =
        String::from("# Every parameter below was estimated from a measured run; intervals are of 95 %.\n");
    let quoted = |text: &str| Value::from(text).to_string();
    let _ = writeln!(text, "name = {}", quoted(&format!("calibrated from {}", short(&run.experiment.name))));
    let _ = writeln!(text, "about = {}", quoted(&about(run)));
    // TOML has no integers beyond 2^63.
    let _ = writeln!(text, "seed = {}\nreplications = {REPLICATIONS}", seed & (u64::MAX >> 1));
    let _ = writeln!(text, "limits = {{ simulated_s = {LIMIT_S}, events = 2000000000 }}\n");
    text.push_str(&section("calibrated", &from));
    let has_others = all.iter().any(|one| one.model.shares.others.most_cpus > LEAST_OTHERS);
    let base = all.first().map(|one| table_of(one, &one.held.seen, has_others)).unwrap_or_default();
    text.push_str(&toml::to_string(&base).unwrap_or_default());
    let leaves = leaves(&base);
    for one in all {
        for phase in &one.measured.phases {
            let settings = differing(&leaves, &table_of(one, &phase.seen, has_others));
            let label = case_label(one, &phase.seen);
            let _ =
                writeln!(text, "\n[[case]]\nlabel = {}\nset = {}", quoted(&label), Value::Table(settings));
        }
    }
    for one in all {
        figures(&mut text, one);
        assumptions(&mut text, one);
    }
    text
}

/// A value as a section of its own.
fn section(name: &str, value: &CalibratedSpec) -> String {
    let table = Value::try_from(value).map(|value| Table::from_iter([(name.to_owned(), value)]));
    table
        .ok()
        .and_then(|table| toml::to_string(&table).ok())
        .map(|text| format!("{text}\n"))
        .unwrap_or_default()
}

/// A name that has room in a scenario's.
fn short(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).take(100).collect()
}

fn case_label(one: &Calibrated<'_>, seen: &Observation) -> String {
    format!("{}, {}", one.measured.label, load_words(seen))
}

fn about(run: &RunResults) -> String {
    let about = "Policy, other work, quantum and cost of a switch are taken from all loads of the share probe but one, which is \
                 then predicted.";
    match made_up(&run.platforms).as_slice() {
        [] => about.to_owned(),
        labels => format!(
            "{about} What it was learned from on {} is made up: nothing was measured.",
            labels.join(", ")
        ),
    }
}

/// Why the run is dirty: what was found before it, and what the instances did not get while they wanted all CPUs.
fn dirty(run: &RunResults, all: &[Calibrated<'_>]) -> Vec<String> {
    let others = |one: &Calibrated<'_>| {
        let cpus = f64::from(one.measured.cpus);
        let alone = super::shares::Shares { others: Others::NONE, ..one.model.shares };
        let missing = |phase: &&Phase| {
            let seen = &phase.seen;
            let together =
                |first: f64, other: f64| first + f64::from(seen.instances.saturating_sub(1)) * other;
            let (first, other) = alone.predict(seen, cpus);
            together(first, other) - together(seen.first, seen.other)
        };
        let shared: Vec<f64> = one
            .measured
            .phases
            .iter()
            .filter(|phase| phase.is_shared())
            .map(|phase| missing(&phase))
            .collect();
        let typical = stats::summary::median(&shared)?;
        (typical > DIRTY * cpus).then(|| {
            format!(
                "{}: while it was measured, others on the host took about {} of its {cpus} CPUs",
                one.measured.label,
                three_digits(typical)
            )
        })
    };
    run.dirty.iter().cloned().chain(all.iter().filter_map(others)).collect()
}

/// What was measured, but is in no parameter.
fn not_estimated(run: &RunResults, left_out: Vec<String>) -> Vec<String> {
    let mut probes: BTreeMap<ProbeKind, Vec<&str>> = BTreeMap::new();
    for cell in run.cells.iter().filter(|cell| cell.cell.probe != ProbeKind::Share && cell.detail.is_some()) {
        let platforms = probes.entry(cell.cell.probe).or_default();
        if !platforms.contains(&cell.cell.platform.as_str()) {
            platforms.push(&cell.cell.platform);
        }
    }
    let words = |(probe, platforms): (ProbeKind, Vec<&str>)| {
        let why = if matches!(probe, ProbeKind::Gap | ProbeKind::Fwq) {
            "no parameter of a host; the run can be the noise of nodes: noise = { kind = \"trace\", file = RUN }"
        } else {
            "the model of a host has no parameter for it"
        };
        format!("{probe} on {}: {why}", platforms.join(", "))
    };
    left_out.into_iter().chain(probes.into_iter().map(words)).collect()
}

/// Host and VMs of a load, without what is as it is anyway.
fn table_of(one: &Calibrated<'_>, seen: &Observation, has_others: bool) -> Table {
    let scenario: Scenario = load::scenario(one.measured, &one.model, seen);
    let mut whole = Table::try_from(&scenario).unwrap_or_default();
    whole.retain(|key, _| matches!(key, "host" | "vm"));
    if let Some(Value::Table(host)) = whole.get_mut("host") {
        host.retain(|key, _| matches!(key, "cpus" | "switch_ns" | "staggered" | "policy"));
    }
    let Some(Value::Array(vms)) = whole.get_mut("vm") else { return whole };
    let is_rest = |vm: &Value| vm.get("name").and_then(Value::as_str) == Some("rest");
    if has_others && !vms.iter().any(is_rest) {
        // Another platform of the run has one: here it gets nothing.
        let none = Others { weight: 1.0, most_cpus: 2.0 * LEAST_OTHERS };
        let mut model = one.model.clone();
        model.shares.others = none;
        let mut rest = load::vms(one.measured, &model, seen).pop();
        if let Some(rest) = &mut rest {
            rest.limit_cpus = Some(LEAST_LIMIT);
        }
        vms.extend(rest.and_then(|rest| Value::try_from(rest).ok()));
    }
    for vm in vms.iter_mut().filter_map(Value::as_table_mut) {
        vm.retain(|key, value| match key {
            "pinned" | "dedicated" | "locks" => false,
            "reserved_cpus" => value.as_float().is_some_and(|cpus| cpus > 0.0),
            "count" => value.as_integer() != Some(1),
            _ => true,
        });
    }
    whole
}

/// Keys that a case sets, with their values: the policy and a VM's threads as a whole, everything else one by one.
fn leaves(table: &Table) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for (key, value) in table.get("host").and_then(Value::as_table).into_iter().flatten() {
        found.insert(format!("host.{key}"), value.clone());
    }
    let vms = table.get("vm").and_then(Value::as_array).into_iter().flatten();
    for (name, vm) in vms.filter_map(|vm| Some((vm.get("name")?.as_str()?, vm.as_table()?))) {
        found.extend(vm.iter().map(|(key, value)| (format!("vm.{name}.{key}"), value.clone())));
    }
    found
}

/// What stands otherwise than in the base; what is only there is set to what it is anyway.
fn differing(base: &BTreeMap<String, Value>, table: &Table) -> Table {
    let own = leaves(table);
    let mut settings: Table = own
        .iter()
        .filter(|(path, value)| base.get(*path) != Some(value))
        .map(|(p, v)| (p.clone(), v.clone()))
        .collect();
    for path in base.keys().filter(|path| !own.contains_key(*path)) {
        let usual = match path.rsplit('.').next() {
            Some("count") => Some(Value::Integer(1)),
            Some("reserved_cpus") => Some(Value::Float(0.0)),
            // As many as a host can have: none.
            Some("limit_cpus") => Some(Value::Float(f64::from(model::scenario::MOST_CPUS))),
            _ => None,
        };
        settings.extend(usual.map(|usual| (path.clone(), usual)));
    }
    settings
}

/// The held-out load as published figures.
fn figures(text: &mut String, one: &Calibrated<'_>) {
    let (held, seen) = (one.held, &one.held.seen);
    let other = if seen.instances > 2 { "vm.other-1.cpus" } else { "vm.other.cpus" };
    let label = case_label(one, seen);
    let mut figure = |title: &str, metric: &str, got: f64, own: Option<[f64; 2]>, within: Within| {
        let case = Table::from_iter([("case".to_owned(), Value::from(label.as_str()))]);
        let _ = write!(
            text,
            "\n[[figure]]\ntitle = {}\nmetric = {}\ncase = {}\npublished = {}\n",
            Value::from(title),
            Value::from(metric),
            Value::Table(case),
            Value::Float(got)
        );
        if let Some(own) = own {
            let _ = writeln!(text, "interval = {}", pair(own));
        }
        let _ = writeln!(text, "predicted_within = {}\nlabel = \"predicted\"", pair(within));
        let _ = writeln!(text, "source = \"measured in this run, not given to the model\"");
    };
    let got = |of: fn(&Observation) -> f64| measured_interval(held.rounds.iter().map(of));
    figure(
        "CPUs of the first instance",
        "vm.first.cpus",
        seen.first,
        got(|seen| seen.first),
        one.predicted.first,
    );
    figure("CPUs of another instance", other, seen.other, got(|seen| seen.other), one.predicted.other);
    let bound = bound_95(&held.all, held.tick_ns).zip(one.predicted.bound);
    if let Some((bound, within)) = bound {
        let each = held.each.iter().filter_map(|phase| bound_95(phase, held.tick_ns));
        let own = measured_interval(each);
        figure("bound_95 of the first instance", "vm.first.bound_95_ns", bound, own, within);
    }
}

fn pair([low, high]: [f64; 2]) -> Value {
    Value::Array(vec![Value::Float(readable(low)), Value::Float(readable(high))])
}

/// Six digits: more are none of the measurement's.
fn readable(number: f64) -> f64 {
    format!("{number:.5e}").parse().unwrap_or(number)
}

/// Everything that was estimated.
fn assumptions(text: &mut String, one: &Calibrated<'_>) {
    let (model, known) = (&one.model, &one.parameters);
    policy(text, one);
    let why = |words: &str| format!("{words}; its interval is of rounds and loads drawn anew");
    let candidate = model.shares.candidate;
    let (keys, words): (&[&str], &str) = match candidate.policy {
        SharingPolicy::Weighted => {
            (&["vm.first.weight"], "of what all instances got together, so much went to the first")
        }
        SharingPolicy::Capped => {
            (&["vm.first.limit_cpus", "vm.other.limit_cpus"], "no instance gets more, alone or beside others")
        }
        SharingPolicy::Reserved => (&["vm.first.reserved_cpus"], "the first gets so much before others do"),
        _ => (&[], ""),
    };
    for key in keys {
        assumption(text, one, key, candidate.parameter, known.parameter, &why(words));
    }
    let others = model.shares.others;
    if others.most_cpus > LEAST_OTHERS {
        let times = load::rest_weight(one.measured, model) / others.weight;
        let weight = known.others_weight.map(|ends| ends.map(|end| end * times));
        let words =
            "with it, all instances together get as much as was measured beside the others' work on the host";
        assumption(text, one, "vm.rest.weight", others.weight * times, weight, &why(words));
        if others.most_cpus < f64::from(one.measured.cpus) {
            let words = "the others' work takes no more";
            assumption(text, one, "vm.rest.limit_cpus", others.most_cpus, known.others_cpus, &why(words));
        }
    }
    let words = "with it, simulated stretches away are as long as the measured ones";
    assumption(text, one, "host.policy.quantum_us", model.quantum.as_f64(), known.quantum_us, &why(words));
    if one.measured.is_vm {
        let words = "with it, they are as long where threads share a virtual CPU, too";
        assumption(text, one, "vm.first.turn_us", model.turn.as_f64(), known.turn_us, &why(words));
    }
    let words = "work per CPU time is so much less where threads take turns";
    assumption(text, one, "host.switch_ns", model.switch.as_f64(), known.switch_ns, &why(words));
}

/// The policy, with what fits next best.
fn policy(text: &mut String, one: &Calibrated<'_>) {
    let (shares, known) = (&one.model.shares, &one.parameters);
    let mut why = match &one.model.doubt {
        None => format!(
            "{}: closed forms fit best, off by {} % on average",
            words(shares.candidate.policy),
            three_digits(shares.misfit * 100.0)
        ),
        Some(doubt) => format!("NOT CERTAIN, {}: {doubt}", words(shares.candidate.policy)),
    };
    let other =
        known.other_policy.map(|other| format!(", most others \"{}\"", words(other))).unwrap_or_default();
    let _ = write!(why, "; {:.0} % of rounds and loads drawn anew say so{other}", known.same_policy * 100.0);
    let next = shares.next_best.map(|next| load::policy(next, one.model.quantum));
    let now = load::policy(shares.candidate, one.model.quantum);
    let next = next.filter(|next| *next != now).and_then(|next| Value::try_from(next).ok());
    header(text, one, "host.policy", &why);
    if let Some(next) = next {
        let _ = writeln!(text, "try_values = {}", Value::Array(vec![next]));
    }
}

fn header(text: &mut String, one: &Calibrated<'_>, key: &str, why: &str) {
    let case = Table::from_iter([("case".to_owned(), Value::from(one.measured.label.as_str()))]);
    let _ = write!(
        text,
        "\n[[assumption]]\nkey = {}\ncase = {}\nwhy = {}\n",
        Value::from(key),
        Value::Table(case),
        Value::from(why)
    );
}

/// A parameter with its interval, and with factors that span it.
fn assumption(
    text: &mut String,
    one: &Calibrated<'_>,
    key: &str,
    value: f64,
    ends: Option<[f64; 2]>,
    why: &str,
) {
    let why =
        if ends.is_some() { why.to_owned() } else { format!("{why}: there is none, from too few rounds") };
    header(text, one, key, &why);
    let Some(ends) = ends else { return };
    let _ = writeln!(text, "interval = {}", pair(ends));
    let spans = |end: &f64| *end > 0.0 && value > 0.0 && (end / value - 1.0).abs() > 1e-6;
    let factors = ends.iter().filter(|end| spans(end)).map(|end| (end / value).clamp(FACTORS.0, FACTORS.1));
    let factors: Vec<Value> = factors.map(|factor| Value::Float(readable(factor))).collect();
    if !factors.is_empty() {
        let _ = writeln!(text, "try_factors = {}", Value::Array(factors));
    }
}
