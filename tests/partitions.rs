//! Tests of partitions: exec, sets, files, networks, channels, MPI. One subject is `cargo test --release --test partitions exec::`.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests panic and print")]

mod exec_fixture;
mod image_fixture;
mod mpi_fixture;
mod mpirun_fixture;
mod placement_fixture;
mod set_fixture;
mod ssh_fixture;
mod switch_fixture;
mod verify_fixture;

mod channel_bench;
mod channels;
mod emit;
mod exec;
mod exec_failures;
mod exec_file;
mod exec_given;
mod exec_image;
mod exec_images;
mod exec_network;
mod exec_restored;
mod exec_saved;
mod exec_saved_broken;
mod failover;
mod files;
mod files_at_once;
mod files_durable;
mod files_race;
mod files_stress;
mod files_waits;
mod mpi_suite;
mod mpirun;
mod mpirun_calls;
mod numa_bench;
mod opened;
mod partition_network;
mod pjdfstest;
mod sessions;
mod set_care;
mod sets;
mod sets_crash;
mod sets_faults;
mod sets_images;
mod sets_plan;
mod sets_remote;
mod sets_saved;
mod sets_verify;
mod switch;
mod verify_attacks;
mod verify_faults;
mod verify_faults_nested;
mod verify_outages;
mod wall;
mod wall_attacks;
