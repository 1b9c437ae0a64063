//! Rules for what an agent says the kernel counted.

use super::{Checked, NAME_CHARS, TEXT_CHARS, at_most, text};
use units::accounts::{
    Accounts, InterruptCount, MOST_CPU_ACCOUNTS, MOST_DEVICES, MOST_INTERRUPTS, MOST_SOFT_INTERRUPTS,
    MOST_TRACED,
};

/// Most reasons why something is not known.
const MOST_UNKNOWN: usize = 32;

pub(super) fn accounts(accounts: &Accounts) -> Checked {
    counts("accounts.interrupts", &accounts.interrupts, MOST_INTERRUPTS)?;
    counts("accounts.soft_interrupts", &accounts.soft_interrupts, MOST_SOFT_INTERRUPTS)?;
    at_most("accounts.per_cpu", accounts.per_cpu.len(), MOST_CPU_ACCOUNTS)?;
    if !accounts.per_cpu.windows(2).all(|pair| matches!(pair, [a, b] if a.cpu < b.cpu)) {
        return Err("accounts.per_cpu does not name each CPU once, in ascending order".into());
    }
    at_most("accounts.devices", accounts.devices.len(), MOST_DEVICES)?;
    accounts.devices.iter().try_for_each(|device| text("accounts.devices", &device.name, NAME_CHARS))?;
    at_most("accounts.traced", accounts.traced.len(), MOST_TRACED)?;
    at_most("accounts.traced_late", accounts.traced_late.len(), MOST_TRACED)?;
    for source in accounts.traced.iter().chain(&accounts.traced_late) {
        text("accounts.traced.name", &source.name, NAME_CHARS)?;
        if source.longest_ns > source.total_ns {
            return Err(format!(
                "accounts.traced: one stretch of {} in {} of {:?} in all",
                source.longest_ns, source.total_ns, source.name
            )
            .into());
        }
    }
    if let Some(throttle) = accounts.rt_throttle
        && throttle.runtime_us >= throttle.period_us
    {
        return Err("accounts.rt_throttle throttles nothing: its runtime is not below its period".into());
    }
    at_most("accounts.unknown", accounts.unknown.len(), MOST_UNKNOWN)?;
    accounts.unknown.iter().try_for_each(|reason| text("accounts.unknown", reason, TEXT_CHARS))
}

fn counts(name: &str, counts: &[InterruptCount], most: usize) -> Checked {
    at_most(name, counts.len(), most)?;
    counts.iter().try_for_each(|count| {
        text(name, &count.name, NAME_CHARS)?;
        text(name, &count.about, NAME_CHARS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::accounts::{CpuAccount, DeviceCount, RtThrottle, TracedSource};
    use units::{Micros, Nanos};

    fn interrupt(name: &str) -> InterruptCount {
        InterruptCount { name: name.to_owned(), about: String::new(), count: 1 }
    }

    fn device(name: &str) -> DeviceCount {
        DeviceCount { name: name.to_owned(), reads: 1, writes: 1, busy_ns: Nanos::ZERO }
    }

    fn cpu(cpu: u32) -> CpuAccount {
        CpuAccount { cpu, steal_ns: None, ticks: None, interrupts: None }
    }

    #[test]
    fn honest_books_pass_and_forged_ones_do_not() {
        let honest = Accounts {
            interrupts: vec![interrupt("LOC"); MOST_INTERRUPTS],
            per_cpu: vec![cpu(0), cpu(7)],
            unknown: vec!["steal: hidden".to_owned()],
            ..Accounts::default()
        };
        assert_eq!(accounts(&honest), Ok(()));
        let throttle = RtThrottle { runtime_us: Micros::from_micros(5), period_us: Micros::from_micros(5) };
        let traced = TracedSource {
            name: "x".to_owned(),
            count: 1,
            total_ns: Nanos::from_nanos(1),
            longest_ns: Nanos::from_nanos(2),
        };
        let forged = [
            (
                Accounts { interrupts: vec![interrupt("LOC"); MOST_INTERRUPTS + 1], ..Accounts::default() },
                "33 where 32",
            ),
            (
                Accounts { soft_interrupts: vec![interrupt("\u{1b}[m")], ..Accounts::default() },
                "control character",
            ),
            (Accounts { per_cpu: vec![cpu(7), cpu(7)], ..Accounts::default() }, "ascending"),
            (Accounts { devices: vec![device("\u{1b}[m")], ..Accounts::default() }, "control character"),
            (
                Accounts { devices: vec![device("sda"); MOST_DEVICES + 1], ..Accounts::default() },
                "17 where 16",
            ),
            (Accounts { traced: vec![traced], ..Accounts::default() }, "one stretch"),
            (Accounts { rt_throttle: Some(throttle), ..Accounts::default() }, "throttles nothing"),
            (Accounts { unknown: vec!["x".repeat(TEXT_CHARS + 1)], ..Accounts::default() }, "are allowed"),
        ];
        for (books, wanted) in forged {
            let error = accounts(&books).unwrap_err();
            assert!(error.to_string().contains(wanted), "{error}");
        }
    }
}
