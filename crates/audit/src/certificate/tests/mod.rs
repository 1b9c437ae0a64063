//! Certificates by hand: right ones, and ones that are wrong at one line.

mod mutants;
mod speed;

use super::*;

/// Three replicas and two nodes, each for one of them; the replicas are alike.
const PIGEONS: &str = "bulkhead-certificate 1
n 1 web-1 a 0
n 2 web-1 a 1
# each somewhere
c 1 1 1 1 2
c 1 1 3 1 4
c 1 1 5 1 6
# a node has one
c 2 1 -1 1 -3 1 -5
c 2 1 -2 1 -4 1 -6
y 3 2 1 1 2 3 4 5 6
u -1 0
x
";

/// On a or b (1, 2), and a costs less; 3 is a second cost that comes with 1.
const COSTS: &str = "bulkhead-certificate 1
n 1 web a 0
n 2 web b 0
c 1 1 1 1 2
c 0 1 -1 1 3
c 1 1 -1 1 3
g hosts 2 1 3 2
g between_hosts 5 3 1 2
o 1 2 9
u -9 0
b 1 2 2
o 2 5 10
b 2 5 5
v 1 3
";

fn checked(text: &str) -> Result<Verdict, Refused> {
    check(text.as_bytes())
}

/// Where a certificate that is changed in one place is refused.
fn refused(text: &str, from: &str, to: &str) -> Refused {
    assert!(text.contains(from), "{from}");
    let changed = text.replacen(from, to, 1);
    checked(&changed).expect_err(&changed)
}

#[test]
fn three_do_not_fit_into_two() {
    assert_eq!(checked(PIGEONS), Ok(Verdict::Infeasible));
    // Four in three, which takes more than a step without the symmetry.
    let four = "bulkhead-certificate 1
c 1 1 1 1 2 1 3
c 1 1 4 1 5 1 6
c 1 1 7 1 8 1 9
c 1 1 10 1 11 1 12
c 3 1 -1 1 -4 1 -7 1 -10
c 3 1 -2 1 -5 1 -8 1 -11
c 3 1 -3 1 -6 1 -9 1 -12
y 4 3 2 1 2 3 4 5 6 7 8 9 10 11 12
u 1 2 0
u 1 0
u 5 0
x
";
    assert_eq!(checked(four), Ok(Verdict::Infeasible));
    assert_eq!(refused(four, "y 4 3 2", "# 4 3 2").line, 10);
    assert_eq!(refused(four, "u 5 0\n", "").line, 12);
    // Holes can be exchanged as well, once the clauses of the first symmetry are not in the way.
    let holes = "y 3 4 1 1 4 7 10 2 5 8 11 3 6 9 12\n";
    assert!(refused(four, "u 1 2 0\n", holes).why.contains("exchange blocks 1 and 2 changes constraint"));
}

#[test]
fn the_best_is_proven_goal_by_goal_with_its_places() {
    let goals = [("hosts", 2), ("between_hosts", 5)];
    let goals = goals.map(|(name, value)| ProvenGoal { name: name.to_owned(), least: value, value });
    let places = vec![Place { replica: "web".to_owned(), host: "a".to_owned(), node: 0 }];
    assert_eq!(checked(COSTS), Ok(Verdict::Optimal { goals: goals.to_vec(), places }));
}

#[test]
fn a_gap_is_told_as_one() {
    let text = COSTS.replace("o 2 5 10\nb 2 5 5", "b 2 0 5");
    let Ok(Verdict::Optimal { goals, .. }) = checked(&text) else { panic!("{:?}", checked(&text)) };
    assert_eq!(goals.iter().map(|goal| (goal.least, goal.value)).collect::<Vec<_>>(), [(2, 2), (0, 5)]);
}

