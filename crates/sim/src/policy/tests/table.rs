//! Tables against what they say: who owns a cell runs in it, and nobody else while he wants to; what is left goes to those at home.

use std::fmt::Write as _;

use super::{ENDLESS, finish, host, machine, run, shares, vm};
use crate::host::Machine;
use crate::random::Stream;
use crate::time::Span;

fn policy(length_us: u64, second_us: u64, cells: &str) -> String {
    format!("name = \"table\", length_us = {length_us}, second_level_us = {second_us}, cell = [{cells}]")
}

fn cell(cpu: u32, vm: &str, vcpu: Option<u32>, [from, to]: [u64; 2]) -> String {
    let vcpu = vcpu.map_or_else(String::new, |vcpu| format!("vcpu = {vcpu}, "));
    format!("{{ cpu = {cpu}, vm = \"{vm}\", {vcpu}from_us = {from}, to_us = {to} }}, ")
}

fn close(machine: &Machine, right: &[f64]) {
    let got = shares(machine);
    assert!(got.iter().zip(right).all(|(got, right)| (got - right).abs() < 0.005), "{got:?}, not {right:?}");
}

#[test]
fn cells_give_what_they_say_and_the_second_level_what_they_leave() {
    let cells = cell(0, "A", None, [0, 4000]) + &cell(0, "B", None, [4000, 7000]);
    let vms = || vm("A", 1, "", ENDLESS) + &vm("B", 1, "", ENDLESS);
    let mut strict = machine(&(host(1, &policy(10_000, 0, &cells)) + &vms()));
    run(&mut strict, Span::from_secs(1));
    assert_eq!(shares(&strict), [0.4, 0.3]);
    let mut shared = machine(&(host(1, &policy(10_000, 500, &cells)) + &vms()));
    run(&mut shared, Span::from_secs(1));
    close(&shared, &[0.55, 0.45]);
    // C has no cells: all that is left is its and B's, because A is capped.
    let more = vm("A", 1, "capped = true", ENDLESS) + &vm("B", 1, "", ENDLESS) + &vm("C", 1, "", ENDLESS);
    let mut capped = machine(&(host(1, &policy(10_000, 500, &cells)) + &more));
    run(&mut capped, Span::from_secs(1));
    close(&capped, &[0.4, 0.45, 0.15]);
}

#[test]
fn an_owner_that_wakes_in_its_cell_runs_at_once_and_otherwise_waits_for_it() {
    let cells = cell(0, "A", None, [2000, 5000]);
    let task = |offset: u64, jobs: u32| {
        format!(
            "program = \"periodic\", period_us = 10000, offset_us = {offset}, work_us = 1000, jobs = {jobs}"
        )
    };
    for (offset, response) in [(3000, 1000), (2000, 1000), (500, 2500), (4500, 8000)] {
        let vms = vm("A", 1, "capped = true", &task(offset, 3)) + &vm("B", 1, "", ENDLESS);
        let mut woken = machine(&(host(1, &policy(10_000, 300, &cells)) + &vms));
        finish(&mut woken, Span::from_millis(60));
        let seen = &woken.guests()[0].threads()[0].seen.samples;
        assert!(seen.iter().all(|sample| *sample == Span::from_micros(response)), "{offset}: {seen:?}");
    }
}

#[test]
fn a_virtual_cpu_moves_with_its_cells_and_is_away_only_between_them() {
    let cells = cell(0, "A", Some(0), [0, 3000])
        + &cell(1, "A", Some(0), [3000, 6000])
        + &cell(0, "B", None, [3000, 10_000]);
    let gap = "program = \"gap\", piece_us = 100, duration_ms = 100";
    let vms = vm("A", 1, "", gap) + &vm("B", 1, "", ENDLESS) + &vm("C", 1, "cpus = [1]", ENDLESS);
    let mut split = machine(&(host(2, &policy(10_000, 700, &cells)) + &vms));
    finish(&mut split, Span::from_millis(200));
    let away = &split.guests()[0].threads()[0].seen.samples;
    assert!(away.len() >= 9 && away.iter().all(|away| *away == Span::from_millis(4)), "{away:?}");
    close(&split, &[0.6, 0.7, 0.7]);
}

#[test]
fn a_vm_with_several_virtual_cpus_fills_its_cells_on_all_cpus() {
    let cells: String =
        (0..2).map(|cpu| cell(cpu, "A", None, [0, 5000]) + &cell(cpu, "B", None, [5000, 10_000])).collect();
    let vms = vm("A", 2, "", ENDLESS) + &vm("B", 3, "", ENDLESS);
    let mut both = machine(&(host(2, &policy(10_000, 0, &cells)) + &vms));
    run(&mut both, Span::from_secs(1));
    assert_eq!(shares(&both), [1.0, 1.0]);
    let report = both.report();
    // B's three take turns.
    assert!(
        report.vcpus[2..].iter().all(|vcpu| (0.3..0.37).contains(&vcpu.run.as_f64().mul_add(1e-9, 0.0))),
        "{report:?}"
    );
}

/// Cells of one: CPU, beginning, end.
type Cells = Vec<(u64, u64, u64)>;

