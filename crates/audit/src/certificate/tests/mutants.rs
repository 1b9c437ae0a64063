//! Certificates of small random problems, written by trying everything; all of them are accepted. Then they are changed at random, and what
//! is still accepted must be true of the problem that they have become, again by trying everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::*;
use crate::random::Random;

/// Most variables of a problem that is tried out.
const MOST_TRIED: usize = 12;

type Terms = Vec<(i128, i64)>;

/// What `c` and `g` lines say.
#[derive(Debug, Default)]
struct Problem {
    constraints: Vec<(i128, Terms)>,
    goals: Vec<Terms>,
}

fn is_true(solution: &BTreeSet<i64>, lit: i64) -> bool {
    solution.contains(&lit.abs()) == (lit > 0)
}

fn sum(terms: &Terms, solution: &BTreeSet<i64>) -> i128 {
    terms.iter().filter(|(_, lit)| is_true(solution, *lit)).map(|(coef, _)| *coef).sum()
}

impl Problem {
    /// Of the lines of a certificate, those that it states come first; none if one is not as it should be.
    fn of(text: &str) -> Self {
        let mut problem = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let Some(words) = words.get(2..).filter(|_| line.starts_with("c ") || line.starts_with("g "))
            else {
                continue;
            };
            let terms =
                words.chunks(2).filter_map(|two| Some((two[0].parse().ok()?, two.get(1)?.parse().ok()?)));
            let terms: Terms = terms.collect();
            match line.split(' ').nth(1).filter(|_| line.starts_with("c ")) {
                Some(side) => problem.constraints.extend(side.parse().ok().map(|side| (side, terms))),
                None => problem.goals.push(terms),
            }
        }
        problem
    }

    fn variables(&self) -> Vec<i64> {
        let terms = self.constraints.iter().map(|(_, terms)| terms).chain(&self.goals).flatten();
        terms.map(|(_, lit)| lit.abs()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// What each solution is worth by each goal; none if there are too many to try.
    fn worths(&self) -> Option<Vec<(Vec<i128>, BTreeSet<i64>)>> {
        let variables = self.variables();
        if variables.len() > MOST_TRIED {
            return None;
        }
        let solutions = (0..1_u32 << variables.len()).map(|bits| {
            let chosen = variables.iter().enumerate().filter(|(place, _)| bits >> place & 1 == 1);
            chosen.map(|(_, variable)| *variable).collect::<BTreeSet<i64>>()
        });
        let met = solutions
            .filter(|solution| self.constraints.iter().all(|(side, terms)| sum(terms, solution) >= *side));
        Some(
            met.map(|solution| (self.goals.iter().map(|goal| sum(goal, &solution)).collect(), solution))
                .collect(),
        )
    }

    /// What is false of a verdict, by trying everything.
    fn lie(&self, verdict: &Verdict) -> Option<String> {
        let worths = self.worths()?;
        let Verdict::Optimal { goals, .. } = verdict else {
            return worths.first().map(|(_, solution)| format!("there is a solution: {solution:?}"));
        };
        let have: Vec<i128> = goals.iter().map(|goal| goal.value.into()).collect();
        if !worths.iter().any(|(worth, _)| worth.starts_with(&have)) {
            return Some(format!("no solution is worth {have:?}"));
        }
        for (place, goal) in goals.iter().enumerate() {
            let as_good =
                |worth: &[i128]| worth.iter().zip(&have).take(place).all(|(worth, most)| worth <= most);
            let below =
                worths.iter().find(|(worth, _)| as_good(worth) && worth[place] < i128::from(goal.least));
            if let Some((worth, solution)) = below {
                return Some(format!("{solution:?} is worth {worth:?}"));
            }
        }
        None
    }
}

/// Writes a certificate by trying everything.
struct Writer {
    text: String,
    problem: Problem,
    variables: Vec<i64>,
    /// The number of the last constraint.
    last: usize,
    random: Random,
}

impl Writer {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{line}");
    }

    /// Whether what is chosen already rules a constraint out, or a goal that is to be at most so much.
    fn is_ruled_out(&self, chosen: &[i64], bounds: &[(usize, i128)]) -> bool {
        let can = |lit: i64| !chosen.contains(&-lit);
        let must = |lit: i64| chosen.contains(&lit);
        let largest = |terms: &Terms| -> i128 {
            terms.iter().filter(|(_, lit)| can(*lit)).map(|(coef, _)| *coef).sum()
        };
        let least = |terms: &Terms| -> i128 {
            terms.iter().filter(|(_, lit)| must(*lit)).map(|(coef, _)| *coef).sum()
        };
        self.problem.constraints.iter().any(|(side, terms)| largest(terms) < *side)
            || bounds.iter().any(|(goal, bound)| least(&self.problem.goals[*goal]) > *bound)
    }

    /// Derives that nothing goes with what is chosen, and with the selector. Returns the number of that.
    fn refute(&mut self, chosen: &mut Vec<i64>, bounds: &[(usize, i128)], selector: Option<i64>) -> usize {
        let mut parts = Vec::new();
        if let Some(variable) =
            self.variables.get(chosen.len()).copied().filter(|_| !self.is_ruled_out(chosen, bounds))
        {
            for lit in [variable, -variable] {
                chosen.push(lit);
                parts.push(self.refute(chosen, bounds, selector));
                chosen.pop();
            }
        }
        let clause: String =
            chosen.iter().chain(&selector).fold(String::new(), |all, lit| all + &format!("{} ", -lit));
        self.line(&format!("u {clause}0"));
        self.last += 1;
        let number = self.last;
        if !parts.is_empty() && self.random.below(2) == 0 {
            let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
            self.line(&format!("d {}", parts.join(" ")));
        }
        number
    }

    /// All lines after those that state the problem.
    fn prove(&mut self, selectors: i64) {
        if self.random.below(2) == 0 {
            let ids: Vec<usize> = (0..3).map(|_| 1 + self.random.below(self.last)).collect();
            let divisor = 1 + self.random.below(3);
            self.line(&format!("a {divisor} 1 {} 2 {} 1 {}", ids[0], ids[1], ids[2]));
            self.last += 1;
        }
        let worths = self.problem.worths().expect("it is small");
        let Some((best, solution)) = worths.into_iter().min() else {
            self.refute(&mut Vec::new(), &[], None);
            return self.line("x");
        };
        let mut bounds: Vec<(usize, i128)> = Vec::new();
        for (goal, value) in best.iter().enumerate() {
            let selector = selectors + i64::try_from(goal).expect("few");
            if *value > 0 {
                self.line(&format!("o {} {value} {selector}", goal + 1));
                self.last += 1;
                bounds.push((goal, value - 1));
                self.refute(&mut Vec::new(), &bounds, Some(selector));
                bounds.pop();
            }
            self.line(&format!("b {} {value} {value}", goal + 1));
            self.last += 1;
            bounds.push((goal, *value));
        }
        let solution: Vec<String> = solution.iter().map(ToString::to_string).collect();
        self.line(&["v".to_owned()].into_iter().chain(solution).collect::<Vec<_>>().join(" "));
    }
}

