//! Limits over a whole run: what a VM has at most, to the nanosecond.
//!
//! ```text
//!  period   ├───────┼───────┼───────┼── ┈┈┈┤       a run ends within a period, whose quota may be used up by then, as may
//!  used     ████     ████     ████    ████│        Linux' (`cpu.max`): so much more than limit × time, once, however long it was
//! ```

use super::{ENDLESS, machine, run, shares, vm};
use crate::time::Span;

/// The most CPUs that a VM with this limit has on average over a run of so long: whole quotas, but for the first period, which is
/// shorter where periods are out of step.
fn most_cpus(limit: f64, period: Span, first: Span, run: Span) -> f64 {
    let whole = run.less(first).nanos().div_ceil(period.nanos());
    limit * (first.as_f64() + (whole * period.nanos()) as f64) / run.as_f64()
}

/// CPUs that a VM with a limit of 1.7 had, beside another one or alone, both without an end.
fn had(policy: &str, vcpus: u32, more: &str, span: Span, is_alone: bool) -> f64 {
    let (name, keys) = policy.split_once(' ').unwrap_or((policy, ""));
    let comma = if keys.is_empty() { "" } else { ", " };
    let host = format!("[host]\ncpus = 4\npolicy = {{ name = \"{name}\"{comma}{keys} }}\n{more}\n");
    let other = if is_alone { String::new() } else { vm("B", 1, "", ENDLESS) };
    let mut machine = machine(&(host + &vm("A", vcpus, "limit_cpus = 1.7", ENDLESS) + &other));
    run(&mut machine, span);
    shares(&machine)[0]
}

#[test]
fn over_a_whole_run_a_limit_is_exceeded_by_no_more_than_what_is_left_of_the_last_period() {
    let ms = Span::from_millis;
    let mut most_above = 0.0f64;
    for (policy, period, in_step) in [
        ("equal-per-vm", 100, false),
        ("proportional", 100, false),
        ("per-thread", 100, false),
        ("eevdf", 100, false),
        ("eevdf queues = \"per-cpu\"", 100, true),
        ("gang", 300, false),
        ("credit", 30, true),
        ("credit queues = \"per-cpu\"", 30, true),
        ("credit2", 10, true),
        ("credit2 queues = \"per-cpu\"", 10, true),
    ] {
        for (span, vcpus) in [(20_000, 2), (20_000, 4), (7_033, 4), (3_977, 3), (145, 4)] {
            for staggered in [false, true] {
                let got = had(policy, vcpus, &format!("staggered = {staggered}"), ms(span), false);
                // A is the first of two.
                let first = if in_step || !staggered { ms(period) } else { ms(period / 2) };
                let most = most_cpus(1.7, ms(period), first, ms(span));
                assert!(got <= most + 1e-6, "{policy}, {vcpus}, {span} ms, {staggered}: {got} of {most}");
                // The same in words that a user can check.
                assert!(most <= 1.7 * (1.0 + period as f64 / span as f64) + 1e-9);
                most_above = most_above.max(got / 1.7 - 1.0);
            }
        }
    }
    println!("at most {most_above:.3} above a limit");
    // There is no less that could be promised: a gang that is wide enough uses up the last quota at once.
    let (got, most) = (had("gang", 4, "", ms(20_000), true), most_cpus(1.7, ms(300), ms(300), ms(20_000)));
    assert!((got / most - 1.0).abs() < 1e-6 && got > 1.708, "{got} of {most}");
    // Over whole periods nothing comes on top.
    let got = had("gang", 4, "", ms(21_000), true);
    assert!((got / 1.7 - 1.0).abs() < 1e-6, "{got}");
}