/// 2·(1 + 2) + 1·(-2 + 3) ≥ 2 + 1 is 2·1 + 1·2 + 1·3 ≥ 2.
#[test]
fn sums_cancel_and_round_up() {
    use constraint::{Draft, Sum, Term};
    use words::Lit;
    let term = |coef, variable, is_negative: bool| {
        let lit = Lit::of(variable);
        Term { coef, lit: if is_negative { lit.negated() } else { lit } }
    };
    let parts = [
        Draft::linear(vec![term(1, 1, false), term(1, 2, false)], 1),
        Draft::linear(vec![term(1, 2, true), term(1, 3, false)], 1),
    ];
    let sum = |factors: [u64; 2], divisor| {
        let mut sum = Sum::default();
        for (part, factor) in parts.iter().zip(factors) {
            let part = part.as_ref().expect("fits");
            sum.add(&part.body, part.side, factor).expect("fits");
        }
        sum.divided(divisor).expect("fits")
    };
    let linear = |terms: &[Term], side| Draft::linear(terms.to_vec(), side).expect("fits");
    assert_eq!(sum([2, 1], 1), linear(&[term(2, 1, false), term(1, 2, false), term(1, 3, false)], 2));
    assert_eq!(sum([2, 1], 2), linear(&[term(1, 1, false), term(1, 2, false), term(1, 3, false)], 1));
    assert_eq!(sum([1, 1], 1), linear(&[term(1, 1, false), term(1, 3, false)], 1));
    assert_eq!(sum([1, 3], 2), linear(&[term(1, 1, false), term(1, 2, true), term(2, 3, false)], 2));
    // Odd circle: each two of three, so at least 2 (rounded up from 3/2); no clause says that.
    let circle = "bulkhead-certificate 1\nc 1 1 1 1 2\nc 1 1 2 1 3\nc 1 1 1 1 3\nc 2 1 -1 1 -2 1 -3\n";
    assert_eq!(checked(&format!("{circle}a 2 1 1 1 2 1 3\na 1 1 5 1 4\nx\n")), Ok(Verdict::Infeasible));
    assert_eq!(
        checked(&format!("{circle}a 3 1 1 1 2 1 3\na 1 1 5 1 4\nx\n")).expect_err("rounded to 1").line,
        8
    );
    let negative = "bulkhead-certificate 1\nc -3 1 1\nc 0 1 1\na 2 1 1\nu 1 0\nx\n";
    assert_eq!(checked(negative).expect_err("-3/2 is -1 rounded up").line, 5);
}

