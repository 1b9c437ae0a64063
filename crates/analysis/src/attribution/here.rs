//! The kernel's counters of the CPUs on which a probe ran, and how to call that place.

use units::Nanos;
use units::accounts::{Accounts, CpuAccount, InterruptCount};

/// CPUs that are named one by one.
const MOST_NAMED: usize = 4;

/// The counters that concern the CPUs of the probe. What one of them does not say is none.
pub(super) struct Here {
    pub(super) steal: Option<Nanos>,
    pub(super) ticks: Option<u64>,
    pub(super) others: Option<u64>,
    /// `CPU 3`, or `all CPUs` where only sums are known.
    pub(super) place: String,
    /// The busiest kinds of interrupts, for the evidence.
    pub(super) names: String,
}

impl Here {
    /// `cpus` are those on which the probe ran for `observed`; empty when that is not known.
    pub(super) fn of(cpus: &[u32], observed: Nanos, accounts: &Accounts) -> Self {
        let own: Vec<&CpuAccount> =
            accounts.per_cpu.iter().filter(|account| cpus.contains(&account.cpu)).collect();
        if own.is_empty() {
            return Self::anywhere(observed, accounts);
        }
        let sum = |of: &dyn Fn(&CpuAccount) -> Option<u64>| {
            own.iter().try_fold(0u64, |sum, account| Some(sum.saturating_add(of(account)?)))
        };
        let all_but_ticks =
            |account: &CpuAccount| Some(account.interrupts?.saturating_sub(account.ticks.unwrap_or(0)));
        let numbers: Vec<String> = own.iter().map(|account| account.cpu.to_string()).collect();
        let place = match numbers.as_slice() {
            [one] => format!("CPU {one}"),
            several if several.len() <= MOST_NAMED => format!("CPUs {}", several.join(", ")),
            many => format!("the {} CPUs of the probe", many.len()),
        };
        Self {
            steal: sum(&|account| account.steal_ns.map(Nanos::get)).map(Nanos::from_nanos),
            ticks: sum(&|account| account.ticks),
            others: sum(&all_but_ticks),
            place,
            names: busiest(accounts),
        }
    }

    /// Only sums over all CPUs are known: they are upper limits of what happened on one.
    fn anywhere(observed: Nanos, accounts: &Accounts) -> Self {
        let counts = accounts.interrupts.iter().filter(|row| row.name != "LOC");
        let others = counts.fold(0u64, |sum, row| sum.saturating_add(row.count));
        let ticks = accounts.tick_hz.map(|hz| units::metric::saturate(hz.as_f64() * observed.as_secs_f64()));
        Self {
            steal: accounts.steal_ns,
            ticks,
            others: (!accounts.interrupts.is_empty()).then_some(others),
            place: "all CPUs".to_owned(),
            names: busiest(accounts),
        }
    }
}

/// `RES, 36 (virtio1-req.0)`: the most frequent interrupts besides the timer.
fn busiest(accounts: &Accounts) -> String {
    let is_timer = |row: &InterruptCount| row.name == "LOC" || row.about.ends_with("arch_timer");
    let names: Vec<String> = accounts
        .interrupts
        .iter()
        .filter(|row| !is_timer(row))
        .take(3)
        .map(|row| match row.about.rsplit(' ').next() {
            Some(device) if row.name.bytes().all(|b| b.is_ascii_digit()) && !device.is_empty() => {
                format!("{} ({device})", row.name)
            }
            _ => row.name.clone(),
        })
        .collect();
    names.join(", ")
}