fn write_terms(random: &mut Random, variables: i64, side: Option<i64>) -> String {
    let mut line = side.map_or(String::new(), |side| format!("c {side}"));
    for variable in 1..=variables {
        if random.below(2) == 0 {
            let lit = if random.below(2) == 0 { variable } else { -variable };
            let _ = write!(line, " {} {lit}", 1 + random.below(3));
        }
    }
    line
}

/// The images of a line of `c` when blocks of two variables each are exchanged, itself among them.
fn images(line: &str, blocks: i64) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut open = vec![line.to_owned()];
    while let Some(line) = open.pop() {
        if !all.insert(line.clone()) {
            continue;
        }
        for block in 0..blocks - 1 {
            let mut words: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
            let mut terms: Vec<(i64, String)> = words
                .split_off(2)
                .chunks(2)
                .map(|two| {
                    let lit: i64 = two[1].parse().expect("a literal");
                    let shift = match (lit.abs() - 1) / 2 - block {
                        0 => 2,
                        1 => -2,
                        _ => 0,
                    };
                    (lit + shift * lit.signum(), two[0].clone())
                })
                .collect();
            terms.sort_by_key(|(lit, _)| lit.abs());
            words.extend(terms.into_iter().flat_map(|(lit, coef)| [coef, lit.to_string()]));
            open.push(words.join(" "));
        }
    }
    all
}

/// A certificate of a random problem.
fn certificate(seed: u64) -> String {
    let mut random = Random::new(seed);
    let (blocks, spare) = (2 + random.below(2), random.below(2));
    let variables = blocks * 2 + spare;
    let is_symmetric = random.below(2) == 0;
    let mut text = format!("{HEADER}\nn 1 web a 0\n");
    let mut stated = BTreeSet::new();
    for _ in 0..=random.below(4) {
        let side = random.below(6) - 1;
        let line = write_terms(&mut random, variables, Some(side));
        stated.extend(if is_symmetric { images(&line, blocks) } else { BTreeSet::from([line]) });
    }
    let mut last = stated.len();
    for line in stated {
        let _ = writeln!(text, "{line}");
    }
    for goal in 0..random.below(3) {
        let alike: String =
            (1..=blocks * 2).fold(String::new(), |all, variable| all + &format!(" 2 {variable}"));
        let terms = if is_symmetric { alike } else { write_terms(&mut random, variables, None) };
        let _ = writeln!(text, "g goal-{goal}{terms}");
    }
    let rows = 1 + random.below(2);
    let symmetry: String =
        (1..=blocks * 2).fold(String::new(), |all, variable| all + &format!(" {variable}"));
    let symmetry = format!("y {blocks} 2 {rows}{symmetry}\n");
    let ends = checked(&format!("{text}{symmetry}")).expect_err("it proves nothing yet").why;
    assert!(!is_symmetric || ends.contains("without v or x"), "seed {seed}: {ends}\n{text}{symmetry}");
    if ends.contains("without v or x") {
        text.push_str(&symmetry);
        last += usize::try_from((blocks - 1) * rows).expect("few");
    }
    let problem = Problem::of(&text);
    let tried = (1..=variables).collect();
    let mut writer = Writer { text, problem, variables: tried, last, random };
    writer.prove(variables + 1);
    writer.text
}