/// Cells cut at random, owners of a single virtual CPU each, none in two places at once.
fn random(number: u64, second_us: u64) -> (String, Vec<Cells>) {
    let mut random = Stream::new(number, &[22]);
    let mut up_to = |most: u64| 1 + random.below(most);
    let (cpus, vms) = (up_to(4), usize::try_from(1 + up_to(6)).unwrap());
    let length = 2000 + up_to(10_000);
    let mut cuts: Vec<u64> = (0..up_to(12)).map(|_| up_to(length - 1)).chain([0, length]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let (mut cells, mut of) = (String::new(), vec![Vec::new(); vms]);
    for cut in cuts.windows(2) {
        let mut free: Vec<usize> = (0..vms).collect();
        for cpu in 0..cpus {
            let who = usize::try_from(up_to(vms as u64 + 2) - 1).unwrap();
            if let Some(place) = free.iter().position(|vm| *vm == who) {
                free.remove(place);
                of[who].push((cpu, cut[0], cut[1]));
                cells += &cell(u32::try_from(cpu).unwrap(), &format!("V{who}"), None, [cut[0], cut[1]]);
            }
        }
    }
    let mut text = host(u32::try_from(cpus).unwrap(), &policy(length, second_us, &cells));
    for (number, cells) in of.iter().enumerate() {
        let run = match up_to(3) {
            1 => ENDLESS.to_owned(),
            2 => format!("program = \"io\", work_us = {}, wait_us = {}", up_to(3000), up_to(3000)),
            _ => {
                format!("program = \"io\", work_us = {}, wait_us = {}, random = true", up_to(900), up_to(900))
            }
        };
        if !cells.is_empty() || second_us > 0 {
            let _ = write!(text, "{}", vm(&format!("V{number}"), 1, "", &run));
        }
    }
    (text, of)
}

#[test]
fn nobody_else_runs_in_a_cell_but_at_home_and_who_always_wants_has_all_of_his() {
    let mut looked_at = 0;
    for number in 0..200 {
        let second_us = [0, 400][usize::from(number % 2 == 0)];
        let (text, of) = random(number, second_us);
        if of.iter().all(Vec::is_empty) {
            continue;
        }
        let here: Vec<&Cells> = of.iter().filter(|cells| !cells.is_empty() || second_us > 0).collect();
        let mut it = machine(&text);
        it.keep_trace(1_000_000);
        let length =
            text.split("length_us = ").nth(1).unwrap().split(',').next().unwrap().parse::<u64>().unwrap();
        run(&mut it, Span::from_millis(200));
        let stretches = &it.trace().stretches;
        let owner = |cpu: u64, micros: u64| {
            let on = |(_, cells): &(usize, &&Cells)| {
                cells.iter().any(|(on, from, to)| *on == cpu && (*from..*to).contains(&(micros % length)))
            };
            here.iter().enumerate().find(on).map(|(vm, _)| u32::try_from(vm).unwrap())
        };
        for stretch in stretches {
            let micros = stretch.from.nanos() / 1000;
            match owner(stretch.cpu.0.into(), micros) {
                Some(vm) if vm == stretch.vcpu.0 => looked_at += 1,
                // Somebody else: only on the second level, at home.
                other => {
                    let at_home =
                        here[stretch.vcpu.index()].iter().all(|(cpu, ..)| *cpu == u64::from(stretch.cpu.0));
                    assert!(second_us > 0 && at_home, "{other:?} {stretch:?}\n{text}");
                }
            }
        }
        // Endless owners have all of their cells.
        let report = it.report();
        for (vm, cells) in here.iter().enumerate() {
            let endless = it.guests()[vm].threads()[0].seen.done == 0 && second_us == 0;
            let within = |moment: u64| -> u64 {
                let part = |(_, from, to): &(u64, u64, u64)| {
                    (moment / length) * (to - from) + (moment % length).clamp(*from, *to) - from
                };
                cells.iter().map(part).sum()
            };
            if endless && report.vcpus[vm].halted.is_zero() {
                assert_eq!(report.vcpus[vm].run, Span::from_micros(within(200_000)), "VM {vm}\n{text}");
            }
        }
    }
    assert!(looked_at > 5000, "{looked_at}");
}

#[test]
fn what_is_wrong_with_a_table_is_said_where_it_stands() {
    let said = |cells: &str, more: &str| {
        let vms = format!("{}{}", vm("A", 1, more, ENDLESS), vm("B", 2, "", ENDLESS));
        let text = format!("name = \"x\"\n{}{vms}", host(2, &policy(10_000, 0, cells)));
        model::scenario::cases(&text, &[]).map(|_| ()).map_err(|error| error.to_string())
    };
    let (a, b) = (cell(0, "A", None, [0, 5000]), cell(1, "B", None, [0, 5000]));
    assert_eq!(said(&(a.clone() + &b), ""), Ok(()));
    for (cells, more, part) in [
        (a.clone() + &cell(0, "B", None, [4000, 5000]), "", "two cells of CPU 0 overlap"),
        (a.clone() + &b + &cell(1, "A", Some(0), [4000, 6000]), "", "overlap at"),
        (
            b.clone() + &a + &cell(1, "A", Some(0), [5000, 6000]) + &cell(0, "A", None, [5500, 5900]),
            "",
            "on two CPUs",
        ),
        (a.clone(), "", "\"B\""),
        (b.clone() + &cell(0, "C", None, [0, 1]), "", "no VM named \"C\""),
        (b.clone() + &cell(0, "A", Some(1), [0, 1]), "", "virtual CPUs 0 to 0"),
        (b.clone() + &cell(0, "A", None, [5, 5]), "", "from_us < to_us"),
        (b.clone() + &a, "cpus = [1]", "may not use CPU 0"),
        (b.clone() + &a, "latency_us = 100", "nothing is planned"),
    ] {
        let problem = said(&cells, more).unwrap_err();
        let is_said = problem.contains(part) || (part == "\"B\"" && problem.contains("never run"));
        assert!(is_said, "{cells}: {problem}");
    }
}
