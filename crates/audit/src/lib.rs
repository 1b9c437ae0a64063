//! Is a plan what it says? Its rules, its worth, its certificate: checked by code that has nothing of what makes plans. Pure.
//!
//! ```text
//!  System, hosts, Plan ─┬► broken_rules: every rule of docs/plan.md, one by one
//!                       ├► goals, wrong_claims: what the plan is worth, and what it says of that
//!                       └► wrong_elsewhere: what it says of other places
//!  certificate ─► certificate::check ─► Verdict ─► places_match, goals_match: is it this plan's?
//! ```
//! A plan and a certificate may say anything; nothing in them makes this room panic.

pub mod certificate;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod random;
mod rules;
mod talk;
mod world;
mod worth;

pub use rules::{Broken, MOST_TOLD, Rule, broken_rules};
pub use worth::{goals, wrong_claims, wrong_elsewhere};