#[test]
fn each_wrong_line_is_refused_where_it_stands() {
    for (from, to, line, why) in [
        ("bulkhead-certificate 1", "bulkhead-certificate 2", 1, "begins with"),
        ("n 2 web-1 a 1", "n 1 web-1 a 1", 3, "a name already"),
        ("n 2 web-1 a 1", "n 2 web-1 a 0", 3, "a name already"),
        ("n 2 web-1 a 1", "n 2 web-1 a one", 3, "wanted the number of a node"),
        ("n 2 web-1 a 1", "n 2 web-1 a 1 2", 3, "should have ended"),
        ("# each somewhere", "each somewhere", 4, "lines begin with"),
        ("# each somewhere", "", 4, "after a single blank"),
        ("c 1 1 1 1 2", "c 1 1  1 1 2", 5, "after a single blank"),
        ("c 1 1 1 1 2", "c 1 1 1 0 2", 5, "1 or more"),
        ("c 1 1 1 1 2", "c 1 1 1 -1 2", 5, "wanted a coefficient"),
        ("c 1 1 1 1 2", "c 1 1 1 1 0", 5, "variables are 1 to"),
        ("c 1 1 1 1 2", "c 1 1 1 1 -1", 5, "twice"),
        ("c 1 1 1 1 2", "c 1 1 1 1", 5, "the line has ended"),
        ("c 1 1 1 1 2", "c +1 1 1 1 2", 5, "wanted a right side"),
        ("c 1 1 1 1 2", "c 1 1 1 1 10000001", 5, "variables are 1 to"),
        ("c 1 1 1 1 2", "c 1267650600228229401496703205377 1 1", 5, "too large"),
        ("c 1 1 1 1 2", "c 1 18446744073709551616 1", 5, "beyond belief"),
        // Its image is not there.
        ("c 1 1 3 1 4", "c 1 1 3", 11, "exchange blocks 1 and 2 changes constraint"),
        ("c 1 1 3 1 4", "c 1 1 3 2 4", 11, "exchange blocks 1 and 2 changes constraint"),
        ("c 1 1 3 1 4", "c 2 1 3 1 4", 11, "exchange blocks 1 and 2 changes constraint"),
        ("c 1 1 5 1 6", "c 1 1 5 1 -6", 11, "exchange blocks 2 and 3 changes constraint"),
        ("# a node has one", "g hosts 1 1 1 3 2 5", 11, "exchange blocks 2 and 3 changes goal 1"),
        ("# a node has one", "g hosts 1 -1 1 -3", 11, "exchange blocks 2 and 3 changes goal 1"),
        ("# a node has one", "g hosts 1 1 1 3 1 -5", 11, "exchange blocks 2 and 3 changes goal 1"),
        ("y 3 2 1 1 2 3 4 5 6", "y 3 2 1 1 2 3 4 5 4", 11, "twice"),
        ("y 3 2 1 1 2 3 4 5 6", "y 3 2 3 1 2 3 4 5 6", 11, "1 row"),
        ("y 3 2 1 1 2 3 4 5 6", "y 3 2 1 1 2 3 4 5", 11, "are not 5 variables"),
        ("y 3 2 1 1 2 3 4 5 6", "y 1 6 1 1 2 3 4 5 6", 11, "two blocks"),
        ("y 3 2 1 1 2 3 4 5 6", "y 3 2 1 1 2 4 3 5 6", 11, "exchange blocks 1 and 2"),
        ("y 3 2 1 1 2 3 4 5 6", "y 18446744073709551615 2 1 1 2", 11, "are not 2 variables"),
        ("u -1 0", "u -1", 12, "the line has ended"),
        ("u -1 0", "u -1 0 2", 12, "should have ended"),
        ("u -1 0", "u 0", 12, "does not follow"),
        ("u -1 0", "u -1 1 0", 12, "twice"),
        ("u -1 0", "# nothing", 13, "does not follow"),
        ("u -1 0", "d 6 7", 13, "does not follow"),
        ("u -1 0", "d 5", 12, "is of c"),
        ("u -1 0", "d 8", 12, "there is no constraint 8"),
        ("u -1 0", "d 0", 12, "there is no constraint 0"),
        ("u -1 0", "d 7 7", 12, "was deleted"),
        ("u -1 0", "u -1 0\ny 3 2 1 1 2 3 4 5 6", 13, "too late"),
        ("u -1 0", "u -1 0\nc 1 1 1", 13, "too late"),
        ("u -1 0", "a 1 1 9", 12, "there is no constraint 9"),
        ("u -1 0", "a 0 1 1", 12, "divisors are 1 or more"),
        ("u -1 0", "a 1 0 1", 12, "factors are 1 or more"),
        ("u -1 0", "a 1 -1 1", 12, "wanted a factor"),
        ("u -1 0", "a 1", 12, "sums up nothing"),
        ("u -1 0", "a 1 1 8 1 1", 12, "there is no constraint 8"),
        ("u -1 0", "d 7\na 1 1 7", 13, "was deleted"),
        ("x\n", "x 1\n", 13, "should have ended"),
        ("x\n", "x\nx\n", 14, "was there"),
        ("x\n", "", 13, "without v or x"),
        ("x\n", "v 1 4\n", 13, "does not meet constraint 3"),
    ] {
        let refused = refused(PIGEONS, from, to);
        assert!(refused.why.contains(why), "{from} -> {to}: {refused}");
        assert_eq!(refused.line, line, "{from} -> {to}: {refused}");
    }
}