/// The text with one thing in it changed.
fn mutated(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
    let place = 1 + random.below(lines.len() - 1);
    // Those that state or conclude are few, and most worth changing.
    let is_few = |line: &String| !line.starts_with("u ") && !line.starts_with("d ");
    let few: Vec<usize> = (1..lines.len()).filter(|place| is_few(&lines[*place])).collect();
    let place = if random.below(2) == 0 { few[random.below(few.len())] } else { place };
    match random.below(8) {
        0 => drop(lines.remove(place)),
        1 => lines.insert(place, lines[place].clone()),
        2 => {
            let other = 1 + random.below(lines.len() - 1);
            lines.swap(place, other);
        }
        3 => {
            let line: String = lines[place].chars().rev().skip_while(|char| *char != ' ').skip(1).collect();
            lines[place] = line.chars().rev().collect();
        }
        _ => {
            let mut words: Vec<String> = lines[place].split(' ').map(ToOwned::to_owned).collect();
            let numbers: Vec<usize> =
                (1..words.len()).filter(|word| words[*word].parse::<i64>().is_ok()).collect();
            if let Some(word) = numbers.get(random.below(numbers.len().max(1))) {
                let number: i64 = words[*word].parse().expect("it is one");
                let changed = [number + 1, number - 1, -number, random.below(9)][random.below(4)];
                words[*word] = changed.to_string();
            }
            lines[place] = words.join(" ");
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn what_was_proven_by_trying_is_accepted_and_nothing_false_is() {
    let mut random = Random::new(21);
    let (mut kinds, mut accepted, mut refused) = (BTreeMap::<bool, u32>::new(), 0, 0);
    for seed in 0..400 {
        let text = certificate(seed);
        let verdict = checked(&text).unwrap_or_else(|refused| panic!("seed {seed}: {refused}\n{text}"));
        assert_eq!(Problem::of(&text).lie(&verdict), None, "seed {seed}\n{text}");
        *kinds.entry(verdict == Verdict::Infeasible).or_default() += 1;
        for _ in 0..60 {
            let mut changed = mutated(&text, &mut random);
            if random.below(4) == 0 {
                changed = mutated(&changed, &mut random);
            }
            if let Ok(verdict) = checked(&changed) {
                accepted += 1;
                let lie = Problem::of(&changed).lie(&verdict);
                assert_eq!(lie, None, "seed {seed}: {verdict:?}\n{changed}");
            } else {
                refused += 1;
            }
        }
    }
    assert!(kinds.values().all(|count| *count > 50) && kinds.len() == 2, "{kinds:?}");
    assert!(accepted > 1000 && refused > 1000, "{accepted} accepted, {refused} refused");
}

#[test]
fn whatever_bytes_come_there_is_an_answer() {
    let mut random = Random::new(5);
    let words = [
        "c",
        "g",
        "y",
        "a",
        "u",
        "d",
        "o",
        "b",
        "v",
        "x",
        "n",
        "#",
        "0",
        "1",
        "-1",
        "2",
        "3",
        "-7",
        "12",
        "9999999",
        "18446744073709551615",
        "-9223372036854775808",
        "170141183460469231731687303715884105727",
        "-170141183460469231731687303715884105728",
        "\n",
        "\n",
        "\n",
        "\nc",
        "\nu",
        "\na",
        "\ny",
        "\nd",
        "hosts",
        "",
    ];
    let mut answers = BTreeSet::new();
    for _ in 0..20_000 {
        let mut bytes = if random.below(8) == 0 { Vec::new() } else { format!("{HEADER}\n").into_bytes() };
        for _ in 0..random.below(60) {
            if random.below(20) == 0 {
                bytes.push(u8::try_from(random.below(256)).expect("a byte"));
            } else {
                bytes.extend(words[random.below(words.len())].bytes());
                if bytes.last() != Some(&b'\n') {
                    bytes.push(b' ');
                }
            }
            if bytes.last() == Some(&b' ') && random.below(3) == 0 {
                bytes.pop();
                bytes.push(b'\n');
            }
        }
        match check(bytes.as_slice()) {
            Ok(_) => answers.insert(0),
            Err(refused) => answers.insert(refused.line.min(5)),
        };
    }
    assert!(answers.len() >= 5, "lines that were refused: {answers:?}");
}
