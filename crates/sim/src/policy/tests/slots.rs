//! Slots: closed forms of work quanta, yielding, turns, and the dynamic split.

use super::*;

/// Samples of a fixed work quantum beside an endless loop, nine slots of ten.
fn samples(slot_us: u64, work_us: u64, count: u32) -> Vec<f64> {
    let round = "\"A\", \"A\", \"A\", \"A\", \"A\", \"A\", \"A\", \"A\", \"A\", \"io\"";
    let policy = format!("name = \"slots\", slot_us = {slot_us}, round = [{round}]");
    // Pauses of up to one run of slots: the phase is uniform in the application's own time.
    let fwq =
        format!("program = \"fwq\", work_us = {work_us}, samples = {count}, jitter_us = {}", 9 * slot_us);
    let mut machine = machine(&(host(1, &policy) + &vm("A", 1, "", &fwq) + &vm("io", 1, "", ENDLESS)));
    finish(&mut machine, Span::from_secs(1_000_000));
    let seen = machine.guests()[0].threads().swap_remove(0).seen;
    seen.samples.into_iter().map(Span::as_f64).collect()
}

#[test]
fn a_work_quantum_takes_what_the_closed_forms_say() {
    for slot_us in [2_000u64, 20_000, 200_000] {
        for work_us in [5_000, 50_000, 400_000] {
            let count = if slot_us * 100 < work_us { 200 } else { 1_500 };
            let samples = samples(slot_us, work_us, count);
            let (own, gap, work) = (9e3 * slot_us as f64, 1e3 * slot_us as f64, 1e3 * work_us as f64);
            let (gaps, fraction) = ((work / own).ceil(), (work / own).fract());
            let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
            let most = samples.iter().copied().fold(0.0, f64::max);
            let at = format!("slots of {slot_us} us, {work_us} us of work");
            if fraction > 0.0 {
                assert!((least - (work + (gaps - 1.0) * gap)).abs() < 0.5, "{at}: least {least}");
                assert!((most - (work + gaps * gap)).abs() < 0.5, "{at}: most {most}");
            }
            let n = f64::from(count);
            let mean = samples.iter().sum::<f64>() / n;
            let variance = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / n;
            let right = gap * gap * fraction * (1.0 - fraction);
            let error = (right / n).sqrt();
            assert!((mean - work * (own + gap) / own).abs() <= 4.0 * error + 1.0, "{at}: mean {mean}");
            // Standard error of the variance of a two-valued sample: |1 − 2f|·G²·sqrt(f(1−f)/n), and 1/n more.
            let error = (1.0 - 2.0 * fraction).abs() * gap * error + 4.0 * gap * gap / n;
            assert!((variance - right).abs() <= 4.0 * error, "{at}: variance {variance}, not {right}");
        }
    }
}

#[test]
fn slots_are_left_empty_or_yielded_and_given_back() {
    let vms = vm("A", 1, "", ENDLESS)
        + &vm("io", 1, "", "program = \"fwq\", work_us = 100, samples = 10, jitter_us = 0");
    let policy = "name = \"slots\", slot_us = 1000, round = [\"A\", \"A\", \"\", \"io\"]";
    let mut strict = machine(&(host(1, policy) + &vms));
    run(&mut strict, Span::from_secs(1));
    assert!((shares(&strict)[0] - 0.5).abs() < 1e-9 && shares(&strict)[1] < 0.0011, "{:?}", shares(&strict));
    // Only the slot that nobody owns stays empty.
    let mut yields = machine(&(host(1, &format!("{policy}, yield_when_idle = true")) + &vms));
    run(&mut yields, Span::from_secs(1));
    assert!((shares(&yields)[0] - 0.749).abs() < 1e-9, "{:?}", shares(&yields));
}

#[test]
fn virtual_cpus_of_a_vm_on_one_cpu_take_turns() {
    let policy = "name = \"slots\", slot_us = 1000, round = [\"A\", \"B\"]";
    let mut machine = machine(&(host(2, policy) + &vm("A", 5, "", ENDLESS) + &vm("B", 1, "", ENDLESS)));
    run(&mut machine, Span::from_secs(12));
    let ran: Vec<f64> = machine.report().vcpus.iter().map(|vcpu| vcpu.run.as_f64() / 1e9).collect();
    // Virtual CPUs 0, 2, 4 live on CPU 0; 1 and 3 on CPU 1; the only one of B on CPU 0.
    for (got, right) in ran.iter().zip([2.0, 3.0, 2.0, 3.0, 2.0, 6.0]) {
        assert!((got - right).abs() < 0.002, "{ran:?}");
    }
}

#[test]
fn slots_follow_the_load_of_a_dynamic_vm_up_to_half_of_the_round() {
    let policy = |dynamic: &str| {
        let round = "\"A\", \"A\", \"A\", \"A\", \"A\", \"A\", \"A\", \"A\", \"A\", \"io\"";
        format!("name = \"slots\", slot_us = 1000, round = [{round}]{dynamic}")
    };
    let share = |dynamic: &str, io: &str| {
        let mut machine =
            machine(&(host(1, &policy(dynamic)) + &vm("A", 1, "", ENDLESS) + &vm("io", 1, "", io)));
        run(&mut machine, Span::from_secs(10));
        shares(&machine)
    };
    let dynamic = ", dynamic = \"io\"";
    assert!((share("", ENDLESS)[1] - 0.1).abs() < 1e-3);
    let busy = share(dynamic, ENDLESS);
    assert!((busy[1] - 0.5).abs() < 2e-3 && (busy[0] - 0.5).abs() < 2e-3, "{busy:?}");
    // Who has had enough gives everything back but one slot.
    let done = share(dynamic, "program = \"fixed\", work_us = 1000000");
    // A second of work in half of the time, then 0.9 of the other eight seconds.
    assert!((done[0] - 0.82).abs() < 5e-3, "{done:?}");
}

#[test]
fn pinned_virtual_cpus_stay_where_they_may_be() {
    let policy = "name = \"slots\", slot_us = 1000, round = [\"A\", \"B\"]";
    let mut machine = machine(
        &(host(4, policy)
            + &vm("A", 2, "cpus = [2, 3]\npinned = true", ENDLESS)
            + &vm("B", 4, "", "program = \"fixed\", work_us = 5000")),
    );
    finish(&mut machine, Span::from_secs(1));
    assert_eq!(machine.report().wall, Span::from_millis(10));
}
