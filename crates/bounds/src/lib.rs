//! What can be proven of response times before anything runs: the analysis that stands beside the simulator. Pure.
//!
//! ```text
//!  host policy ─► Supply: the least CPU time in any window ─┐
//!                                                           ├─► edf, fixed_priority: schedulable? longest responses
//!  tasks in a VM ─► [Task]: what they ask for ──────────────┘          │ asked again and again
//!                                                                      ▼
//!                          Interface ◄── interface::least_budget: the least budget for a period
//!                              └─► as_task(): one level up, do servers fit onto a CPU? edf, admission
//! ```
//!
//! What a virtual CPU that is alone on its CPU, or pinned to it with others, can count on:
//!
//! | host | supply | |
//! | --- | --- | --- |
//! | servers with a budget per period, used or lost | [`Supply::periodic`] | exact where [`edf::test`] accepts them |
//! | deferrable ones: Xen's RTDS | [`Supply::periodic`] | exact where [`admission::deferrable`] accepts them |
//! | `SCHED_DEADLINE` | [`Supply::reservation`] | exact where [`admission::reservations`] accepts them |
//! | slots (rHype), ARINC 653 windows, tables (Tableau) | [`Supply::slots`], [`Supply::table`] | exact |
//! | `cpu.max` and other caps, the CPU its own otherwise | [`Cap::supply`] | exact of one virtual CPU, none of several |
//! | turns | [`Supply::round_robin`] | exact |
//! | EEVDF | [`Supply::proportional`] | a bound, while nobody joins or leaves |
//! | fair queueing by start times | [`Supply::fair_queue`] | a bound |
//! | a lag that is known otherwise | [`Supply::share`] | as good as the lag is |
//! | Xen's credit, credit2, gangs, servers that migrate | a [`NoGuarantee`] that says why | none |
//!
//! Weights that are not whole are rounded to the safe side before: the own one down, the sum up. What runs in a VM on one
//! virtual CPU is a slice of [`Task`]s.
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

pub mod admission;
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
