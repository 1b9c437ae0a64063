//! Measures: see the folder.

use crate::context::Context;
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::params::ExitParams;

/// Measures the traps.
///
/// # Errors
/// The job was to end, the cycle counter cannot be used, or this processor has no such instruction.
#[cfg(target_arch = "x86_64")]
pub fn measure(params: &ExitParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    trap::measure(params, context)
}

/// Refuses.
///
/// # Errors
/// Always: this processor has no such instruction.
#[cfg(not(target_arch = "x86_64"))]
pub fn measure(_params: &ExitParams, _context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    Err(WorkError::Unfit(
        "this processor has no instruction that user space may execute and that always traps to the hypervisor; leave \
         the probe exit out"
            .to_owned(),
    ))
}

#[cfg(target_arch = "x86_64")]
mod trap {
    use core::arch::x86_64::__cpuid;
    use std::hint::black_box;

    use crate::clock::{Anchor, counter_facts, thread_cpu_time, ticks};
    use crate::context::Context;
    use crate::detail::{Detail, ExitDetail};
    use crate::error::WorkError;
    use crate::job::ProbeReport;
    use crate::params::ExitParams;
    use crate::pin::pin_to_last_cpu;
    use crate::workers;
    use units::facts::OwnCost;
    use units::histogram::{BUCKETS, DenseHistogram};
    use units::{Bytes, Hertz};

    /// Pairs of traps and empty reads between two looks at the job's limits: some hundreds of microseconds.
    const PAIRS_PER_LOOK: u32 = 128;
    /// Traps before any is counted.
    const WARM_UP: u32 = 64;
    /// Longest signature of a hypervisor.
    const SIGNATURE_CHARS: usize = 12;

    pub(super) fn measure(params: &ExitParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
        workers::run_one(context.bounds, || measure_here(params, context))
    }

    fn measure_here(params: &ExitParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
        let pinned = pin_to_last_cpu();
        let rough = Anchor::take()?.rate_since()?;
        let (mut traps, mut empty) = (DenseHistogram::new(), DenseHistogram::new());
        for _ in 0..WARM_UP {
            black_box(trap());
            black_box(nothing());
        }
        let cpu_before = thread_cpu_time()?;
        let anchor = Anchor::take()?;
        let span = ticks_of(params, rough);
        let began = ticks();
        while ticks().saturating_sub(began) < span {
            // One kind after the other in turn, so that both see the same machine.
            for _ in 0..PAIRS_PER_LOOK {
                traps.record(trap());
                empty.record(nothing());
            }
            context.bounds.check()?;
        }
        let cpu_time_ns = thread_cpu_time()?.saturating_sub(cpu_before);
        let rate = anchor.rate_since()?;
        let clock = counter_facts(rate);
        let cost = OwnCost {
            per_sample_ns: clock.read_ns,
            cpu_time_ns,
            memory_bytes: Bytes::from_bytes((BUCKETS * 4 * size_of::<u64>()) as u64),
        };
        let detail = ExitDetail {
            instruction: "cpuid".to_owned(),
            counter_hz: rate,
            hypervisor: hypervisor(),
            trap_ticks: traps.to_histogram(),
            empty_ticks: empty.to_histogram(),
        };
        let mut notes: Vec<String> = pinned.note.into_iter().collect();
        notes.push(match &detail.hypervisor {
            Some(name) => format!("the processor says that it runs under a hypervisor: {name}"),
            None => {
                "the processor says that no hypervisor is there: the figures are those of a slow instruction"
                    .to_owned()
            }
        });
        Ok(ProbeReport::new(clock, cost, Detail::Exit(detail), notes))
    }

    fn ticks_of(params: &ExitParams, rate: Hertz) -> u64 {
        let all = u128::from(params.duration_ms.get()) * u128::from(rate.get()) / 1000;
        u64::try_from(all).unwrap_or(u64::MAX)
    }

    /// Ticks around the instruction.
    #[inline]
    fn trap() -> u64 {
        let before = ticks();
        black_box(__cpuid(black_box(0)));
        ticks().saturating_sub(before)
    }

    /// Ticks around nothing.
    #[inline]
    fn nothing() -> u64 {
        let before = ticks();
        ticks().saturating_sub(before)
    }

    /// What the hypervisor calls itself (leaf 0x40000000), if the processor says that there is one (leaf 1, ECX bit 31).
    fn hypervisor() -> Option<String> {
        if __cpuid(1).ecx & (1 << 31) == 0 {
            return None;
        }
        let leaf = __cpuid(0x4000_0000);
        let bytes = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat();
        let text: String =
            bytes.into_iter().map(char::from).filter(char::is_ascii_graphic).take(SIGNATURE_CHARS).collect();
        Some(if text.is_empty() { "it does not say which".to_owned() } else { text })
    }
}
