//! What a measurement costs on a platform that nobody has measured yet, in seconds: time by the clock, which a probe is
//! told, and time for its work, which depends on the machine. Pure. Typical figures of one machine (2 CPUs at 2.x GHz,
//! translated guests included), good to a factor of two; what was measured on a host replaces them.

use std::time::Duration;

use model::journal::{Neighbour, PlatformState};
use probes::params::ProbeSpec;
use probes::probe::About;
use units::facts::MachineFacts;
use units::layout::Layout;
use units::names::{LoadKind, LoadPlace, PlatformKind};

/// What runs a platform's code, as far as time goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// Nothing is run.
    Fake,
    /// A process of the host.
    Process,
    /// A container.
    Container,
    /// A guest whose code runs on the CPU.
    Virtual,
    /// A guest whose code is translated.
    Translated,
    /// Another machine.
    Remote,
}

/// What a survey found, as far as time goes.
pub fn flavour(state: &PlatformState) -> Flavour {
    let is_translated =
        || state.properties.iter().any(|(name, value)| name == "accelerator" && value == "tcg");
    match state.kind {
        PlatformKind::Fake | PlatformKind::Sim => Flavour::Fake,
        PlatformKind::Native => Flavour::Process,
        PlatformKind::Container => Flavour::Container,
        PlatformKind::Vm if is_translated() => Flavour::Translated,
        PlatformKind::Vm => Flavour::Virtual,
        PlatformKind::Ssh => Flavour::Remote,
    }
}

/// Starting an instance until its agent answers, where none was started yet.
pub fn start(flavour: Flavour) -> Duration {
    Duration::from_millis(match flavour {
        Flavour::Fake => 0,
        Flavour::Process => 30,
        Flavour::Container => 150,
        Flavour::Virtual | Flavour::Remote => 1500,
        Flavour::Translated => 2500,
    })
}

/// What comes with every measurement: pausing and resuming, asking for the clock, writing down.
fn overhead(flavour: Flavour) -> f64 {
    match flavour {
        Flavour::Fake => 0.001,
        Flavour::Process | Flavour::Container => 0.006,
        Flavour::Virtual => 0.02,
        Flavour::Translated => 0.035,
        Flavour::Remote => 0.1,
    }
}

/// How many times as long a probe's work takes as in a process.
const fn slowdown(flavour: Flavour, probe: &About) -> f64 {
    match flavour {
        Flavour::Fake => 0.0,
        Flavour::Process | Flavour::Remote => 1.0,
        Flavour::Container => 1.05,
        Flavour::Virtual => probe.slowdown.virtualized,
        Flavour::Translated => probe.slowdown.translated,
    }
}

/// How long a measurement takes, its instances being there, on a platform that works `slowness` times as slow as typical
/// ones, whose CPUs are wanted `crowding` times over.
pub fn measurement(
    probe: &ProbeSpec,
    facts: &MachineFacts,
    flavour: Flavour,
    slowness: f64,
    (neighbour, layout): (Option<Neighbour>, Option<Layout>),
    crowding: u32,
) -> Duration {
    let (about, cost) = (probe.kind().about(), probe.cost(facts));
    let instances = f64::from(layout.map_or(1, Layout::instances));
    let beside = neighbour.map_or(1.0, |neighbour| busy(neighbour.kind));
    let slow = slowdown(flavour, about) * slowness;
    let slow = slow * beside * f64::from(crowding.max(1));
    let work = cost.by_work * slow + probe.transfer(instances, slow);
    let by_clock =
        if flavour == Flavour::Fake { 0.0 } else { cost.by_clock * polling(about, flavour, neighbour) };
    let joint = if layout.is_some() { 0.05 + overhead(flavour) * instances } else { 0.0 };
    let load = neighbour.map_or(0.0, |neighbour| around(neighbour, flavour));
    Duration::from_secs_f64((by_clock + work + overhead(flavour) + joint + load).clamp(0.0, 1e6))
}

/// How many times as long work takes beside a load.
const fn busy(load: LoadKind) -> f64 {
    match load {
        LoadKind::Idle => 1.0,
        LoadKind::Disk | LoadKind::Memory => 1.5,
        _ => 1.9,
    }
}

/// How many times as long ranks take that poll for their messages and yield: among processes of one group each yield gives a
/// busy neighbour the CPU for a turn, and what was begun is ended.
fn polling(probe: &About, flavour: Flavour, neighbour: Option<Neighbour>) -> f64 {
    use LoadKind::{Cpu, Interrupt, Lock, Memory, Network};
    let is_busy = neighbour.is_some_and(|n| matches!(n.kind, Cpu | Memory | Network | Interrupt | Lock));
    let yields = probe.polls && flavour == Flavour::Process;
    if yields && is_busy { 9.0 } else { 1.0 }
}

/// Bringing a load up, and hearing how strong it was.
fn around(neighbour: Neighbour, flavour: Flavour) -> f64 {
    let own = if neighbour.place == LoadPlace::Host { Flavour::Process } else { flavour };
    let preparing = match neighbour.kind {
        LoadKind::Memory | LoadKind::Mixed => 0.06,
        LoadKind::Disk => 0.025,
        _ => 0.008,
    };
    let slow = if own == Flavour::Translated { 5.0 } else { 1.0 };
    overhead(own) + if own == Flavour::Fake { 0.0 } else { preparing * slow }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probes::ProbeKind;
    use probes::params::FwqParams;

    #[test]
    fn ranks_that_are_processes_wait_for_busy_neighbours_and_nobody_else_does() {
        let (mpi, net) = (ProbeKind::Mpi, ProbeKind::Net);
        let beside = |kind| Some(Neighbour { kind, place: LoadPlace::Second });
        let is_longer = |probe: ProbeKind, flavour, beside| polling(probe.about(), flavour, beside) > 1.0;
        assert!(is_longer(mpi, Flavour::Process, beside(LoadKind::Cpu)));
        assert!(!is_longer(mpi, Flavour::Process, beside(LoadKind::Idle)));
        assert!(!is_longer(mpi, Flavour::Process, None));
        assert!(!is_longer(mpi, Flavour::Container, beside(LoadKind::Cpu)), "it has a group of its own");
        assert!(!is_longer(net, Flavour::Process, beside(LoadKind::Cpu)));
    }

    #[test]
    fn work_takes_longer_where_it_is_translated_and_beside_loads_and_the_clock_does_not() {
        let facts = MachineFacts { cpus: 2, ..MachineFacts::default() };
        let fwq = ProbeSpec::Fwq(FwqParams::default());
        let gap = ProbeSpec::default_of(ProbeKind::Gap);
        let cpu = Some(Neighbour { kind: LoadKind::Cpu, place: LoadPlace::Second });
        let cost = |probe: &ProbeSpec, flavour, beside| {
            measurement(probe, &facts, flavour, 1.0, (beside, None), 1).as_secs_f64()
        };
        assert!(cost(&fwq, Flavour::Translated, None) > 3.0 * cost(&fwq, Flavour::Process, None));
        assert!(cost(&fwq, Flavour::Process, cpu) > 1.4 * cost(&fwq, Flavour::Process, None));
        assert!(cost(&gap, Flavour::Translated, None) < 1.5 * cost(&gap, Flavour::Process, None));
        assert!(cost(&gap, Flavour::Fake, cpu) < 0.01, "nothing is run");
    }
}
