//! Holds sets of partitions: starts what is missing, ends what is there, finds everything again from one folder.
//!
//! ```text
//!  up ─┬─► supervisor of plc ──► QEMU        no daemon: `up` and `down` come and go, supervisors stay
//!      ├─► supervisor of db ───► QEMU
//!      ├─► supervisor of control.0 ─► switch
//!      ├─► watcher: starts supervisors that were killed again; they do the same for it
//!      └─► undo: waits for the death of `up`, undoes what it had begun
//!
//!  ps, down ─► the folder of the set ─► who keeps what, how that stands; a lock says who works on it
//!  exec --net SET/NETWORK ─► a number in a network of the set for as long as it runs ([`visit`])
//! ```

pub mod channels;
pub mod down;
pub mod find;
pub mod folder;
pub mod images;
pub mod judge;
pub mod logs;
pub mod one;
mod part;
mod ports;
pub mod process;
mod ready;
pub mod resolve;
pub mod root;
pub mod split;
pub mod status;
pub mod supervisor;
mod switch;
pub mod up;
pub mod visit;
pub mod watch;
