//! A switch as its own process, with stations at its plugs that do what guests never should.

use crate::switch_fixture;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::time::{Duration, Instant};

use bulkhead::partition::network::switch::{SwitchOrder, Trunk};
use bulkhead::platforms::wall;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use switch_fixture::{Running, Station, address, folder, frame, text, until};

fn order(folder: &std::path::Path) -> SwitchOrder {
    SwitchOrder { folder: folder.to_owned(), ..SwitchOrder::default() }
}

#[test]
fn stations_hear_each_other_and_only_what_is_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let link = folder(dir.path(), "a");
    let stations: Vec<Station> = (1..=3).map(|number| Station::at(&link, number)).collect();
    let switch = Running::start(&order(&link));
    let mut stations: Vec<Station> = stations.into_iter().map(Station::connected).collect();
    stations[0].send(&frame(0, 1, "who is 2?"));
    assert_eq!(stations[1].receive().map(|frame| text(&frame)).unwrap(), "who is 2?");
    assert_eq!(stations[2].receive().map(|frame| text(&frame)).unwrap(), "who is 2?");
    stations[1].send(&frame(1, 2, "me"));
    assert_eq!(stations[0].receive().map(|frame| text(&frame)).unwrap(), "me");
    stations[0].send(&frame(2, 1, "secret"));
    stations[0].send(&frame(0, 1, "end"));
    assert_eq!(stations[1].receive().map(|frame| text(&frame)).unwrap(), "secret");
    assert_eq!(stations[2].receive().map(|frame| text(&frame)).unwrap(), "end", "not what was for 2");
    let counts =
        until("the books", || switch.state().plugs.get(&1).copied().filter(|n| n.received_frames == 3));
    assert_eq!((counts.connected, counts.sent_frames, counts.foreign_frames), (true, 1, 0));
    assert!(switch.terminate());
}

#[test]
fn nobody_passes_for_another() {
    let dir = tempfile::tempdir().unwrap();
    let link = folder(dir.path(), "a");
    let prefix = Some([2, 0x4b, 10, 77, 1]);
    let _switch = Running::start(&SwitchOrder { prefix, ..order(&link) });
    let mut stations: Vec<Station> = (1..=3).map(|number| Station::at(&link, number).connected()).collect();
    stations[1].send(&frame(0, 2, "here I am"));
    stations[0].receive().unwrap();
    stations[2].receive().unwrap();
    // Station 1 says it was 2, to get what is for 2.
    stations[0].send(&frame(0, 2, "no, here"));
    stations[0].send(&frame(0, 1, "end"));
    assert_eq!(text(&stations[2].receive().unwrap()), "end", "the lie goes nowhere");
    stations[2].send(&frame(2, 3, "for 2"));
    assert_eq!(text(&stations[1].receive().unwrap()), "end");
    assert_eq!(text(&stations[1].receive().unwrap()), "for 2");
}

#[test]
fn who_does_not_read_holds_up_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let link = folder(dir.path(), "a");
    let switch = Running::start(&order(&link));
    let _deaf = Station::at(&link, 9).connected();
    let mut from = Station::at(&link, 1).connected();
    let mut to = Station::at(&link, 2).connected();
    let load = "x".repeat(1400);
    for _ in 0..2000 {
        from.send(&frame(0, 1, &load));
        assert_eq!(to.receive().unwrap().len(), 1414, "the one that reads gets all");
    }
    let lost =
        until("the loss is counted", || Some(switch.state().plugs.get(&9)?.lost_frames).filter(|n| *n > 0));
    assert!(lost < 2000);
    assert_eq!(switch.state().plugs[&2].lost_frames, 0);
}

#[test]
fn garbage_closes_its_own_plug_and_the_next_one_in_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    let link = folder(dir.path(), "a");
    let _switch = Running::start(&order(&link));
    let mut good = Station::at(&link, 1).connected();
    let mut bad = Station::at(&link, 2).connected();
    let _ = bad.raw(&vec![0xff; 100_000]);
    assert_eq!(bad.receive(), None, "closed");
    let mut bad = bad.connected();
    bad.send(&frame(1, 2, "sorry"));
    assert_eq!(text(&good.receive().unwrap()), "sorry");
}

