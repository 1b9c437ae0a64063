//! The parts of a set: what runs, what is made to fail, what is started again. Processes are named by number, start and boot, and are
//! sent signals only if they were started for this set.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::partition::set::{Phase, ProcessName};
use model::requirement::InjectedFailure;
use nix::sys::signal::Signal;
use partition::set::one::{Request, one};
use partition::set::supervisor::{self, GOOD_RUN};
use partition::set::{folder, process, status};
use platforms::Cancel;
use units::Reason;

use super::agent;
use super::armed::Armed;
use super::told::Told;

/// How often it is looked how far everything is.
const LOOK: Duration = Duration::from_millis(20);

/// A set, and what of it ran at first.
pub struct Parts {
    root: PathBuf,
    set: String,
    /// Folders of what is kept, `p/db`, `n/control.0`, with the process that each was.
    ran: BTreeMap<String, ProcessName>,
    /// The failure domain of each partition that is in one, `p/db`.
    domains: BTreeMap<String, String>,
    /// How often each had been started again by then.
    restarts: BTreeMap<String, u32>,
    missing: Vec<String>,
    /// Those that nobody misses: they have ended, or were stopped.
    idle: Vec<String>,
    /// Failures that others make, ready to happen.
    armed: Vec<(InjectedFailure, Armed)>,
    /// Failures that last as long as somebody says so.
    told: Vec<(InjectedFailure, Told)>,
    /// What did not come back by itself, in words.
    done: Vec<String>,
}

impl Parts {
    /// As they are now.
    ///
    /// # Errors
    /// The set is not up.
    pub fn of(root: &Path, set: &str) -> Result<Self, Reason> {
        let path = root.join(set);
        let Some(record) = folder::read_set(&path) else {
            return Err(format!("set \"{set}\" is not up").into());
        };
        let entries = record.set.partitions.into_iter();
        let domains = entries.filter_map(|(name, one)| Some((format!("p/{name}"), one.failure_domain?)));
        let (mut ran, mut restarts) = (BTreeMap::new(), BTreeMap::new());
        let (mut missing, mut idle) = (Vec::new(), Vec::new());
        for kept in folder::kept(&path) {
            let (phase, state) = status::phase(&path.join(&kept));
            restarts.insert(kept.clone(), state.as_ref().map_or(0, |state| state.restarts));
            let process = state.and_then(|state| state.process).filter(process::is_alive);
            match (phase, process) {
                (Phase::Running, Some(process)) => {
                    ran.insert(kept, process);
                }
                // Its program has ended, or somebody has stopped it: nobody misses it.
                (Phase::Ended | Phase::Stopped, _) => idle.push(kept),
                (phase, _) => missing.push(format!("{} is {}", name_of(&kept), phase.word())),
            }
        }
        Ok(Self {
            root: root.to_owned(),
            set: set.to_owned(),
            ran,
            domains: domains.collect(),
            restarts,
            missing,
            idle,
            armed: Vec::new(),
            told: Vec::new(),
            done: Vec::new(),
        })
    }

    /// Whether all of it ran.
    pub fn all_run(&self) -> bool {
        self.missing.is_empty()
    }

    /// What did not.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Names of the partitions that ran.
    pub fn partitions(&self) -> Vec<&str> {
        self.ran.keys().filter_map(|kept| kept.strip_prefix("p/")).collect()
    }

    fn folder(&self, kept: &str) -> PathBuf {
        self.root.join(&self.set).join(kept)
    }

    /// Whether all that ran at first runs now.
    pub fn run_again(&self) -> bool {
        self.ran.keys().all(|kept| self.runs(kept))
    }

    fn runs(&self, kept: &str) -> bool {
        let (phase, state) = status::phase(&self.folder(kept));
        let process = state.and_then(|state| state.process);
        phase == Phase::Running && process.as_ref().is_some_and(process::is_alive)
    }

    /// What failures hit.
    fn hit(&self, failures: &[InjectedFailure]) -> Vec<&String> {
        failures.iter().flat_map(|failure| self.hit_by(failure)).collect()
    }

