//! Each rule by itself: a plan that keeps it, and what breaks it and nothing else.

mod mutants;
mod others;
mod own;

use super::*;
use crate::fixture::*;

/// The rules are those of the page that says what they are, in its order.
#[test]
fn the_rules_are_those_of_the_page() {
    let page = include_str!("../../../../../docs/plan.md");
    let rows =
        page.lines().skip_while(|line| *line != "## The rules").take_while(|line| *line != "## What is best");
    let words: Vec<&str> = rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(words, Rule::ALL.map(Rule::word));
}

/// One part of a rule is told a hundred times, not as often as there are pairs.
#[test]
fn what_is_told_is_bounded() {
    let text = hosts(&["a"]) + &partition("web", "", "replicas = 64, apart = \"host\"");
    let case = Case::of(&text);
    let plan =
        case.plan((1..=64).map(|replica| at(&format!("web-{replica}"), "a", &[seat(0, "1", 256)])).collect());
    let broken = case.broken(&plan);
    assert_eq!(broken.iter().filter(|broken| broken.rule == Rule::Apart).count(), MOST_TOLD);
    assert_eq!(broken.iter().filter(|broken| broken.rule == Rule::Memory).count(), 1);
}
