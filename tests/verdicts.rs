//! The judge of the figures: obvious cases, and intervals against brute force.

use crate::verdict;

use bulkhead::units::metric::{Answer, Estimate};
use verdict::{Judge, Mark, Verdict, described, share_interval};

#[test]
fn the_whole_interval_keeps_a_mark_or_misses_it_or_nothing_is_decided() {
    let most = Mark::AtMost(1.15);
    assert_eq!(most.judge((1.0, 1.15)), Verdict::Met);
    assert_eq!(most.judge((1.1, 1.2)), Verdict::NotDecided, "the median may keep it, the interval does not");
    assert_eq!(most.judge((1.16, 1.2)), Verdict::Missed);
    let least = Mark::AtLeast(0.97);
    assert_eq!(least.judge((0.97, 2.0)), Verdict::Met);
    assert_eq!(least.judge((0.9, 0.99)), Verdict::NotDecided);
    assert_eq!(least.judge((0.9, 0.96)), Verdict::Missed);
    let within = Mark::Within(0.95, 1.05);
    assert_eq!(within.judge((0.96, 1.04)), Verdict::Met);
    assert_eq!(within.judge((0.31, 2.0)), Verdict::NotDecided, "more noise passes nothing");
    assert_eq!((within.judge((0.5, 0.9)), within.judge((1.1, 2.0))), (Verdict::Missed, Verdict::Missed));
    assert_eq!(within.judge((f64::NAN, f64::NAN)), Verdict::NotDecided);
}

/// On a grid, every interval there is, against what each of its points says.
#[test]
fn a_verdict_is_what_every_point_of_the_interval_says() {
    let grid = || (0..=20).map(|step| f64::from(step) / 10.0);
    for mark in [Mark::AtMost(0.95), Mark::AtLeast(0.95), Mark::Within(0.45, 1.35)] {
        for low in grid() {
            for high in grid().filter(|high| *high >= low) {
                let points: Vec<Verdict> = grid()
                    .filter(|point| (low..=high).contains(point))
                    .map(|point| mark.judge((point, point)))
                    .collect();
                let all = |wanted| points.iter().all(|verdict| *verdict == wanted);
                // An interval that begins below and ends above misses nowhere and everywhere: it decides nothing.
                let wanted = if all(Verdict::Met) {
                    Verdict::Met
                } else if all(Verdict::Missed) {
                    Verdict::Missed
                } else {
                    Verdict::NotDecided
                };
                assert_eq!(mark.judge((low, high)), wanted, "{mark} {low} {high}");
            }
        }
    }
}

#[test]
fn a_missed_figure_decides_the_code_then_one_that_is_not_decided_and_none_is_no_verdict() {
    let code = |verdicts: &[Verdict]| {
        let mut judge = Judge::default();
        for verdict in verdicts {
            judge.heard(*verdict);
        }
        judge.code()
    };
    assert_eq!(code(&[]), 4, "nothing was judged");
    assert_eq!(code(&[Verdict::Met, Verdict::Met]), 0);
    assert_eq!(code(&[Verdict::Met, Verdict::NotDecided]), 4);
    assert_eq!(code(&[Verdict::NotDecided, Verdict::Missed, Verdict::Met]), 1);
}

#[test]
fn rounds_are_judged_by_the_interval_of_their_median_and_not_by_the_median() {
    let judged = |values: &[f64], mark| Judge::default().rounds("ratio", values, mark);
    assert_eq!(judged(&[0.3, 0.31, 0.29, 0.3, 0.32, 0.3], Mark::AtMost(0.45)), Verdict::Met);
    assert_eq!(judged(&[0.3, 0.9, 0.2, 0.35, 0.8, 0.3], Mark::AtMost(0.45)), Verdict::NotDecided);
    assert_eq!(judged(&[0.6, 0.61, 0.59, 0.6, 0.62, 0.6], Mark::AtMost(0.45)), Verdict::Missed);
}