    fn hit_by(&self, failure: &InjectedFailure) -> Vec<&String> {
        let named = match failure {
            InjectedFailure::Program(name)
            | InjectedFailure::Qemu(name)
            | InjectedFailure::Partition(name) => Some(format!("p/{name}")),
            InjectedFailure::Switch(network, link) | InjectedFailure::Link(network, link) => {
                Some(format!("n/{network}.{link}"))
            }
            // Nothing stops running.
            InjectedFailure::Cable(..) | InjectedFailure::Disk(_) | InjectedFailure::Clock(_) => {
                return Vec::new();
            }
            InjectedFailure::Domain(domain) => {
                let is_in = |kept: &&String| self.domains.get(*kept).is_some_and(|one| one == domain);
                return self.ran.keys().filter(is_in).collect();
            }
            InjectedFailure::Host => None,
        };
        self.ran.keys().filter(|kept| named.as_ref().is_none_or(|named| named == *kept)).collect()
    }

    /// Who failed a moment ago is started again later than one that ran well: partitions are started anew, so that their back-off
    /// begins anew, too, and switches are waited for. In words, what was done.
    ///
    /// # Errors
    /// One cannot be started, or the user interrupted.
    pub fn settle(
        &self,
        failures: &[InjectedFailure],
        exe: &Path,
        cancel: &Cancel,
    ) -> Result<Vec<String>, Reason> {
        let mut done = Vec::new();
        for kept in self.hit(failures) {
            if self.backs_off(kept) {
                let how = if kept.starts_with("p/") { "started anew" } else { "waited for" };
                done.push(format!("{} was {how} before, so that nothing backs off", name_of(kept)));
            }
            while self.backs_off(kept) {
                if cancel.is_cancelled() {
                    return Err("interrupted".into());
                }
                match kept.strip_prefix("p/") {
                    Some(name) => self.start_anew(name, exe, cancel)?,
                    None => std::thread::sleep(LOOK),
                }
            }
        }
        Ok(done)
    }

    fn backs_off(&self, kept: &str) -> bool {
        let state = folder::read_state(&self.folder(kept));
        state.is_some_and(|state| {
            let ran = supervisor::now().saturating_sub(state.since_unix_ns).to_duration();
            state.in_a_row > 0 && ran <= GOOD_RUN
        })
    }

    fn start_anew(&self, name: &str, exe: &Path, cancel: &Cancel) -> Result<(), Reason> {
        let label = format!("{}/{name}", self.set);
        let began = one(&self.root, &label, Request::Restart, exe, cancel);
        began.map(drop).map_err(|error| format!("{label} cannot be started anew: {error}").into())
    }

    /// Gets those ready that others make, so that they happen at once later.
    ///
    /// # Errors
    /// One cannot be made.
    pub fn arm(&mut self, failures: &[InjectedFailure], exe: &Path) -> Result<(), Reason> {
        for failure in failures {
            let (inside, word) = match failure {
                InjectedFailure::Program(name) => (Some(name), agent::PROGRAM),
                InjectedFailure::Clock(name) => (name.as_ref(), agent::CLOCK),
                _ => continue,
            };
            let label = inside.map(|name| format!("{}/{name}", self.set));
            self.armed.push((failure.clone(), Armed::begin(exe, label.as_deref(), word)?));
        }
        Ok(())
    }

    /// Makes them fail at once; when they did.
    ///
    /// # Errors
    /// There is no such part, or it cannot be sent signals.
    pub fn fail(&mut self, failures: &[InjectedFailure]) -> Result<Instant, Reason> {
        let failed_at = Instant::now();
        // Who looks after them goes first: nothing is to be started again in between.
        let is_whole = |one: &&InjectedFailure| {
            matches!(one, InjectedFailure::Partition(_) | InjectedFailure::Domain(_))
        };
        let with_supervisor = failures.iter().filter(is_whole);
        let doomed: Vec<&String> = with_supervisor.flat_map(|one| self.hit_by(one)).collect();
        let supervisors = doomed.into_iter().try_for_each(|kept| self.kill_supervisor(kept));
        self.armed.iter_mut().try_for_each(|(_, armed)| armed.fire())?;
        for failure in failures {
            let told = match failure {
                InjectedFailure::Disk(name) => self.full_disk(name)?,
                InjectedFailure::Cable(network, link, name) => self.pulled_cable(network, *link, name)?,
                _ => continue,
            };
            self.told.push((failure.clone(), told));
        }
        // That a program was killed may be the end of the partition, and of who killed it.
        let mut to_come = self.armed.iter_mut().filter(|(of, _)| matches!(of, InjectedFailure::Clock(_)));
        to_come.try_for_each(|(_, armed)| armed.happened())?;
        failures.iter().try_for_each(|failure| self.fail_one(failure)).and(supervisors)?;
        let spared: Vec<String> = failures.iter().flat_map(|failure| self.spared_by(failure)).collect();
        self.done.extend(spared);
        Ok(failed_at)
    }

