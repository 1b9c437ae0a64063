//! What kernel and supervisors say of a set that runs: places, sharing, memory, sockets, the host's state. Nothing is started and
//! nothing changed.

mod folders;
mod host;
mod sockets;
mod still;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use model::partition::set::{
    PartitionEntry, PartitionSet, PartitionStatus, PartitionUnit, Phase, SetStatus, UnitSpec,
};
use model::partition::{Difference, Given};
use model::requirement::{NetworkProperty, PairProperty, PlacementProperty, Subject};
use model::verification::Observed;
use partition::place;
use partition::set::{folder, status};
use platforms::host::threads_of_core;
use units::Reason;

pub use host::properties as of_host;

/// Values by the metric's name.
type Values = BTreeMap<String, Result<f64, Reason>>;

/// Why some of them are what they are, likewise.
type Whys = BTreeMap<String, String>;

/// A set as it is now, with what its file says.
#[derive(Debug)]
pub struct LookedAt {
    /// How it stands.
    pub status: SetStatus,
    /// Its file, resolved.
    pub set: PartitionSet,
    root: PathBuf,
}

impl LookedAt {
    /// Looks at a set.
    ///
    /// # Errors
    /// It is not up.
    pub fn now(root: &Path, name: &str) -> Result<Self, Reason> {
        let missing = || {
            let up = status::names(root);
            let up = if up.is_empty() { "no set is".to_owned() } else { format!("{} is", up.join(", ")) };
            Reason::from(format!("set \"{name}\" is not up ({up}): bulkhead up starts it"))
        };
        let status = status::status(root, name).ok_or_else(missing)?;
        let record = folder::read_set(&root.join(name)).ok_or_else(missing)?;
        Ok(Self { status, set: record.set, root: root.to_owned() })
    }

    /// All properties of a subject.
    pub fn at(&self, subject: &Subject) -> Observed {
        let mut why = Whys::new();
        let values = match subject {
            Subject::Partition(name) => self.partition(name, &mut why),
            Subject::Pair([one, other]) => self.pair(one, other),
            Subject::Network(name) => self.network(name, &mut why),
            Subject::Host => of_host(&self.root),
            Subject::Set => Values::new(),
        };
        Observed::Looked { values, why }
    }

    /// A partition as its supervisor was told to start it.
    ///
    /// # Errors
    /// There is none of this name, or it cannot be read.
    pub fn unit(&self, name: &str) -> Result<PartitionUnit, Reason> {
        unit(&self.named(name)?.0.folder)
    }

    /// The same of one that runs: beside one that does not, a probe would see less than it has to bear.
    ///
    /// # Errors
    /// It does not run, there is none of this name, or it cannot be read.
    pub fn running(&self, name: &str) -> Result<PartitionUnit, Reason> {
        match self.named(name)?.0.phase {
            Phase::Running => self.unit(name),
            phase => Err(format!(
                "{}/{name} is {}: a partition is measured for it beside it while it runs (bulkhead start {0}/{name})",
                self.status.set,
                phase.word()
            )
            .into()),
        }
    }

    fn named(&self, name: &str) -> Result<(&PartitionStatus, &PartitionEntry), Reason> {
        let status = self.status.partitions.iter().find(|one| one.name == name);
        let both = status.zip(self.set.partitions.get(name));
        both.ok_or_else(|| format!("set \"{}\" has no partition \"{name}\"", self.status.set).into())
    }

    fn partition(&self, name: &str, whys: &mut Whys) -> Values {
        let found = self.named(name);
        let mut value = |property: &PlacementProperty| {
            let mut why = Vec::new();
            let (status, entry) = found.clone()?;
            let value = self.placement(*property, status, entry, &mut why);
            explain(whys, property.as_str(), &why);
            value
        };
        PlacementProperty::ALL.iter().map(|one| (one.as_str().to_owned(), value(one))).collect()
    }