#[test]
fn a_plug_with_a_rate_is_slowed_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let link = folder(dir.path(), "a");
    let rates = [(1, 1_000_000)].into();
    let _switch = Running::start(&SwitchOrder { rates, ..order(&link) });
    let mut slow = Station::at(&link, 1).connected();
    let mut to = Station::at(&link, 2).connected();
    let begun = Instant::now();
    let sender = std::thread::spawn(move || {
        (0..1000).for_each(|_| slow.send(&frame(2, 1, &"x".repeat(986))));
        slow
    });
    (0..1000).for_each(|_| assert_eq!(to.receive().unwrap().len(), 1000));
    // A million bytes, a tenth of a second's worth of them at once. Never faster; how much slower is the host's affair.
    assert!(begun.elapsed() >= Duration::from_millis(890), "{:?}", begun.elapsed());
    drop(sender.join());
}

#[test]
fn two_switches_are_one_network_whoever_goes_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let (left, right) = (folder(dir.path(), "a"), folder(dir.path(), "b"));
    let trunk = dir.path().join("a/trunk");
    let first = SwitchOrder { trunk: Some(Trunk::At(trunk.clone())), ..order(&left) };
    let second = SwitchOrder { trunk: Some(Trunk::To(trunk.clone())), ..order(&right) };
    let mut near = Station::at(&left, 1);
    let far = Station::at(&right, 2);
    let _right = Running::start(&second);
    let mut far = far.connected();
    for round in 0..3 {
        let mut running = Running::start(&first);
        near = near.connected();
        until("the trunk", || running.state().plugs.get(&0).filter(|trunk| trunk.connected).copied());
        near.send(&frame(0, 1, &format!("round {round}")));
        assert_eq!(text(&far.receive().unwrap()), format!("round {round}"));
        far.send(&frame(1, 2, "answer"));
        assert_eq!(text(&near.receive().unwrap()), "answer");
        if round == 2 {
            assert!(running.terminate() && !trunk.exists(), "it takes its socket along");
            break;
        }
        // Killed, it leaves its socket behind; the next one takes its place.
        running.0.kill().unwrap();
        running.0.wait().unwrap();
        assert!(trunk.exists());
        assert_eq!(near.receive(), None);
    }
}

/// What waited at its plugs meanwhile says nothing of where a card is that went to the other switch and back: it was unreachable for minutes.
#[test]
fn a_switch_that_stood_still_forgets_who_may_have_left() {
    let dir = tempfile::tempdir().unwrap();
    let links = ["a", "b"].map(|name| folder(dir.path(), name));
    let trunk = dir.path().join("b/trunk");
    let _there = Running::start(&SwitchOrder { trunk: Some(Trunk::At(trunk.clone())), ..order(&links[1]) });
    let stands = Running::start(&SwitchOrder { trunk: Some(Trunk::To(trunk)), ..order(&links[0]) });
    // A partition with a card at both.
    let (mut left, mut used) = (Station::at(&links[0], 7).connected(), Station::at(&links[1], 7).connected());
    let mut peer = Station::at(&links[0], 9).connected();
    left.send(&frame(0, 7, "first"));
    assert_eq!(text(&peer.receive().unwrap()), "first");
    assert_eq!(text(&used.receive().unwrap()), "first", "the trunk works");
    let pid = Pid::from_raw(i32::try_from(stands.0.id()).unwrap());
    kill(pid, Signal::SIGSTOP).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    left.send(&frame(0, 7, "before it left"));
    used.send(&frame(0, 7, "here now"));
    std::thread::sleep(Duration::from_millis(100));
    kill(pid, Signal::SIGCONT).unwrap();
    assert_eq!(text(&peer.receive().unwrap()), "here now", "what waited at the plugs is gone");
    peer.send(&frame(7, 9, "where are you?"));
    let mut end = Instant::now() + Duration::from_secs(30);
    assert_eq!(used.receive_until(end).map(|frame| text(&frame)).as_deref(), Some("where are you?"));
    // And it learns again.
    used.send(&frame(9, 7, "here"));
    assert_eq!(text(&peer.receive().unwrap()), "here");
    peer.send(&frame(7, 9, "thanks"));
    assert_eq!(used.receive_until(end).map(|frame| text(&frame)).as_deref(), Some("thanks"));
    end = Instant::now() + Duration::from_millis(300);
    let more = std::iter::from_fn(|| left.receive_until(end)).map(|frame| text(&frame));
    assert!(!more.collect::<Vec<_>>().contains(&"thanks".to_owned()), "it is known where they are");
}

