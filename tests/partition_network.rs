//! Two partitions talk through a switch, as `exec` and `up` run them. Needs QEMU and a guest
//! kernel.

use crate::switch_fixture;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use bulkhead::cli::cache_folder;
use bulkhead::model::experiment::Accelerator;
use bulkhead::model::partition::{CardSpec, Content, Files, PartitionSpec, Program, ProgramEnd, Resources};
use bulkhead::partition::network::switch::{SwitchOrder, Trunk, socket_name};
use bulkhead::partition::run::{Outcome, Streams, Surroundings, run};
use bulkhead::platforms::ledger::{self, Ledger};
use bulkhead::units::Mebibytes;
use switch_fixture::{Running, folder, guest, until};

/// Waits for one visitor, answers what it says.
const SERVER: &str = "use IO::Socket::INET; my $s = IO::Socket::INET->new(LocalPort => 7000, Listen => 1) or die $!; \
                      my $c = $s->accept or die $!; my $said = <$c>; print \"heard $said\"; print $c \"and $said\";";
/// Tries until the server is there.
const CLIENT: &str = "use IO::Socket::INET; my $c; for (1..600) { $c = IO::Socket::INET->new(PeerAddr => '10.77.1.1:7000', \
                      Timeout => 2) and last; select undef, undef, undef, 0.1; } $c or die 'nobody there'; \
                      print $c \"hello\\n\"; print <$c>;";

/// Hears who says what, answers, and asks meanwhile who 9 is; at the end says whether somebody answered that.
const HEARER: &str = "use IO::Socket::INET; my $s = IO::Socket::INET->new(Proto => 'udp', LocalPort => 7000) or die $!; \
                      while (defined $s->recv(my $said, 100)) { print $s->peerhost, \" $said\\n\"; \
                      my $nine = IO::Socket::INET->new(Proto => 'udp', PeerAddr => '10.77.1.9:7'); $nine->send('x') if $nine; \
                      $s->send('heard'); last if $said eq 'end' } \
                      open(my $f, '<', '/proc/net/arp'); for (<$f>) { my @w = split; print \"9 is $w[2]\\n\" if $w[0] eq '10.77.1.9' }";
/// Answers in the name of 9, sends as 9, and says who it is: ten times.
const LIAR: &str = "use IO::Socket::INET; my $s = IO::Socket::INET->new(Proto => 'udp', PeerAddr => '10.77.1.1:7000') or die $!; \
                    sub ask { my $a; until ($a) { $s->send($_[0]); vec(my $r = '', fileno($s), 1) = 1; \
                    select($r, undef, undef, 1) and $s->recv($a, 100) } } ask('hello'); \
                    socket(my $p, 17, 3, 0) or die \"packets: $!\"; open(my $f, '<', '/sys/class/net/eth0/ifindex') or die; \
                    my ($one, $own) = map { pack('C6', 2, 0x4b, 10, 77, 1, $_) } 1, 2; my ($at, $nine) = map { pack('C4', 10, 77, 1, $_) } \
                    1, 9; my $way = pack('SniSCCa8', 17, 0, <$f>, 1, 0, 6, $one); sub ether { send($p, $one . $own . $_[0], 0, $way) or \
                    die \"sending: $!\" } my $ip = pack('CCnnnCCn', 0x45, 0, 31, 0, 0, 64, 17, 0) . $nine . $at; my $sum = 0; \
                    $sum += $_ for unpack('n*', $ip); $sum = ($sum & 0xffff) + ($sum >> 16) for 1, 2; \
                    substr($ip, 10, 2) = pack('n', 0xffff - $sum); for (1 .. 10) { \
                    ether(pack('nnnCCn', 0x806, 1, 0x800, 6, 4, 2) . $own . $nine . $one . $at); \
                    ether(pack('n', 0x800) . $ip . pack('nnnn', 7, 7000, 11, 0) . 'lie'); ask('truth') } ask('end')";

fn partition(number: u8, links: &[&Path], script: &str) -> PartitionSpec {
    let program = Program {
        argv: [b"/usr/bin/perl".to_vec(), b"-e".to_vec(), script.as_bytes().to_vec()].into(),
        env: vec![(b"PATH".to_vec(), b"/usr/bin:/bin".to_vec())],
        workdir: "/".into(),
        files: Files::System,
        ..Program::default()
    };
    PartitionSpec {
        name: format!("p{number}"),
        content: Content::Program(Box::new(program)),
        resources: Resources::usual(1, Mebibytes::from_mib(192)),
        disks: Vec::new(),
        cards: vec![CardSpec::Switch {
            network: "plant".to_owned(),
            sockets: links.iter().map(|link| link.join(socket_name(number))).collect(),
            number,
            address: format!("10.77.1.{number}/24"),
        }],
        sections: Vec::new(),
        ports: Vec::new(),
    }
}

