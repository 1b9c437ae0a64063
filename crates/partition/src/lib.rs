//! Make it so: boots partitions in phases, places and checks them, ends them.
//!
//! ```text
//!  PartitionSpec ─► created paused ─► placed ─► checked ─► let go ─► program runs ─► ended ─► nothing is left
//!                        │               │          │
//!                        └───────────────┴──────────┴── any failure: undone, with a reason
//! ```
//!
//! [`run`] does this for one partition, for the verb `exec` and for each supervisor of a set; [`place`] puts CPUs and memory
//! where they were asked for and reads back what was given; [`set`] holds sets together; [`together`] runs several as
//! one, and [`mpi`] a program that passes messages over them; [`network`] is the switch between partitions,
//! [`section_folder`] the memory that those of a run share; [`session`] what is done in one that runs; [`image`] makes images of containers
//! their roots, [`volume`] holds the folders that they write and that last, [`layer`] what a program changed of its files; [`emit`] writes the same partitions for other managers.

pub mod emit;
pub mod given_files;
pub mod image;
pub mod layer;
pub mod mpi;
pub mod network;
pub mod place;
pub mod run;
pub mod section_folder;
pub mod session;
pub mod set;
pub mod together;
pub mod users;
pub mod volume;
