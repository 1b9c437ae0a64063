//! Signals to `exec` are meant for its program. They are waited for in a thread of their own; what was ignored when we
//! were started (by `nohup`, for example) stays ignored.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use super::terminal::{self, RawTerminal};
use partition::run::{Order, Orders};

/// What is passed on.
const PASSED_ON: [Signal; 9] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// How long it is waited until the guest has stopped the program, before we stop.
const STOPS_WITHIN: Duration = Duration::from_secs(2);

/// Holds them back for the thread that passes them on; to be called before there is a second thread.
pub fn hold() -> io::Result<SigSet> {
    let ignored = ignored_mask();
    let mut set = SigSet::empty();
    for signal in PASSED_ON {
        if ignored & (1 << (signal as u64 - 1)) == 0 {
            set.add(signal);
        }
    }
    set.thread_block()?;
    Ok(set)
}

/// `SigIgn` of `/proc/self/status`: bit 0 is signal 1.
fn ignored_mask() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Begins to pass them on; `passed` tells which ones the program was given. `raw` is left while we are stopped.
pub fn pass_on(held: SigSet, raw: Option<Arc<RawTerminal>>, passed: Receiver<i32>) -> io::Result<Orders> {
    let (to, orders) = channel();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        while let Ok(signal) = held.wait() {
            if !forward(signal, raw.as_deref(), &to, &passed) {
                return;
            }
        }
    })?;
    Ok(orders)
}

fn forward(signal: Signal, raw: Option<&RawTerminal>, to: &Sender<Order>, passed: &Receiver<i32>) -> bool {
    // Told of earlier ones.
    while passed.try_recv().is_ok() {}
    if signal == Signal::SIGWINCH && raw.is_some() && to.send(Order::Resize(terminal::size())).is_err() {
        return false;
    }
    let goes_on = to.send(Order::Signal(signal as i32)).is_ok();
    if signal == Signal::SIGTSTP {
        // The program is stopped by its own copy, which nobody would carry to it once we are; then the shell has the
        // terminal until SIGCONT.
        wait_until_passed(signal, passed);
        if let Some(raw) = raw {
            raw.leave();
        }
        let _ = kill(Pid::this(), Signal::SIGSTOP);
        if let Some(raw) = raw {
            raw.enter();
        }
    }
    goes_on
}

/// A guest that does not answer, or boots, is not waited for any longer than [`STOPS_WITHIN`].
fn wait_until_passed(signal: Signal, passed: &Receiver<i32>) {
    let until = Instant::now() + STOPS_WITHIN;
    loop {
        match passed.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(number) if number != signal as i32 => {}
            _ => return,
        }
    }
}
