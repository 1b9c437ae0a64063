//! Threads of PID 1 beside its loop: what runs in the guest can neither see nor end them.

use std::panic;
use std::sync::Once;
use std::thread::Builder;

use nix::sys::signal::{SigSet, SigmaskHow};

use super::super::pid1::{in_context, power_off};
use units::Reason;

/// Stack of a thread: its calls are few.
const STACK_BYTES: usize = 64 << 10;

/// Starts one that no signal reaches: it would swallow those that tell the loop that a child has ended.
pub fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Reason> {
    static HOOK: Once = Once::new();
    HOOK.call_once(end_with_a_panic);
    let starting = format!("starting the thread {name}");
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK).map_err(in_context(&starting))?;
    let started = Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(run);
    before.thread_set_mask().map_err(in_context(&starting))?;
    started.map(drop).map_err(in_context(&starting))
}

/// A process whose threads do not all end does not end, and nothing ends one that waits for the host: so a panic of PID 1, which would
/// have the kernel panic, ends the guest itself.
fn end_with_a_panic() {
    let told = panic::take_hook();
    panic::set_hook(Box::new(move |about| {
        told(about);
        power_off()
    }));
}
