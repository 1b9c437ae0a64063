//! What is believed of the ftq probe's outcome, and whether it saw anything at all.

use crate::check::{Checked, MOST_VALUES, at_most, because, some_time};
use crate::detail::FtqDetail;

pub(crate) fn check(detail: &FtqDetail) -> Checked {
    some_time("ftq.quantum_ns", detail.quantum_ns)?;
    at_most("ftq.work", detail.work.len(), MOST_VALUES)
}

pub(crate) fn saw_nothing(detail: &FtqDetail) -> Option<String> {
    because(detail.work.iter().all(|work| *work == 0), "no work was done in any quantum")
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Nanos;

    #[test]
    fn quanta_without_a_length_are_refused() {
        let quanta =
            |length| FtqDetail { quantum_ns: Nanos::from_nanos(length), cpu: None, work: vec![1; 100] };
        assert_eq!(check(&quanta(1)), Ok(()));
        assert!(check(&quanta(0)).is_err());
    }
}