    fn placement(
        &self,
        property: PlacementProperty,
        status: &PartitionStatus,
        entry: &PartitionEntry,
        why: &mut Vec<String>,
    ) -> Result<f64, Reason> {
        Ok(match property {
            PlacementProperty::Running => {
                why.extend(still::of_partition(status));
                let goes_on = status.phase == Phase::Running && status.pid.is_some() && why.is_empty();
                f64::from(u8::from(goes_on))
            }
            PlacementProperty::Restarts => f64::from(status.restarts),
            PlacementProperty::Differences => {
                let found = differences(status)?;
                let words = |one: &Difference| format!("{}: {}, now {}", one.what, one.asked, one.given);
                why.extend(found.iter().map(words));
                count(found.len())
            }
            PlacementProperty::SharedCpus => {
                let own = cpus(&given(status)?);
                count(
                    self.others(status)
                        .iter()
                        .filter(|other| other.intersection(&own).next().is_some())
                        .count(),
                )
            }
            PlacementProperty::Cpus => count(cpus(&given(status)?).len()),
            PlacementProperty::MemoryElsewhere => {
                let node = entry.node.ok_or("its file names no memory node")?;
                let present = given(status)?.memory.present_bytes;
                let elsewhere = present.iter().filter(|(number, _)| *number != node);
                elsewhere.map(|(_, bytes)| bytes.get()).fold(0, u64::saturating_add) as f64
            }
            PlacementProperty::CpuWeight => {
                f64::from(given(status)?.cpu_weight.ok_or("no CPU group holds it")?)
            }
            PlacementProperty::UnlistedSockets => count(sockets::unlisted(status, entry)?),
        })
    }

    /// CPUs of the host that each other partition may run on, those of other sets included.
    fn others(&self, this: &PartitionStatus) -> Vec<BTreeSet<u32>> {
        let own = self.status.partitions.iter().filter(|other| other.folder != this.folder);
        let own = own.filter_map(|other| Some(cpus(&given(other).ok()?)));
        own.chain(self.neighbours().into_iter().map(|(_, given, _)| cpus(&given))).collect()
    }

    /// What partitions of other sets were given, and what their files have of them, by `SET/NAME`.
    pub fn neighbours(&self) -> Vec<(String, Given, Option<PartitionEntry>)> {
        let names = status::names(&self.root).into_iter().filter(|name| *name != self.status.set);
        let sets = names.filter_map(|name| status::status(&self.root, &name));
        let of_set = |set: SetStatus| {
            let mut entries = folder::read_set(&self.root.join(&set.set)).map(|record| record.set.partitions);
            let all = set.partitions.into_iter();
            all.filter_map(move |one| {
                let entry = entries.as_mut().and_then(|all| all.remove(&one.name));
                Some((format!("{}/{}", set.set, one.name), given(&one).ok()?, entry))
            })
        };
        sets.flat_map(of_set).collect()
    }

    fn pair(&self, one: &str, other: &str) -> Values {
        let found = self.named(one).and_then(|one| Ok((one, self.named(other)?)));
        let value = |property: &PairProperty| {
            let (one, other) = found.clone()?;
            self.shared(*property, one, other)
        };
        PairProperty::ALL.iter().map(|one| (one.as_str().to_owned(), value(one))).collect()
    }

    fn shared(
        &self,
        property: PairProperty,
        one: (&PartitionStatus, &PartitionEntry),
        other: (&PartitionStatus, &PartitionEntry),
    ) -> Result<f64, Reason> {
        let both = || Ok::<_, Reason>((given(one.0)?, given(other.0)?));
        Ok(match property {
            PairProperty::SharedCpus => {
                let (one, other) = both()?;
                count(cpus(&one).intersection(&cpus(&other)).count())
            }
            PairProperty::SharedCores => {
                let (one, other) = both()?;
                let cores =
                    |given: &Given| cpus(given).iter().map(|cpu| core_of(*cpu)).collect::<BTreeSet<_>>();
                count(cores(&one).intersection(&cores(&other)).count())
            }
            PairProperty::SharedNodes => {
                let (one, other) = both()?;
                let nodes = |given: &Given| {
                    let there = given.memory.present_bytes.iter().filter(|(_, bytes)| bytes.get() > 0);
                    there.map(|(node, _)| *node).collect::<BTreeSet<_>>()
                };
                count(nodes(&one).intersection(&nodes(&other)).count())
            }
            PairProperty::SharedChannels => {
                let has = |channel: &model::partition::set::ChannelEntry, name: &str| {
                    channel.writer == name || channel.readers.iter().any(|reader| reader == name)
                };
                let names = (one.0.name.as_str(), other.0.name.as_str());
                count(self.set.channels.values().filter(|it| has(it, names.0) && has(it, names.1)).count())
            }
            PairProperty::SharedFolders => {
                let content = |of: &PartitionStatus| unit(&of.folder).map(|unit| unit.spec.content);
                count(folders::shared(&content(one.0)?, &content(other.0)?))
            }
            PairProperty::SharedFailureDomains => f64::from(u8::from(domain(one)? == domain(other)?)),
        })
    }