#[test]
fn two_rounds_have_no_interval_however_near_they_are() {
    let judged = |values: &[f64]| Judge::default().rounds("ratio", values, Mark::AtLeast(0.5));
    assert_eq!([judged(&[1.28, 1.28]), judged(&[0.1]), judged(&[])], [Verdict::NotDecided; 3]);
    let text = described(&[1.21, 1.32]);
    assert!(text.contains("2 rounds: no interval") && !text.contains('['), "{text}");
    assert!(described(&[1.0, 1.1, 1.2]).contains("3 rounds") && described(&[1.0, 1.1, 1.2]).contains('['));
    let two = Answer::Estimate(Estimate { value: 1.0, low: 1.0, high: 1.0, confidence: 0.95 });
    assert_eq!(Judge::default().answer("ratio", &two, 2, Mark::AtMost(2.0)), Verdict::NotDecided);
    assert_eq!(Judge::default().answer("ratio", &two, 3, Mark::AtMost(2.0)), Verdict::Met);
}

#[test]
fn a_share_is_as_certain_as_its_number_of_trials_allows() {
    let judged = |hits, of| Judge::default().share("runs", hits, of, Mark::AtLeast(0.95));
    assert_eq!(judged(3, 3), Verdict::NotDecided, "3 of 3 say next to nothing");
    assert_eq!(judged(99, 100), Verdict::NotDecided);
    assert_eq!(judged(100, 100), Verdict::Met);
    assert_eq!(judged(80, 100), Verdict::Missed);
    assert_eq!(judged(0, 0), Verdict::NotDecided);
}

/// Sums all outcomes of `of` throws one by one, by Pascal's triangle.
fn chance(of: u32, rate: f64) -> Vec<f64> {
    let mut row = vec![1.0];
    for _ in 0..of {
        let mut next = vec![0.0; row.len() + 1];
        for (hits, chance) in row.iter().enumerate() {
            next[hits] += chance * (1.0 - rate);
            next[hits + 1] += chance * rate;
        }
        row = next;
    }
    row
}

#[test]
fn the_interval_of_a_share_holds_the_truth_in_at_least_95_of_100_cases() {
    for of in [1, 3, 20, 100] {
        let spans: Vec<(f64, f64)> = (0..=of).map(|hits| share_interval(hits, of)).collect();
        for step in 1..200 {
            let rate = f64::from(step) / 200.0;
            let held: f64 = chance(of, rate)
                .iter()
                .zip(&spans)
                .filter(|(_, (low, high))| (*low..=*high).contains(&rate))
                .map(|(chance, _)| chance)
                .sum();
            assert!(held >= 0.95 - 1e-9, "{of} trials at {rate}: {held}");
        }
    }
    // Printed tables (Clopper and Pearson 1934): 99 of 100 and 20 of 20.
    let near = |got: f64, wanted: f64| assert!((got - wanted).abs() < 5e-4, "{got} {wanted}");
    near(share_interval(99, 100).0, 0.9455);
    near(share_interval(20, 20).0, 0.8316);
    near(share_interval(3, 3).0, 0.2924);
}

#[test]
fn a_promise_is_broken_by_one_failure_and_says_what_could_go_unseen() {
    let mut judge = Judge::default();
    assert_eq!(judge.never("lost", 0, 107), Verdict::Met);
    assert_eq!(judge.never("lost", 1, 107), Verdict::Missed);
    assert_eq!(judge.never("lost", 0, 0), Verdict::NotDecided);
    // The fewer trials, the less they say.
    assert_eq!(judge.never("lost", 0, 58), Verdict::NotDecided);
    assert_eq!(judge.never("lost", 0, 59), Verdict::Met);
    assert_eq!(judge.never("lost", 1, 1), Verdict::Missed);
    assert_eq!(judge.exact("bytes", 190.0, Mark::AtMost(200.0)), Verdict::Met);
    assert_eq!(judge.not_taken("against oslat", "it is not installed"), Verdict::NotDecided);
}

#[test]
fn a_printed_line_is_read_back() {
    let of = Verdict::of_line;
    assert_eq!(of("figure: gap loop: 1.07 [1.06 … 1.08], 9 rounds; mark ≤ 1.15: met"), Some(Verdict::Met));
    assert_eq!(of("figure: x: 2 rounds: no interval; mark ≤ 1: not decided\n"), Some(Verdict::NotDecided));
    assert_eq!(of("figure: x: 3; mark ≤ 1: missed"), Some(Verdict::Missed));
    assert_eq!((of("verdict: met"), of("figure: half a li")), (None, None));
}