/// Runs a partition in a thread; returns how it ended and what it wrote.
fn start(spec: PartitionSpec, ledger: &Ledger) -> JoinHandle<(Outcome, String)> {
    let around = Surroundings {
        exe: env!("CARGO_BIN_EXE_bulkhead").into(),
        cache: cache_folder(),
        ledger: ledger.clone(),
        counter_hz: None,
        accelerator: Accelerator::Tcg,
        qemu: None,
        kernel: None,
        modules: None,
        boot_deadline: Some(switch_fixture::HANGS),
        names: Vec::new(),
        restores: false,
        door: None,
    };
    std::thread::spawn(move || {
        let (mut output, theirs) = std::io::pipe().expect("a pipe");
        let error = theirs.try_clone().expect("a descriptor");
        let input = File::open("/dev/null").expect("nothing to read");
        let streams = Streams { input: input.into(), output: theirs.into(), error: error.into() };
        let reading = std::thread::spawn(move || {
            let mut said = String::new();
            output.read_to_string(&mut said).expect("text");
            said
        });
        let (_orders, inbox) = channel();
        let outcome = run(&spec, streams, &around, inbox, &mut |_| ());
        (outcome, reading.join().expect("read"))
    })
}

#[test]
fn two_partitions_talk_over_doubled_links() {
    if guest::tools().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    let (a, b) = (folder(dir.path(), "a"), folder(dir.path(), "b"));
    let prefix = Some([2, 0x4b, 10, 77, 1]);
    let trunk = dir.path().join("trunk");
    let first = SwitchOrder {
        folder: a.clone(),
        prefix,
        trunk: Some(Trunk::At(trunk.clone())),
        ..SwitchOrder::default()
    };
    let second =
        SwitchOrder { folder: b.clone(), prefix, trunk: Some(Trunk::To(trunk)), ..SwitchOrder::default() };
    let switches = [Running::start(&first), Running::start(&second)];
    let server = start(partition(1, &[&a, &b], SERVER), &ledger);
    let client = start(partition(2, &[&a, &b], CLIENT), &ledger);
    let (outcome, said) = client.join().unwrap();
    assert_eq!((outcome, said.as_str()), (Outcome::Ended(ProgramEnd::Exit(0)), "and hello\n"));
    let (outcome, said) = server.join().unwrap();
    assert_eq!((outcome, said.as_str()), (Outcome::Ended(ProgramEnd::Exit(0)), "heard hello\n"));
    assert!(switches.into_iter().all(Running::terminate));
    let said = ledger::sweep(dir.path());
    assert!(said.is_empty(), "left behind: {said:?}");
}

/// What a program with every right in its partition tries: another one's address in ARP and as a source.
#[test]
fn a_partition_speaks_in_no_other_ones_name() {
    if guest::tools().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    let link = folder(dir.path(), "a");
    let prefix = Some([2, 0x4b, 10, 77, 1]);
    let switch = Running::start(&SwitchOrder { folder: link.clone(), prefix, ..SwitchOrder::default() });
    let hearer = start(partition(1, &[&link], HEARER), &ledger);
    let (outcome, said) = start(partition(2, &[&link], LIAR), &ledger).join().unwrap();
    assert_eq!((outcome, said.as_str()), (Outcome::Ended(ProgramEnd::Exit(0)), ""));
    let (outcome, said) = hearer.join().unwrap();
    assert_eq!(outcome, Outcome::Ended(ProgramEnd::Exit(0)), "{said}");
    assert!(said.contains("10.77.1.2 truth\n") && said.contains("10.77.1.2 end\n"), "{said}");
    assert!(!said.contains("lie"), "sent as another one: {said}");
    assert!(said.contains("9 is 0x0\n"), "it was asked who 9 is, and nobody answered: {said}");
    let lies =
        |switch: &Running| Some(switch.state().plugs.get(&2)?.foreign_frames).filter(|lies| *lies >= 20);
    until("the books", || lies(&switch));
}