    /// In words, what would have failed, too, and did not run.
    fn spared_by(&self, failure: &InjectedFailure) -> Vec<String> {
        let is_hit = |kept: &&String| match failure {
            InjectedFailure::Host => true,
            InjectedFailure::Domain(domain) => self.domains.get(*kept).is_some_and(|one| one == domain),
            _ => false,
        };
        let idle = self.idle.iter().filter(is_hit);
        idle.map(|kept| format!("{} did not run before, so nothing of it failed", name_of(kept))).collect()
    }

    fn full_disk(&self, name: &str) -> Result<Told, Reason> {
        let folder = self.folder(&format!("p/{name}"));
        let server = folder::read_state(&folder).and_then(|state| state.files).ok_or_else(|| {
            format!("{name} has no files of the host over virtio-fs: there is no disk that could be full")
        })?;
        Told::full_disk(server, folder)
    }

    fn pulled_cable(&self, network: &str, link: u32, name: &str) -> Result<Told, Reason> {
        let path = self.root.join(&self.set);
        let set = folder::read_set(&path).ok_or_else(|| format!("set \"{}\" is not up", self.set))?;
        let wiring = set.set.wiring().map_err(|fault| Reason::from(fault.problem))?;
        let member = wiring.get(network).and_then(|wiring| wiring.members.get(name));
        let plug = member.ok_or_else(|| format!("{name} is not in network {network}"))?.number;
        let kept = format!("n/{network}.{link}");
        let switch = self.ran.get(&kept).ok_or_else(|| format!("{} does not run", name_of(&kept)))?;
        Told::pulled_cable(switch.clone(), self.folder(&kept), folder::of_link(&path, name_of(&kept)), plug)
    }

    fn fail_one(&self, failure: &InjectedFailure) -> Result<(), Reason> {
        match failure {
            InjectedFailure::Program(_)
            | InjectedFailure::Cable(..)
            | InjectedFailure::Disk(_)
            | InjectedFailure::Clock(_) => Ok(()),
            InjectedFailure::Qemu(name) | InjectedFailure::Partition(name) => self.kill(&format!("p/{name}")),
            InjectedFailure::Domain(domain) => {
                let all = self.hit_by(failure);
                if all.is_empty() {
                    return Err(format!("no partition that runs is in failure domain {domain}").into());
                }
                all.into_iter().try_for_each(|kept| self.kill(kept))
            }
            InjectedFailure::Switch(network, link) => self.kill(&format!("n/{network}.{link}")),
            InjectedFailure::Link(network, link) => {
                self.signal(&format!("n/{network}.{link}"), Signal::SIGSTOP)
            }
            InjectedFailure::Host => {
                // All supervisors first: none is to start anything on a host that is gone.
                let supervisors = self.ran.keys().try_for_each(|kept| self.kill_supervisor(kept));
                self.ran.keys().try_for_each(|kept| self.kill(kept)).and(supervisors)
            }
        }
    }

    fn kill(&self, kept: &str) -> Result<(), Reason> {
        self.signal(kept, Signal::SIGKILL)
    }

    fn signal(&self, kept: &str, signal: Signal) -> Result<(), Reason> {
        let process = self.ran.get(kept).ok_or_else(|| format!("{} does not run", name_of(kept)))?;
        process::signal(process, &self.folder(kept), signal)
    }

    fn kill_supervisor(&self, kept: &str) -> Result<(), Reason> {
        let folder = self.folder(kept);
        let supervisor = folder::read_supervisor(&folder);
        supervisor.map_or(Ok(()), |supervisor| process::signal(&supervisor, &folder, Signal::SIGKILL))
    }

    /// Whether one of the partitions has ended for good: nobody looks after it.
    pub fn nobody_starts_one(&self) -> bool {
        self.ran.keys().any(|kept| kept.starts_with("p/") && !status::goes_on(&self.folder(kept)))
    }

    /// Starts partitions that have ended for good: what has a policy is not, and is left to who looks after it.
    fn start_what_nobody_does(&mut self, exe: &Path, cancel: &Cancel) {
        let ended = |kept: &&String| !status::goes_on(&self.folder(kept));
        let names: Vec<&str> =
            self.ran.keys().filter(ended).filter_map(|kept| kept.strip_prefix("p/")).collect();
        let start = |name: &&str| {
            let label = format!("{}/{name}", self.set);
            // What it waits for may be the next to be started.
            one(&self.root, &label, Request::Start, exe, cancel).is_ok()
        };
        let started: Vec<&str> = names.into_iter().filter(start).collect();
        let words: Vec<String> =
            started.into_iter().map(|name| format!("{name} was started again by us")).collect();
        self.done.extend(words);
    }

