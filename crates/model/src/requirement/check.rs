//! Everything that can be wrong with requirements whatever the set turns out to do.

use std::collections::{BTreeMap, BTreeSet};

use super::failure::USUAL_CONCURRENCY;
use super::metric::probe_of;
use super::{
    ClientKind, Comparator, InjectedFailure, LONGEST_ID, LONGEST_TEXT, MOST_WORDS, ON_HOST, OneOrMore,
    OutageMetric, RequiredMetric, Requirement, Requirements, Subject, limit,
};
use crate::partition::set::{Fault, Faults};
use probes::ProbeKind;
use probes::params::ProbeSpec;
use units::metric::Unit;
use units::names::hint;
use units::{Nanos, Reason};

const KEY: &str = super::KEY;
/// Addresses that a client asks at most.
const MOST_ADDRESSES: usize = 16;
/// Clients that ask at once at most.
const MOST_CLIENTS: u32 = 512;
/// Parts that are made to fail at once at most.
const MOST_PARTS: usize = 64;

/// All of it. `partitions` are the file's own, if it has any.
pub(super) fn check(all: &Requirements, partitions: Option<&BTreeSet<String>>, faults: &mut Faults) {
    let parents: BTreeSet<&str> = all.values().filter_map(|one| one.parent.as_deref()).collect();
    for (id, requirement) in all {
        let mut one = One { id, requirement, partitions, faults };
        one.names();
        one.parent(all);
        one.metric(parents.contains(id.as_str()));
        one.bounds();
        one.client();
        one.failing_parts();
    }
    circles(all, faults);
}

/// Who is, over some parents, a part of itself.
fn circles(all: &Requirements, faults: &mut Faults) {
    let mut known: BTreeMap<&str, bool> = BTreeMap::new();
    for id in all.keys() {
        let (mut path, mut at) = (Vec::new(), id.as_str());
        let is_circle = loop {
            if let Some(known) = known.get(at) {
                break *known && path.is_empty();
            }
            if path.contains(&at) {
                let way = path.iter().skip_while(|one| **one != at).copied().chain([at]).collect::<Vec<_>>();
                let problem = format!("it is a part of itself: {}", way.join(" → "));
                faults.add(&[KEY, at, "parent"], problem);
                break true;
            }
            path.push(at);
            match all.get(at).and_then(|one| one.parent.as_deref()).filter(|parent| all.contains_key(*parent))
            {
                Some(parent) => at = parent,
                None => break false,
            }
        };
        known.extend(path.into_iter().map(|one| (one, is_circle)));
    }
}

/// What a probe with these parameters is; unset ones are as usual.
///
/// # Errors
/// A key is unknown, of the wrong type, or out of its bounds.
pub(super) fn probe_with(
    kind: ProbeKind,
    params: Option<&serde_json::Map<String, serde_json::Value>>,
) -> Result<ProbeSpec, Reason> {
    let usual = ProbeSpec::default_of(kind);
    let Some(params) = params else { return Ok(usual) };
    let mut whole = serde_json::to_value(&usual).map_err(|error| error.to_string())?;
    if let Some(known) = whole.get_mut("params").and_then(serde_json::Value::as_object_mut) {
        for (key, value) in params {
            if !known.contains_key(key) {
                let all: Vec<&str> = known.keys().map(String::as_str).collect();
                return Err(
                    format!("unknown parameter \"{key}\" of {kind}; known are {}", all.join(", ")).into()
                );
            }
            known.insert(key.clone(), value.clone());
        }
    } else if !params.is_empty() {
        return Err(format!("{kind} has no parameters").into());
    }
    let spec: ProbeSpec = serde_json::from_value(whole).map_err(|error| error.to_string())?;
    spec.check().map_err(|error| error.to_string())?;
    Ok(spec)
}

struct One<'a> {
    id: &'a str,
    requirement: &'a Requirement,
    partitions: Option<&'a BTreeSet<String>>,
    faults: &'a mut Faults,
}

