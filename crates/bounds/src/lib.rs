//! What can be proven of response times before anything runs: the analysis that stands beside the simulator. Pure.
//!
//! ```text
//!  host policy ─► Supply: the least CPU time in any window ─┐
//!                                                           ├─► edf, fixed_priority: schedulable? longest responses
//!  tasks in a VM ─► [Task]: what they ask for ──────────────┘          │ asked again and again
//!                                                                      ▼
//!                          Interface ◄── interface::least_budget: the least budget for a period
//!                              └─► as_task(): the same questions one level up, of the host
//! ```
//!
//! A virtual CPU's share of its host is a [`Supply`]: [`Supply::periodic`] for a budget per period (Xen's RTDS),
//! [`Supply::reservation`] for `SCHED_DEADLINE`, [`Supply::slots`] and [`Supply::table`] for fixed slots and tables,
//! [`Cap`] for `cpu.max`, [`Supply::proportional`] for EEVDF, [`Supply::round_robin`] for turns. What guarantees nothing is a
//! [`NoBound::NoGuarantee`] that says why. What runs in a VM on one virtual CPU is a slice of [`Task`]s.
//!
//! ```
//! use bounds::{Scheduler, Server, Supply, Task, fixed_priority, least_budget};
//! use units::Nanos;
//! let ms = |ms: u64| Nanos::from_nanos(ms * 1_000_000);
//!
//! // Which supply does this give, and how late can tasks be?
//! let supply = Supply::periodic(ms(10), ms(4))?;
//! let tasks = [Task::new(ms(1), ms(20))?.with_priority(2), Task::new(ms(6), ms(50))?.with_priority(1)];
//! let longest = fixed_priority::responses(&tasks, &supply);
//! assert_eq!(longest[0].as_ref().unwrap().response, ms(13));
//! assert_eq!(longest[1].as_ref().unwrap().response, ms(26));
//!
//! // What is the least budget for this period?
//! let interface = least_budget(&tasks, Scheduler::FixedPriority, Server::Periodic, ms(10))?;
//! assert!(interface.budget < ms(4));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Numbers.** Times come in and go out as whole nanoseconds of 64 bits, and are 128 bits wide inside; products that would
//! not fit saturate on the side that makes an answer later, or are given up with a reason. There are no floats but in what
//! is only shown ([`Interface::bandwidth`]). Sums of C/T are compared exactly: first between two fixed-point numbers that
//! enclose them, then as fractions. Every question counts its steps and ends after [`MOST_STEPS`] with
//! [`NoBound::TooLong`], so that no numbers make it hang.
//!
//! **Exact or only a bound.** [`Longest::is_reached`] says whether some legal run reaches the answer: tasks are sporadic
//! with free offsets, jitter and the supply are at their worst, ties of deadlines are lost. That holds on a whole CPU, on
//! servers and on tables, with priorities that differ and without blocking. A proportional share has a bound only.
//!
//! **Not here.** Several CPUs: only the sufficient test of [`global_edf`]; no response times there. A virtual CPU that
//! migrates, and what migrations and cache misses cost, are no part of any of these papers. Overheads of the host (a context
//! switch, a tick) belong into execution times or out of budgets.

mod answer;
mod cap;
pub mod edf;
mod exact;
pub mod fixed_priority;
mod global;
mod interface;
mod supply;
mod table;
mod task;

pub use answer::{Longest, Malformed, Miss, NoBound, NoGuarantee, Verdict};
pub use cap::Cap;
pub use exact::{MOST_STEPS, Rate};
pub use global::global_edf;
pub use interface::{Interface, NoInterface, Row, Scheduler, Server, least_bandwidth, least_budget, rows};
pub use supply::Supply;
pub use table::Window;
pub use task::{Task, deadline_monotonic};