    fn network(&self, name: &str, whys: &mut Whys) -> Values {
        let there = self.set.networks.contains_key(name);
        let switches = self
            .status
            .switches
            .iter()
            .filter(|switch| switch.name.rsplit_once('.').is_some_and(|(network, _)| network == name));
        let (mut up, mut restarts, mut why) = (0, 0, Vec::new());
        for switch in switches {
            // Of one that does not move frames the cards of its plugs say soon that they have no carrier.
            let still = switch.pid.and_then(still::of_process);
            up += usize::from(switch.phase == Phase::Running && switch.pid.is_some() && still.is_none());
            restarts += switch.restarts;
            why.extend(still.map(|how| format!("the switch of {} {how}", switch.name)));
        }
        let value = |property: &NetworkProperty| match property {
            _ if !there => {
                Err(Reason::from(format!("set \"{}\" has no network \"{name}\"", self.status.set)))
            }
            NetworkProperty::LinksUp => Ok(count(up)),
            NetworkProperty::Restarts => Ok(f64::from(restarts)),
        };
        explain(whys, NetworkProperty::LinksUp.as_str(), &why);
        NetworkProperty::ALL.iter().map(|one| (one.as_str().to_owned(), value(one))).collect()
    }
}

/// What a partition was given, asked anew.
///
/// # Errors
/// It does not run, or the kernel does not say.
pub fn given(status: &PartitionStatus) -> Result<Given, Reason> {
    let (Some(pid), Some(was)) = (status.pid, &status.given) else {
        return Err(format!("{} does not run", status.name).into());
    };
    place::look_again(pid, was)
}

/// A partition as its supervisor was told to start it.
fn unit(kept: &Path) -> Result<PartitionUnit, Reason> {
    match folder::read_unit(kept) {
        Some(UnitSpec::Partition(unit)) => Ok(*unit),
        _ => Err("what its supervisor was told cannot be read".into()),
    }
}

/// What is not as its file asks for, and what somebody changed since it was started.
fn differences(status: &PartitionStatus) -> Result<Vec<Difference>, Reason> {
    let spec = unit(&status.folder)?.spec;
    let given = given(status)?;
    let mut all = place::differences(&spec.resources, &spec.disks, &given);
    all.extend(status.given.iter().flat_map(|was| place::since_start(&spec.resources, was, &given)));
    Ok(all)
}

/// Says of a metric why it is as it is, where there is something to say.
fn explain(whys: &mut Whys, metric: &str, why: &[String]) {
    if !why.is_empty() {
        whys.insert(metric.to_owned(), why.join("; "));
    }
}

fn cpus(given: &Given) -> BTreeSet<u32> {
    given.cpus.iter().flat_map(|cpu| cpu.allowed.numbers().iter().copied()).collect()
}

/// The lowest CPU of the core that this one is a thread of; itself where the kernel does not say.
fn core_of(cpu: u32) -> u32 {
    let threads = threads_of_core(Path::new("/"), cpu);
    threads.and_then(|all| all.numbers().iter().copied().min()).unwrap_or(cpu)
}

/// The failure domain that its file says.
fn domain<'a>(of: (&PartitionStatus, &'a PartitionEntry)) -> Result<&'a str, Reason> {
    let domain = of.1.failure_domain.as_deref();
    domain.ok_or_else(|| format!("the file names no failure_domain of {}", of.0.name).into())
}

fn count(number: usize) -> f64 {
    number as f64
}