    /// Starts partitions that only wait for their back-off.
    fn start_what_waits(&mut self, exe: &Path, cancel: &Cancel) {
        let waits = |kept: &&String| status::phase(&self.folder(kept)).0 == Phase::Waiting;
        let names: Vec<&str> =
            self.ran.keys().filter(waits).filter_map(|kept| kept.strip_prefix("p/")).collect();
        let started: Vec<&str> =
            names.into_iter().filter(|name| self.start_anew(name, exe, cancel).is_ok()).collect();
        let words: Vec<String> = started
            .into_iter()
            .map(|name| format!("{name} was started again by us before its turn"))
            .collect();
        self.done.extend(words);
    }

    /// Puts everything back; in words, what of it did not come back by itself.
    ///
    /// # Errors
    /// What does not run again.
    pub fn undo(
        &mut self,
        failures: &[InjectedFailure],
        exe: &Path,
        within: Duration,
        cancel: &Cancel,
    ) -> Result<String, Reason> {
        for (failure, armed) in self.armed.drain(..) {
            match armed.end() {
                Err(late) => self.done.push(late.to_string()),
                Ok(()) if matches!(failure, InjectedFailure::Clock(_)) => {
                    self.done.push(format!("{failure} was let go"));
                }
                Ok(()) => {}
            }
        }
        for (failure, told) in self.told.drain(..) {
            drop(told);
            let is = if matches!(failure, InjectedFailure::Disk(_)) { "has room" } else { "is in" };
            self.done.push(format!("{failure} {is} again"));
        }
        for failure in failures {
            let InjectedFailure::Link(network, link) = failure else { continue };
            // Where its supervisor has given it up, there is no such process any more.
            self.signal(&format!("n/{network}.{link}"), Signal::SIGCONT)?;
            self.done.push(format!("{network}.{link} was let go"));
        }
        let until = Instant::now() + within;
        while !self.run_again() {
            self.start_what_nobody_does(exe, cancel);
            self.start_what_waits(exe, cancel);
            if Instant::now() >= until {
                let missing: Vec<&str> =
                    self.ran.keys().filter(|kept| !self.runs(kept)).map(|kept| name_of(kept)).collect();
                return Err(format!(
                    "not back within {} s: {} (bulkhead ps shows why, bulkhead up starts it)",
                    within.as_secs(),
                    missing.join(", ")
                )
                .into());
            }
            std::thread::sleep(LOOK);
        }
        let often: Vec<String> =
            self.hit(failures).into_iter().filter_map(|kept| self.started_often(kept)).collect();
        self.done.extend(often);
        Ok(if self.done.is_empty() { "all came back by itself".to_owned() } else { self.done.join(", ") })
    }

    /// In words, that it did not come back the first time: an outage is longer then, by each back-off.
    fn started_often(&self, kept: &str) -> Option<String> {
        let state = folder::read_state(&self.folder(kept))?;
        let times = state.restarts.saturating_sub(self.restarts.get(kept).copied().unwrap_or(0));
        let why =
            state.last.map_or_else(String::new, |last| format!(", the last time because {}", last.reason));
        (times > 1).then(|| format!("{} was started again {times} times{why}", name_of(kept)))
    }
}

/// `p/db` is db.
fn name_of(kept: &str) -> &str {
    kept.split_once('/').map_or(kept, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_of_a_host_or_domain_did_not_run_is_told() {
        let domains = [("p/a", "left"), ("p/b", "left"), ("p/c", "right")];
        let parts = Parts {
            root: PathBuf::new(),
            set: String::new(),
            ran: BTreeMap::new(),
            domains: domains.map(|(kept, domain)| (kept.to_owned(), domain.to_owned())).into(),
            restarts: BTreeMap::new(),
            missing: Vec::new(),
            idle: ["p/b", "p/c"].map(str::to_owned).into(),
            armed: Vec::new(),
            told: Vec::new(),
            done: Vec::new(),
        };
        let spared = |failure| parts.spared_by(&failure);
        let [b, c] = ["b", "c"].map(|name| format!("{name} did not run before, so nothing of it failed"));
        assert_eq!(spared(InjectedFailure::Domain("left".to_owned())), std::slice::from_ref(&b));
        assert_eq!(spared(InjectedFailure::Host), [b, c]);
        assert_eq!(spared(InjectedFailure::Qemu("a".to_owned())), Vec::<String>::new());
    }
}
