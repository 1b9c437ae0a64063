//! A partition that boots what its disk holds: the smallest boot sector there is, which switches the machine off, or
//! stays until it is told to go.

use crate::exec_fixture;

use std::fs::{self, File};
use std::io::Read;
use std::sync::mpsc::channel;
use std::time::Duration;

use bulkhead::cli::cache_folder;
use bulkhead::model::experiment::Accelerator;
use bulkhead::model::partition::{Content, DiskSpec, PartitionSpec, ProgramEnd, Resources};
use bulkhead::partition::run::{Order, Outcome, Streams, Surroundings, run};
use bulkhead::platforms::ledger::{Ledger, sweep};
use bulkhead::units::Mebibytes;

/// `mov dx, 0x604; mov ax, 0x2000; out dx, ax; hlt; jmp -3`: the chipset's register for power, and the state "off".
const SWITCH_OFF: [u8; 10] = [0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef, 0xf4, 0xeb, 0xfd];
/// `sti; hlt; jmp -4`.
const STAY: [u8; 4] = [0xfb, 0xf4, 0xeb, 0xfc];

/// Says `Hi` at the first serial port: `mov dx, 0x3f8`, then `mov al, LETTER; out dx, al` each.
const SAY: [u8; 9] = [0xba, 0xf8, 0x03, 0xb0, b'H', 0xee, 0xb0, b'i', 0xee];

/// Boots this code; `orders` are sent one after the other. How it ended, and what came over its console.
fn boot(code: &[u8], orders: &[Order]) -> (Outcome, String) {
    let folder = tempfile::tempdir().expect("the test's own files");
    let mut sector = vec![0; 1 << 20];
    sector[..code.len()].copy_from_slice(code);
    sector[510..512].copy_from_slice(&[0x55, 0xaa]);
    let file = folder.path().join("disk");
    fs::write(&file, sector).expect("the test's own files");
    let disk = DiskSpec { file, read_only: false, bytes_per_s: None, operations_per_s: None };
    let resources = Resources::usual(1, Mebibytes::from_mib(128));
    let (name, content, cards) = ("image".to_owned(), Content::Image, Vec::new());
    let spec = PartitionSpec {
        name,
        content,
        resources,
        disks: vec![disk],
        cards,
        sections: Vec::new(),
        ports: Vec::new(),
    };
    let around = Surroundings {
        exe: exec_fixture::binary().to_owned(),
        cache: cache_folder(),
        ledger: Ledger::open(folder.path()).expect("a ledger"),
        counter_hz: None,
        accelerator: Accelerator::Tcg,
        qemu: None,
        kernel: None,
        modules: None,
        boot_deadline: None,
        names: Vec::new(),
        restores: false,
        door: None,
    };
    let nothing = || File::options().read(true).write(true).open("/dev/null").expect("it is there").into();
    let (mut console, output) = std::io::pipe().expect("a pipe");
    let streams = Streams { input: nothing(), output: output.into(), error: nothing() };
    let (to, inbox) = channel();
    let outcome = std::thread::scope(|scope| {
        scope.spawn(move || {
            for order in orders {
                std::thread::sleep(Duration::from_secs(1));
                // It may have ended.
                let _ = to.send(*order);
            }
        });
        run(&spec, streams, &around, inbox, &mut |_| ())
    });
    assert_eq!(sweep(folder.path()), Vec::<String>::new(), "nothing is left");
    let mut said = String::new();
    console.read_to_string(&mut said).expect("text");
    (outcome, said)
}

#[test]
fn an_image_boots_and_switches_itself_off() {
    if exec_fixture::guests_start() {
        let (outcome, said) = boot(&[&SAY[..], &SWITCH_OFF].concat(), &[]);
        assert_eq!(outcome, Outcome::Ended(ProgramEnd::Exit(0)));
        // The firmware may have said something, too.
        assert!(said.ends_with("Hi"), "{said}");
    }
}

#[test]
fn an_image_that_ignores_its_power_button_is_ended_by_the_second_signal() {
    if exec_fixture::guests_start() {
        let (outcome, _) = boot(&STAY, &[Order::Signal(15), Order::Signal(15)]);
        assert_eq!(outcome, Outcome::Ended(ProgramEnd::Signal(15)));
    }
}
