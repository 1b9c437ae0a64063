//! From one plan to the next: the steps, in their order.

use std::fmt::Write as _;

use super::args::PlanArgs;
use crate::cli::output;
use model::plan::{Placed, Plan};
use model::system::{KnownHost, System};
use plan::{Step, steps};
use report::text::{paragraph, printable};

/// Steps that are told unless all are wanted.
const MOST_STEPS: usize = 24;

/// The steps in words.
pub(super) fn told(system: &System, hosts: &[KnownHost], from: &Plan, to: &Plan, args: &PlanArgs) -> String {
    let steps = steps(system, hosts, from, to);
    let changed = other_cpus(from, to);
    if steps.is_empty() && changed.is_empty() {
        return "Nothing has to be moved.\n".to_owned();
    }
    let mut out =
        String::from(if steps.is_empty() { "Nothing has to be moved.\n" } else { "Steps, in this order\n" });
    let most = if args.full { usize::MAX } else { MOST_STEPS };
    let columns = output::stdout_style().columns();
    for (number, step) in steps.iter().enumerate().take(most) {
        out.push_str(&paragraph(&format!("  {:>3}. ", number + 1), &printable(&words(step), 600), columns));
    }
    if steps.len() > most {
        let _ = writeln!(out, "  and {} more: --full", steps.len() - most);
    }
    let away: Vec<String> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Start { name, away_ms: Some(ms), .. } => Some(format!("{name} for {ms} ms at least")),
            _ => None,
        })
        .collect();
    if !away.is_empty() {
        item(&mut out, "Away meanwhile: ", &away.join(", "));
    } else if changed.is_empty() {
        item(
            &mut out,
            "Nobody has to be away",
            ", if each is started at its new place before it is ended at the old one (up does not: it ends first, host by host)",
        );
    }
    if !changed.is_empty() {
        item(&mut out, "Started anew, each for other CPUs of its node: ", &changed.join(", "));
    }
    out
}

fn words(step: &Step) -> String {
    match step {
        Step::Move { name, from, to, for_now: false } => format!("{name}: from {from} to {to}"),
        Step::Move { name, from, to, for_now: true } => {
            format!("{name}: from {from} to {to} for now, to make room; it moves on below")
        }
        Step::Stop { name, from } => format!("{name}: ended on {from}, to make room"),
        Step::Start { name, to, .. } => format!("{name}: started on {to}"),
        Step::End { name, from } => format!("{name}: ended on {from}, it is not wanted any more"),
    }
}

/// Those that stay on their nodes and have other CPUs there: `up` ends them and starts them again.
fn other_cpus(from: &Plan, to: &Plan) -> Vec<String> {
    let nodes = |placed: &Placed| placed.seats.iter().map(|seat| seat.node).collect::<Vec<u32>>();
    let changed = |placed: &&Placed| {
        from.partitions.iter().any(|was| {
            was.name == placed.name
                && was.host == placed.host
                && nodes(was) == nodes(placed)
                && was.seats.iter().zip(&placed.seats).any(|(was, is)| was.cpus != is.cpus)
        })
    };
    to.partitions.iter().filter(changed).map(|placed| placed.name.clone()).collect()
}

fn item(out: &mut String, first: &str, words: &str) {
    out.push_str(&paragraph(
        "",
        &printable(&format!("{first}{words}."), 600),
        output::stdout_style().columns(),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_over_a_third_place_is_told_as_one_that_goes_on() {
        let step = |for_now| {
            let [name, from, to] = ["x", "a node 0", "b node 1"].map(str::to_owned);
            words(&Step::Move { name, from, to, for_now })
        };
        assert_eq!(step(false), "x: from a node 0 to b node 1");
        assert_eq!(step(true), "x: from a node 0 to b node 1 for now, to make room; it moves on below");
    }
}
