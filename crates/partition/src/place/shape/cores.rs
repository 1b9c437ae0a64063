//! Cores alike: in plans all cores of a node have the same number of threads, and on hosts not always. An offline thread, a cpuset
//! through a core, a processor with two kinds of cores: then some threads are left out, as few as can be. Pure.

use model::partition::NumberList;

/// The CPUs of each core, all with the same number of threads, and those that are left out for that. Whichever number keeps the most
/// CPUs; the larger one where two keep as many.
pub(super) fn even(cores: &[NumberList]) -> (Vec<NumberList>, NumberList) {
    let most = cores.iter().map(|core| core.numbers().len()).max().unwrap_or(0);
    let kept = |threads: usize| threads * cores.iter().filter(|core| core.numbers().len() >= threads).count();
    let threads = (1..=most).max_by_key(|threads| kept(*threads)).unwrap_or(0);
    let alike = |core: &&NumberList| core.numbers().len() >= threads;
    let first = |core: &NumberList| NumberList::of(core.numbers().iter().copied().take(threads));
    let even: Vec<NumberList> = cores.iter().filter(alike).map(first).collect();
    let is_in = |cpu: &u32| even.iter().any(|core| core.numbers().contains(cpu));
    let left_out = cores.iter().flat_map(NumberList::numbers).copied().filter(|cpu| !is_in(cpu));
    let left_out = NumberList::of(left_out);
    (even, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(cores: &[&str]) -> (String, String) {
        let cores: Vec<NumberList> = cores.iter().map(|core| core.parse().unwrap()).collect();
        let (even, left_out) = even(&cores);
        (even.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "), left_out.to_string())
    }

    #[test]
    fn cores_become_alike_and_as_few_cpus_as_can_be_are_left_out() {
        let pair = |kept: &str, left: &str| (kept.to_owned(), left.to_owned());
        assert_eq!(made(&["0,4", "1,5"]), pair("0,4 1,5", ""));
        // Thread 5 does not run: three of four stay either way but for one of them.
        assert_eq!(made(&["0,4", "1", "2,6"]), pair("0,4 2,6", "1"));
        // Two kinds of cores: 4 + 6 CPUs, of which 8 are more than 4.
        assert_eq!(made(&["0-1", "2-3", "4", "5", "6", "7", "8", "9"]), pair("0 2 4 5 6 7 8 9", "1,3"));
        assert_eq!(made(&["0,4", "1", "2"]), pair("0 1 2", "4"));
        assert_eq!(made(&["0,4", "1", "2", "3,5"]), pair("0,4 3,5", "1-2"));
        assert_eq!(made(&[]), pair("", ""));
    }
}