impl One<'_> {
    fn add(&mut self, key: &str, problem: impl Into<String>) {
        self.faults.note(Err(Fault::new(&[KEY, self.id, key], problem)));
    }

    fn names(&mut self) {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
        // Importers take an id for a path.
        let leads_on = self.id.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !leads_on || self.id.len() > LONGEST_ID || !self.id.bytes().all(plain) {
            let problem = format!(
                "an id has 1 to {LONGEST_ID} letters, digits, -, _, . or /, and nothing empty, . or .. between two /"
            );
            self.faults.note(Err(Fault::new(&[KEY, self.id], problem)));
        }
        let text = &self.requirement.text;
        if text.trim().is_empty() || text.len() > LONGEST_TEXT {
            self.add("text", format!("wanted a sentence of at most {LONGEST_TEXT} bytes"));
        }
        let subjects = [
            self.requirement.partition.is_some(),
            self.requirement.pair.is_some(),
            self.requirement.network.is_some(),
            self.requirement.host,
        ];
        if subjects.iter().filter(|there| **there).count() > 1 {
            self.add("partition", "it can be about one of partition, pair, network, host");
        }
        for name in
            self.requirement.partition.clone().iter().chain(self.requirement.pair.clone().iter().flatten())
        {
            let key = if self.requirement.partition.is_some() { "partition" } else { "pair" };
            self.known(key, name);
        }
        if let Some([one, other]) = &self.requirement.pair
            && one == other
        {
            self.add("pair", format!("\"{one}\" and itself are no pair"));
        }
    }

    /// A partition that the file does not have. Replicas of a plan are called `NAME-1`, `NAME-2`.
    fn known(&mut self, key: &str, name: &str) {
        let Some(partitions) = self.partitions else { return };
        let base =
            name.rsplit_once('-').filter(|(_, number)| number.parse::<u32>().is_ok()).map(|(base, _)| base);
        if partitions.contains(name) || base.is_some_and(|base| partitions.contains(base)) {
            return;
        }
        let all: Vec<&str> = partitions.iter().map(String::as_str).collect();
        self.add(key, format!("there is no partition \"{name}\"{}", hint(name, &all)));
    }

    fn parent(&mut self, all: &Requirements) {
        let Some(parent) = &self.requirement.parent else { return };
        if !all.contains_key(parent) {
            let known: Vec<&str> = all.keys().map(String::as_str).collect();
            self.add("parent", format!("there is no requirement \"{parent}\"{}", hint(parent, &known)));
        }
    }

    fn metric(&mut self, has_parts: bool) {
        let limits = [
            ("at_most", &self.requirement.at_most),
            ("at_least", &self.requirement.at_least),
            ("exactly", &self.requirement.exactly),
        ];
        let there: Vec<_> = limits.iter().filter(|(_, limit)| limit.is_some()).collect();
        let Some(metric) = self.requirement.metric.clone() else {
            if let Some((key, _)) = there.first() {
                self.add(key, "a limit needs a metric that it is about");
            } else if !has_parts && self.requirement.not_tested.is_none() {
                self.add("text", "it has neither a metric nor parts: write metric, or not_tested = \"why\"");
            }
            return;
        };
        if self.requirement.not_tested.is_some() {
            self.add("not_tested", "what has a metric is tested");
        }
        match there[..] {
            [(key, Some(limit))] => {
                let (key, wanted) = (*key, metric.unit());
                if let Some(unit) = wanted.filter(|unit| *unit != limit.unit) {
                    let problem = format!(
                        "{metric} is {}, \"{limit}\" is {}",
                        limit::unit_words(unit),
                        limit::unit_words(limit.unit)
                    );
                    self.add(key, problem);
                }
                let begins_at_0 = !matches!(metric, RequiredMetric::Command(_));
                if key == "at_least" && limit.value <= 0.0 && begins_at_0 {
                    self.add(key, "nothing is below 0, so this always holds: write a larger limit");
                }
                if key == "exactly" && wanted.unwrap_or(limit.unit) != Unit::Count {
                    self.add(key, "only what is counted can be wanted exactly");
                }
            }
            [] => self.add("metric", "it has no limit: write at_most, at_least or exactly"),
            _ => self.add(
                there.get(1).map_or("at_most", |(key, _)| key),
                "it has two limits; write two requirements",
            ),
        }
        if metric.is_sampled()
            && self.requirement.load.is_none()
            && !matches!(metric, RequiredMetric::Outage(_))
        {
            let problem = "a limit on what is measured needs a load: write load = \"as-is\", or a list such as [\"cpu@host\"]";
            self.add("metric", problem);
        }
        self.subject(&metric);
        self.companions(&metric);
    }

    /// Whether the metric can be about that.
    fn subject(&mut self, metric: &RequiredMetric) {
        let subject = self.requirement.subject();
        let (fits, wanted) = match metric {
            RequiredMetric::Probe(name) if name.probe == ProbeKind::Net => {
                (matches!(subject, Subject::Pair(_)), "pair = [\"ONE\", \"OTHER\"]")
            }
            RequiredMetric::Probe(_) => (
                matches!(subject, Subject::Partition(_) | Subject::Host),
                "partition = \"NAME\" or host = true",
            ),
            RequiredMetric::Placement(_) => {
                (matches!(subject, Subject::Partition(_)), "partition = \"NAME\"")
            }
            RequiredMetric::Pair(_) => (matches!(subject, Subject::Pair(_)), "pair = [\"ONE\", \"OTHER\"]"),
            RequiredMetric::Network(_) => (matches!(subject, Subject::Network(_)), "network = \"NAME\""),
            RequiredMetric::Host(_) => (matches!(subject, Subject::Host), "host = true"),
            RequiredMetric::Response(_)
            | RequiredMetric::Capacity(_)
            | RequiredMetric::Outage(_)
            | RequiredMetric::Command(_) => (true, ""),
        };
        if !fits {
            self.add("metric", format!("{metric} is about {wanted}, this one is about {subject}"));
        }
    }

    /// Keys that go with some metrics only.
    fn companions(&mut self, metric: &RequiredMetric) {
        let requirement = self.requirement;
        let is_command = matches!(metric, RequiredMetric::Command(_));
        let is_outage = matches!(metric, RequiredMetric::Outage(_));
        if is_command == requirement.command.is_empty() {
            self.add("command", "metric = \"command\" and command = [\"PROGRAM\", …] go together");
        }
        if requirement.inside && !(is_command && requirement.partition.is_some()) {
            self.add("inside", "a command runs inside of a partition: write partition = \"NAME\"");
        }
        if is_outage != requirement.failure.is_some() {
            self.add("failure", "a metric of outage and failure = \"PART\" go together");
        }
        let is_capacity = matches!(metric, RequiredMetric::Capacity(_));
        let has_client = is_outage || is_capacity || matches!(metric, RequiredMetric::Response(_));
        if has_client != requirement.client.is_some() {
            let problem = "a metric of response, capacity or outage and client = { kind, at } go together";
            self.add("client", problem);
        }
        let crowd = requirement.client.as_ref().map_or(USUAL_CONCURRENCY, |client| client.concurrency);
        if crowd != USUAL_CONCURRENCY && !is_capacity {
            self.add("client", "only a metric of capacity has a concurrency; others ask every period_ms");
        }
        self.patience(metric);
        self.restoration(metric);
        if let (RequiredMetric::Outage(OutageMetric::Lost | OutageMetric::Doubled), Some(client)) =
            (metric, &requirement.client)
            && client.kind != ClientKind::Echo
        {
            self.add("client", format!("{metric} is known of kind = \"echo\" alone"));
        }
        match probe_of(metric) {
            None if requirement.params.is_some() => self.add("params", "only probes have parameters"),
            None if requirement.paused => {
                self.add("paused", "a program stands still only while a probe measures in its place");
            }
            None if requirement.probe_partition => {
                self.add("probe_partition", "only probes measure in a partition of their own");
            }
            None if requirement.over.is_some() => {
                self.add("over", "only probes between a pair have a network");
            }
            None if requirement.folder.is_some() => self.add("folder", "only the probe disk has a folder"),
            None => {}
            Some(kind) if kind.is_made_together() && kind != ProbeKind::Net => {
                self.add("metric", format!("{kind} is measured among instances with channels, which is not possible here; use metric = \"command\""));
            }
            Some(kind) => {
                if let Err(why) = probe_with(kind, requirement.params.as_ref()) {
                    self.add("params", why.to_string());
                }
                if requirement.over.is_some() && kind != ProbeKind::Net {
                    self.add("over", "only the probe net, between a pair, goes over a network");
                }
                if requirement.paused && requirement.partition.is_none() {
                    self.add("paused", "a program stands still in a partition: write partition = \"NAME\"");
                }
                if requirement.probe_partition {
                    self.probe_partition(kind);
                }
                if requirement.folder.is_some() && kind != ProbeKind::Disk {
                    self.add("folder", "only the probe disk has a folder");
                }
            }
        }
        self.loads(metric);
    }

    fn probe_partition(&mut self, kind: ProbeKind) {
        let key = "probe_partition";
        if self.requirement.partition.is_none() {
            self.add(key, "it has the place of a partition: write partition = \"NAME\"");
        }
        if kind == ProbeKind::Disk {
            self.add(key, "disk measures the partition's own files, of which a probe's partition has none");
        }
    }

    /// What is added beside it.
    fn loads(&mut self, metric: &RequiredMetric) {
        let requirement = self.requirement;
        let loads = requirement.load.as_ref().map_or(&[][..], super::RequiredLoad::declared);
        let may_have_one = metric.is_sampled() || matches!(metric, RequiredMetric::Command(_));
        if requirement.load.is_some() && !may_have_one {
            self.add("load", format!("{metric} is looked at, not measured: no load matters"));
        }
        if loads.is_empty() && matches!(requirement.load, Some(super::RequiredLoad::Declared(_))) {
            self.add("load", "no load is declared: write load = \"as-is\", or a list such as [\"cpu@host\"]");
        }
        if loads.len() > 16 {
            self.add("load", "at most 16 loads");
        }
        if matches!(metric, RequiredMetric::Outage(_))
            && let Some(load) = loads.iter().find(|load| !self.outlasts(load.place.as_deref()))
        {
            let problem = format!(
                "{load} does not outlast the failure: write KIND@host, or KIND@PARTITION of one that goes on"
            );
            self.add("load", problem);
        }
        for place in loads.iter().filter_map(|load| load.place.as_deref()).filter(|place| *place != ON_HOST) {
            self.known("load", place);
        }
    }

    /// Whether a load there goes on while parts fail.
    fn outlasts(&self, place: Option<&str>) -> bool {
        let parts = self.requirement.failure.as_ref().map_or(&[][..], OneOrMore::all);
        let Some(place) = place else { return false };
        let is_hit =
            |part: &InjectedFailure| *part == InjectedFailure::Host || part.partition() == Some(place);
        place == ON_HOST || !parts.iter().any(is_hit)
    }

    /// What we hold comes back when we let go: that says nothing of the set.
    fn restoration(&mut self, metric: &RequiredMetric) {
        let parts = self.requirement.failure.as_ref().map_or(&[][..], OneOrMore::all);
        if *metric == RequiredMetric::Outage(OutageMetric::Restoration)
            && let Some(held) = parts.iter().find(|part| part.is_held())
        {
            let problem =
                format!("{held} stops no part, and lasts until it is taken back: write outage.duration_ns");
            self.add("metric", problem);
        }
    }

    /// An answer that is not waited for as long as it may take is never late.
    fn patience(&mut self, metric: &RequiredMetric) {
        let Some(client) = &self.requirement.client else { return };
        let within = Nanos::from_duration(client.answer_within_ms.to_duration());
        let Some((_, limit)) = self.requirement.limit() else { return };
        // What is shorter than an answer may take is no outage to the client.
        if let RequiredMetric::Outage(of) = metric {
            let is_seen_late = matches!(of, OutageMetric::Duration | OutageMetric::Switchover);
            if is_seen_late && limit.value < within.as_f64() {
                let problem = format!(
                    "an answer is late after {} ms, and the limit is {limit}: shorter outages are not seen, write a shorter answer_within_ms",
                    client.answer_within_ms.get()
                );
                self.add("client", problem);
            }
            return;
        }
        if !matches!(metric, RequiredMetric::Response(_)) {
            return;
        }
        if limit.unit == Unit::Nanoseconds && limit.value >= within.as_f64() {
            let problem = format!(
                "an answer is waited for {} ms only, and the limit is {limit}: write a longer answer_within_ms",
                client.answer_within_ms.get()
            );
            self.add("client", problem);
        }
    }

    /// Numbers and texts, each by itself.
    fn bounds(&mut self) {
        let requirement = self.requirement;
        if !(0.5..=0.9999).contains(&requirement.confidence) {
            self.add("confidence", format!("wanted 0.5 … 0.9999, got {}", requirement.confidence));
        }
        if !(1..=86_400).contains(&requirement.budget_s) {
            self.add("budget_s", format!("wanted 1 … 86400, got {}", requirement.budget_s));
        }
        let too_long =
            requirement.command.iter().any(|word| word.len() > LONGEST_TEXT || word.contains('\0'));
        if requirement.command.first().is_some_and(|program| program.trim().is_empty()) {
            self.add("command", "its first word names a program");
        }
        if requirement.not_tested.as_ref().is_some_and(|why| why.trim().is_empty()) {
            self.add("not_tested", "wanted why it is not");
        }
        if requirement.command.len() > MOST_WORDS || too_long {
            self.add(
                "command",
                format!("at most {MOST_WORDS} words of {LONGEST_TEXT} bytes, without a zero byte"),
            );
        }
        if requirement
            .folder
            .as_ref()
            .is_some_and(|folder| !folder.starts_with('/') || folder.len() > LONGEST_TEXT)
        {
            self.add("folder", "wanted a path from the root");
        }
        if matches!(requirement.limit(), Some((Comparator::Exactly, limit)) if limit.unit == Unit::Count && limit.value.fract() != 0.0)
        {
            self.add("exactly", "what is counted is a whole number");
        }
        if matches!(requirement.limit(), Some((Comparator::AtMost, limit)) if limit.value == 0.0 && limit.unit != Unit::Count && limit.unit != Unit::Bytes && limit.unit != Unit::Share)
        {
            self.add("at_most", "nothing takes no time at all");
        }
    }

    fn client(&mut self) {
        let Some(client) = &self.requirement.client else { return };
        if let Some(at) = client.at.all().iter().find(|at| !at.ip().is_loopback()) {
            self.add("client", format!("{at} is not this host's loopback: ports of the set are"));
        }
        if client.at.all().iter().collect::<BTreeSet<_>>().len() < client.at.all().len() {
            self.add("client", "an address is there twice");
        }
        if client.at.all().len() > MOST_ADDRESSES {
            self.add("client", format!("at most {MOST_ADDRESSES} addresses"));
        }
        if !(1..=10_000).contains(&client.period_ms.get())
            || !(1..=600_000).contains(&client.answer_within_ms.get())
        {
            self.add("client", "period_ms is 1 … 10000, answer_within_ms 1 … 600000");
        }
        if !(1..=MOST_CLIENTS).contains(&client.concurrency) {
            self.add("client", format!("concurrency is 1 … {MOST_CLIENTS}"));
        }
        let is_path = client.path.starts_with('/')
            && client.path.len() <= 1000
            && client.path.bytes().all(|b| b.is_ascii_graphic());
        if !is_path {
            self.add("client", "path begins with / and has at most 1000 letters without blanks");
        }
    }

    fn failing_parts(&mut self) {
        let parts = self.requirement.failure.as_ref().map_or(&[][..], OneOrMore::all);
        if parts.len() > MOST_PARTS {
            self.add("failure", format!("at most {MOST_PARTS} parts at once"));
        }
        if parts.len() > 1 && parts.contains(&InjectedFailure::Host) {
            self.add("failure", "host is all of the set already");
        }
        for (at, part) in parts.iter().enumerate() {
            if parts.get(..at).is_some_and(|before| before.contains(part)) {
                self.add("failure", format!("{part} is there twice"));
            }
            if let Some(name) = part.partition() {
                self.known("failure", name);
            }
        }
    }
}

impl Requirement {
    /// The probe that it wants, with its parameters; none where the metric is another.
    pub fn probe(&self) -> Option<ProbeSpec> {
        let kind = self.metric.as_ref().and_then(probe_of)?;
        probe_with(kind, self.params.as_ref()).ok()
    }
}