#[test]
fn each_wrong_bound_is_refused_where_it_stands() {
    for (from, to, line, why) in [
        ("c 1 1 1 1 2", "c 0 1 1 1 2", 10, "does not follow"),
        ("g hosts 2 1 3 2", "g hosts 1 1 3 2", 10, "does not follow"),
        ("g hosts 2 1 3 2", "g hosts 2 1 3 -1", 7, "twice"),
        ("g between_hosts", "g hosts", 8, "there already"),
        ("o 1 2 9", "o 1 3 9", 10, "does not follow"),
        ("o 1 2 9", "o 1 2 3", 9, "is no new one"),
        ("o 1 2 9", "o 3 2 9", 9, "there is no goal 3"),
        ("o 1 2 9", "o 0 2 9", 9, "there is no goal 0"),
        ("u -9 0", "u -9 0\no 1 3 9", 11, "is no new one"),
        // It was named by a clause before it was a selector: that clause could say something of it.
        ("o 1 2 9", "u 1 2 9 0\no 1 2 9", 10, "is no new one"),
        ("b 1 2 2", "b 1 3 3", 11, "no o asks"),
        ("b 1 2 2", "b 2 5 5", 11, "goal 1 is next"),
        ("b 1 2 2", "b 1 2 1", 11, "less than what is least"),
        ("b 1 2 2", "b 1 2 3", 13, "does not follow"),
        ("b 1 2 2", "b 1 0 3", 13, "does not follow"),
        ("b 1 2 2", "b 1 2 2\nb 1 2 2", 12, "goal 2 is next"),
        ("o 2 5 10", "# nothing", 13, "no o asks"),
        ("o 2 5 10", "o 2 6 10", 13, "no o asks"),
        ("b 2 5 5", "b 2 5 5\nd 8", 15, "ends without"),
        ("b 2 5 5", "x", 13, "a goal was ended"),
        ("v 1 3", "v 1", 14, "does not meet constraint 3"),
        ("v 1 3", "v 2", 14, "its hosts is 3, not 2"),
        ("v 1 3", "v 1 2 3", 14, "its hosts is 5, not 2"),
        ("v 1 3", "v 1 3 3", 14, "twice"),
        ("v 1 3", "v 1 3 77", 14, "occurs nowhere"),
        ("v 1 3", "v 1 -3", 14, "wanted a variable"),
        ("v 1 3", "v 1 3\nb 2 5 5", 15, "was there"),
    ] {
        let text = if to.ends_with("d 8") { &COSTS.replace("v 1 3\n", "") } else { COSTS };
        let refused = refused(text, from, to);
        assert!(refused.why.contains(why), "{from} -> {to}: {refused}");
        assert_eq!(refused.line, line, "{from} -> {to}: {refused}");
    }
}

/// A clause of which all but one literal are false already makes that one true, although nothing becomes false any more.
#[test]
fn what_is_added_to_the_root_propagates() {
    let problem = "bulkhead-certificate 1
c 1 1 2
c 1 1 -6
c 1 1 -3 1 4
c 1 1 -3 1 -4 1 6
c 1 1 -2 1 3 1 5
c 1 1 -2 1 3 1 -5
";
    assert_eq!(checked(&format!("{problem}u -2 3 0\nx\n")), Ok(Verdict::Infeasible));
    assert_eq!(checked(&format!("{problem}x\n")).expect_err("it takes a step").line, 8);
}

/// What rests on a clause that is deleted does not outlive it, whether it was found at once or assumed.
#[test]
fn what_is_deleted_is_gone() {
    let problem = "bulkhead-certificate 1\nc 1 1 1 1 2\nc 1 1 -1 1 2\nc 1 1 -2 1 3 1 4\nc 1 1 -2 1 3 1 -4\n";
    let ended = "v 2 3\n";
    let right = format!("{problem}u 2 0\nd 5\nu 2 0\nd 6\n{ended}");
    assert!(checked(&right).is_ok(), "{:?}", checked(&right));
    // 3 follows from 2 alone, which is not found without its clause.
    assert!(checked(&format!("{problem}u 2 0\nu 3 0\n{ended}")).is_ok());
    assert_eq!(checked(&format!("{problem}u 2 0\nd 5\nu 3 0\n{ended}")).expect_err("2 is gone").line, 8);
    // It was propagated by a clause that stays gone when what is left is looked at again.
    let both = format!("{problem}u 2 0\nu 2 5 0\nd 5\nu 3 0\n{ended}");
    assert_eq!(checked(&both).expect_err("2 is gone").line, 9);
    // A sum that cannot be met, which propagation alone does not find.
    let circle = "bulkhead-certificate 1\nc 1 1 1 1 2\nc 1 1 2 1 3\nc 1 1 1 1 3\nc 2 1 -1 1 -2 1 -3\n";
    let sums = format!("{circle}a 2 1 1 1 2 1 3\na 1 1 5 1 4\n");
    assert_eq!(checked(&format!("{sums}d 5\nx\n")), Ok(Verdict::Infeasible));
    assert_eq!(checked(&format!("{sums}d 6\nx\n")).expect_err("6 is gone").line, 9);
    // A conflict, too.
    let conflict = "bulkhead-certificate 1\nc 2 1 1 1 2 1 3\nc 2 1 -1 1 -2 1 -3\n";
    assert_eq!(checked(&format!("{conflict}u 0\n")).expect_err("nothing propagates").line, 4);
    let contradiction = format!("{conflict}u -1 -2 0\nu -1 2 0\nu 1 0\nu 0\n");
    assert_eq!(checked(&format!("{contradiction}x\n")), Ok(Verdict::Infeasible));
    assert_eq!(
        checked(&format!("{contradiction}d 6\nx\n")),
        Ok(Verdict::Infeasible),
        "the empty clause is left"
    );
    let line = |text: String| checked(&text).expect_err(&text).line;
    assert_eq!(line(format!("{contradiction}d 3 4 5 6\nx\n")), 9);
}

