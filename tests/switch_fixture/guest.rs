//! A real guest with cards at switches, made by hand.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bulkhead::cli::cache_folder;
use bulkhead::model::experiment::{Accelerator, PlatformSpec};
use bulkhead::model::partition::CardSpec;
use bulkhead::partition::network::switch::socket_name;
use bulkhead::partition::network::{cards, watch};
use bulkhead::platforms::cgroup::Groups;
use bulkhead::platforms::instance::AgentInstance;
use bulkhead::platforms::ledger::Ledger;
use bulkhead::platforms::link::HostEnd;
use bulkhead::platforms::vm::guest::GuestConfig;
use bulkhead::platforms::vm::machine::{self, Parts};
use bulkhead::platforms::vm::payload;
use bulkhead::platforms::vm::qemu::{Engine, Extras, Machine};
use bulkhead::platforms::vm::toolbox::Toolbox;
use bulkhead::platforms::{Broken, Cancel};
use bulkhead::units::Mebibytes;
use bulkhead::units::names::PlatformKind;
use skips::{Need, skip};

/// Memory of a guest.
const MEMORY: Mebibytes = Mebibytes::from_mib(256);
/// How long it may take to answer on a busy host.
const STARTS: Duration = Duration::from_secs(120);

/// What guests are made of; none, and the test is skipped, where none can be started.
#[track_caller]
pub fn tools() -> Option<Toolbox> {
    let mut spec = PlatformSpec::of_kind(PlatformKind::Vm);
    spec.accelerator = Accelerator::Tcg;
    let exe = Path::new(env!("CARGO_BIN_EXE_bulkhead"));
    let hz = bulkhead::probes::clock::Anchor::take().and_then(|anchor| anchor.rate_since()).ok();
    match Toolbox::find(&spec, exe, &cache_folder(), hz) {
        Ok(tools) => Some(tools),
        Err(reason) => {
            skip(Need::Vm, reason);
            None
        }
    }
}

/// Starts partition `number` of the network 10.77.1.0/24, plugged in at the switches of these links, and waits until it
/// answers.
pub fn start(tools: &Toolbox, ledger: &Ledger, number: u8, links: &[PathBuf]) -> AgentInstance {
    let spec = CardSpec::Switch {
        network: "plant".to_owned(),
        sockets: links.iter().map(|link| link.join(socket_name(number))).collect(),
        number,
        address: format!("10.77.1.{number}/24"),
    };
    let cards = cards(&[spec]).expect("cards that can be");
    let modules = tools.modules.with_cards(tools.kernel.modules.as_deref(), &cards.modules);
    let modules = modules.expect("the guest's kernel has them");
    let config = GuestConfig { nics: cards.nics, bonds: cards.bonds, ..GuestConfig::default() };
    let initramfs = payload::build(&tools.program, &modules, config).expect("a first file system");
    let (control, guest_control) = UnixStream::pair().expect("sockets");
    let plug_control = Some(guest_control.as_raw_fd());
    let parts = Parts {
        qemu: &tools.qemu,
        ledger,
        disk: None,
        group: Groups::default(),
        exe: Path::new(env!("CARGO_BIN_EXE_bulkhead")),
        initramfs: &initramfs,
        inherited: vec![guest_control.into()],
    };
    let describe = |descriptors| Machine {
        extras: Extras { plugs: cards.plugs, plug_control, ..Extras::default() },
        ..tools.machine(Engine::Tcg, 1, MEMORY, descriptors)
    };
    let started = machine::start(parts, describe).expect("qemu starts");
    watch::watch(control, cards.beats).expect("a thread");
    let write = started.link.try_clone().expect("a descriptor");
    let link = HostEnd::new(started.link.into(), write.into());
    let carrier = Box::new(started.carrier);
    match AgentInstance::attach("guest", link, carrier, started.at, STARTS, &Cancel::new()) {
        Ok(guest) => guest,
        Err(Broken::Failed(failure)) => panic!("{}\n{}", failure.reason, failure.console.join("\n")),
        Err(Broken::Interrupted) => panic!("nobody interrupted"),
    }
}
