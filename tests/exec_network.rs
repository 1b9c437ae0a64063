//! `bulkhead exec --net SET/NETWORK`: a program that is no part of a set, among the set's partitions while it runs.

use crate::set_fixture;

use std::fs;
use std::process::{Child, Stdio};

use bulkhead::model::partition::set::Phase;
use set_fixture::{Bench, Said};

/// Answers everybody with what he said and from where.
const SERVER: &str = "use IO::Socket::INET; my $s = IO::Socket::INET->new(LocalPort => 7000, Listen => 5, ReuseAddr => 1) \
                      or die $!; while (my $c = $s->accept) { my $said = <$c>; print $c $c->peerhost, \" said $said\"; \
                      close $c }";
/// Asks it, by its name, until it is there.
const CLIENT: &str = "use IO::Socket::INET; $| = 1; my $c; for (1..600) { $c = IO::Socket::INET->new(PeerAddr => 'db:7000', \
                      Timeout => 2) and last; select undef, undef, undef, 0.1; } $c or die 'nobody there'; \
                      print $c \"hello\\n\"; print <$c>;";

fn exec(bench: &Bench, net: &str, program: &[&str]) -> Child {
    let words = ["exec", "--accel", "tcg", "--memory", "192MiB", "--workdir", "/", "--net", net, "--"];
    let mut command = bench.command(&[&words[..], program].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs")
}

fn ended(child: Child) -> Said {
    set_fixture::said(&child.wait_with_output().expect("it ends"))
}

#[test]
fn a_program_visits_a_network_and_leaves_nothing_there() {
    if !set_fixture::guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let text = format!(
        "[network.control]\nlinks = 2\n[partition.db]\nprogram = [\"/usr/bin/perl\", \"-e\", '''{SERVER}''']\n\
         memory_mib = 192\nnetworks = [\"control\"]\n"
    );
    let file = bench.file("plant.toml", &text);
    let told = bench.up(&file);
    assert_eq!(told.code, Some(0), "{told:?}");
    bench.wait_for("db", Phase::Running);

    // Two at once have numbers of their own.
    let ask = ["/usr/bin/perl", "-e", CLIENT];
    let both = [exec(&bench, "plant/control", &ask), exec(&bench, "plant/control", &ask)].map(ended);
    let mut from: Vec<&str> = both.iter().map(|told| told.out.as_str()).collect();
    from.sort_unstable();
    assert_eq!(from, ["10.77.1.253 said hello\n", "10.77.1.254 said hello\n"], "{both:?}");
    assert!(both.iter().all(|told| told.code == Some(0)));

    // Killed it leaves its number to the next one, as soon as its machine has noticed.
    let before = bench.processes().len();
    let mut victim = exec(&bench, "plant/control", &["/bin/sleep", "1000"]);
    let taken = bench.state().join("plant/l/control.0/254.sock");
    let until = std::time::Instant::now() + set_fixture::PATIENCE;
    while !taken.exists() {
        assert!(std::time::Instant::now() < until, "it never came");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    victim.kill().expect("it runs");
    victim.wait().expect("it ends");
    while bench.processes().len() > before {
        assert!(std::time::Instant::now() < until, "{:?}", bench.processes());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let next = ended(exec(&bench, "plant/control", &ask));
    assert_eq!(next.out, "10.77.1.254 said hello\n", "{next:?}");

    assert_eq!(bench.call(&["down"]).code, Some(0));
    bench.assert_nothing_left("after down");
}

#[test]
fn what_is_no_network_is_refused_at_once() {
    let bench = Bench::pretending();
    let refused = |net: &str, part: &str| {
        let told = ended(exec(&bench, net, &["/bin/true"]));
        assert_eq!(told.code, Some(125), "{net}: {told:?}");
        assert!(told.err.contains(part), "{net}: {}", told.err);
    };
    refused("plant/control", "no set \"plant\" is up");
    refused("control", "SET/NETWORK");
    refused("../etc/control", "SET/NETWORK");
    let text =
        "[network.control]\n[partition.a]\nprogram = [\"/bin/sleep\", \"1000\"]\nnetworks = [\"control\"]\n";
    let file = bench.file("plant.toml", text);
    let told = bench.up(&file);
    assert_eq!(told.code, Some(0), "{told:?}");
    refused("plant/contrl", "did you mean \"control\"?");
    refused("plants/control", "no set \"plants\" is up");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    bench.assert_nothing_left("after down");
    assert!(fs::read_dir(bench.path("tmp")).expect("it is there").next().is_none());
}