/// What has the same hash is still compared.
#[test]
fn constraints_are_the_same_or_not() {
    use constraint::{Draft, Term};
    use words::Lit;
    let terms = |coefs: [u64; 2]| {
        [Term { coef: coefs[0], lit: Lit::of(0) }, Term { coef: coefs[1], lit: Lit::of(1) }]
    };
    let mut engine = engine::Engine::default();
    engine.grow(3);
    engine.add(Draft::linear(terms([2, 3]).to_vec(), 4).expect("fits")).expect("fits");
    let mut scratch = vec![0; 6];
    let mut is_same = |terms: &[Term], side| {
        let is_same = symmetry::is_same(&mut scratch, &engine, 0, terms.iter().copied(), side);
        assert_eq!(scratch, [0; 6]);
        is_same
    };
    let [first, second] = terms([2, 3]);
    assert!(is_same(&[first, second], 4) && is_same(&[second, first], 4));
    let turned = Term { lit: second.lit.negated(), ..second };
    let other = Term { lit: Lit::of(2), ..second };
    for wrong in [terms([3, 2]), [first, turned], [first, other]] {
        assert!(!is_same(&wrong, 4), "{wrong:?}");
    }
    assert!(!is_same(&[first, second], 5) && !is_same(&[first], 4) && !is_same(&[first, second, other], 4));
}

#[test]
fn sizes_are_bounded_and_bytes_are_bytes() {
    let mut long = b"bulkhead-certificate 1\n# ".to_vec();
    long.resize(words::LONGEST_LINE + 100, b'a');
    assert_eq!(check(long.as_slice()).expect_err("too long").line, 2);
    let refused = check(&b"bulkhead-certificate 1\n# \xff\xff\n"[..]).expect_err("no text");
    assert_eq!((refused.line, refused.why.as_str()), (2, "it is no text"));
    assert_eq!(checked("").expect_err("nothing").line, 1);
    let many = (1..=200_000).fold(String::new(), |all, variable| all + &format!(" {variable}"));
    let symmetry = format!("bulkhead-certificate 1\ny 2 100000 100000{many}\n");
    assert!(
        checked(&symmetry).expect_err("too much").why.contains("literals"),
        "a short line may not make gigabytes"
    );
    let most = u64::MAX;
    let large = format!("bulkhead-certificate 1\nc 1 {most} 1 {most} 2\na 1 {most} 1 {most} 1 {most} 1\nx\n");
    assert_eq!(checked(&large).expect_err("no overflow").line, 3);
    let doubled = format!("bulkhead-certificate 1\nc 1 {most} 1\nc 1 {most} 1\na 1 1 1 1 2\nx\n");
    assert!(checked(&doubled).expect_err("no overflow").why.contains("too large"));
    let goal = format!("bulkhead-certificate 1\nc 1 1 1\ng hosts {most} 1 {most} 2\no 1 5 3\nv 1\n");
    assert!(checked(&goal).expect_err("no overflow").why.contains("too large"));
}