#[test]
fn a_folder_that_others_may_enter_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let link = folder(dir.path(), "a");
    std::fs::set_permissions(&link, std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = |order: &SwitchOrder| {
        let output = Command::new(env!("CARGO_BIN_EXE_bulkhead")).args(order.words()).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = run(&order(&link));
    assert!(said.contains("0700") && said.contains("0755"), "{said}");
    let said = run(&order(&dir.path().join("nowhere")));
    assert!(said.contains("nowhere"), "{said}");
}

/// Behind its wall a switch may be another user; what it makes is its caller's all the same, and nobody else's, whatever
/// the caller's umask says.
#[test]
fn what_a_switch_makes_is_for_its_caller_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (left, right) = (folder(dir.path(), "l"), folder(dir.path(), "r"));
    let trunk = left.join("trunk");
    let start = |link: &std::path::Path, trunk: Trunk| {
        let state = link.join("switch.json");
        let order = SwitchOrder { state: Some(state.clone()), trunk: Some(trunk), ..order(link) };
        let mut command = order.walled(env!("CARGO_BIN_EXE_bulkhead").as_ref());
        command.stdin(std::process::Stdio::null());
        let running = Running(wall::start(command).unwrap(), state);
        until("the switch is ready", || running.1.exists().then_some(()));
        running
    };
    let switches = [start(&left, Trunk::At(trunk.clone())), start(&right, Trunk::To(trunk.clone()))];
    for switch in &switches {
        until("the trunk", || switch.state().plugs.get(&0).filter(|trunk| trunk.connected).copied());
    }
    for made in [&trunk, &left.join("beat"), &left.join("switch.json"), &right.join("switch.json")] {
        let meta = std::fs::symlink_metadata(made).unwrap();
        let mode = meta.permissions().mode() & 0o7777;
        assert_eq!((mode, meta.uid()), (0o600, nix::unistd::geteuid().as_raw()), "{}", made.display());
    }
}

#[test]
fn nobody_sends_or_answers_from_anothers_internet_address() {
    let dir = tempfile::tempdir().unwrap();
    let link = folder(dir.path(), "a");
    let switch = Running::start(&SwitchOrder { prefix: Some([2, 0x4b, 10, 77, 1]), ..order(&link) });
    let mut stations: Vec<Station> = (1..=3).map(|number| Station::at(&link, number).connected()).collect();
    let head = |kind: [u8; 2]| [&address(3)[..], &address(1), &kind].concat();
    // Station 1 is asked for nobody, and says that it was 2; then sends as 2, also behind a tag.
    let answer = |own: u8| {
        [&[0, 1, 8, 0, 6, 4, 0, 2], &address(1)[..], &[10, 77, 1, own], &address(3), &[10, 77, 1, 3]].concat()
    };
    let packet =
        |own: u8| [&[0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 77, 1, own], &[10, 77, 1, 3][..]].concat();
    let tagged = [&[0, 0, 8, 0], &packet(2)[..]].concat();
    for lie in [
        [head([8, 6]), answer(2)].concat(),
        [head([8, 0]), packet(2)].concat(),
        [head([0x81, 0]), tagged].concat(),
    ] {
        stations[0].send(&lie);
    }
    let truth = [[head([8, 6]), answer(1)].concat(), [head([8, 0]), packet(1)].concat()];
    for frame in &truth {
        stations[0].send(frame);
    }
    for frame in truth {
        assert_eq!(stations[2].receive(), Some(frame), "only what is its own arrives");
    }
    let counts =
        until("the books", || switch.state().plugs.get(&1).copied().filter(|n| n.received_frames == 5));
    assert_eq!(counts.foreign_frames, 3);
}
