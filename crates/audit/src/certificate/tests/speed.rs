//! A certificate as large as that of a large system: it is checked in seconds.

use std::fmt::Write as _;

use super::*;
use crate::random::Random;

/// Variables in chains in which each one makes the next one true, and sums of which none is far from being tight. Every pair of a chain
/// is a line: the first one makes the second one true.
#[test]
fn two_hundred_thousand_steps_are_checked() {
    let (chains, length) = (50, 100);
    let mut random = Random::new(7);
    let mut text = format!("{HEADER}\n");
    for variable in (1..=chains * length).filter(|variable| variable % length != 0) {
        let _ = writeln!(text, "c 1 1 -{variable} 1 {}", variable + 1);
    }
    for _ in 0..5000 {
        let terms: std::collections::BTreeSet<u64> =
            (0..50).map(|_| 1 + random.below(chains * length)).collect();
        let _ = write!(text, "c {}", terms.len() / 2);
        for variable in &terms {
            // All of them true is a solution.
            let _ = write!(text, " {} {variable}", 1 + random.below(3));
        }
        text.push('\n');
    }
    let mut steps = 0;
    for chain in 0..chains {
        for first in 1..length {
            for last in (first + 1..=length).filter(|last| (first + last) % 6 != 0) {
                let _ = writeln!(text, "u -{} {} 0", chain * length + first, chain * length + last);
                steps += 1;
            }
        }
    }
    assert!(steps > 200_000, "{steps}");
    let all: String =
        (1..=chains * length).fold(String::new(), |all, variable| all + &format!(" {variable}"));
    let _ = writeln!(text, "v{all}");
    assert!(checked(&text).is_ok());
    // A step the wrong way round is found among all of them.
    let wrong = text.replacen("\nu -201 203 0", "\nu -203 201 0", 1);
    assert!(checked(&wrong).expect_err("it does not follow").claimed.starts_with("u -203"));
}
