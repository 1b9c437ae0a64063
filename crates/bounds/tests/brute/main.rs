//! Analysis against brute force: a simulator of single ticks that shares nothing with the analysis, nor with `sim`. Nothing
//! observed may exceed its bound, and where the analysis is exact the bound must be reached.

mod deadlines;
mod hostile;
mod hosts;
mod interfaces;
mod made;
mod priorities;
mod simulator;
mod supplies;
mod textbook;
