//! Random systems that look like those of the field.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes of random systems are small"
)]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use model::system::{KnownHost, System};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// How a random system is made.
pub struct Kind {
    pub hosts: usize,
    pub nodes: usize,
    pub cpus_per_node: usize,
    pub partitions: usize,
    /// Of all CPUs.
    pub load: f64,
    /// Talks per partition.
    pub talks: f64,
}

/// Its file.
pub fn file(kind: &Kind, seed: u64) -> String {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut text = String::from("[host.h]\n");
    if kind.hosts > 1 {
        let _ = writeln!(text, "count = {}", kind.hosts);
    }
    for node in 0..kind.nodes {
        let first = node * kind.cpus_per_node;
        let _ = write!(
            text,
            "[[host.h.node]]\nnumber = {node}\nsocket = {}\ncpus = \"{first}-{}\"\nmemory_mib = 65536\n",
            node * 2 / kind.nodes.max(2),
            first + kind.cpus_per_node - 1
        );
    }
    // Shares of the CPUs, in the proportion of random numbers.
    let weights: Vec<f64> = (0..kind.partitions).map(|_| random.random_range(1.0..4.0)).collect();
    let all: f64 = weights.iter().sum();
    let cpus = (kind.hosts * kind.nodes * kind.cpus_per_node) as f64;
    for (at, weight) in weights.iter().enumerate() {
        let of = (weight / all * cpus * kind.load).round().clamp(1.0, kind.cpus_per_node as f64) as u32;
        let memory = f64::from(of) / kind.cpus_per_node as f64 * 60_000.0 * random.random_range(0.6..1.0);
        let _ = write!(
            text,
            "[partition.p{at:04}]\nprogram = [\"/bin/true\"]\ncpus = {of}\nmemory_mib = {}\n\
             [partition.p{at:04}.needs]\nmodel = \"shared-memory\"\n",
            memory as u32 + 128
        );
        if at % 8 == 3 {
            let _ = write!(text, "isolation = \"node\"\nisolated_from = [\"p{:04}\"]\n", at - 1);
        }
        let mut others = BTreeSet::new();
        while random.random_bool(kind.talks / (1.0 + kind.talks)) {
            others.insert(random.random_range(0..kind.partitions));
        }
        for other in others.into_iter().filter(|other| *other != at) {
            let rate = random.random_range(1..100) * 1_000_000u64;
            let _ = write!(text, "[partition.p{at:04}.needs.talks_to.p{other:04}]\nbytes_per_s = {rate}\n");
        }
    }
    text
}

/// The hosts that are written in a system's file.
pub fn hosts(system: &System) -> Vec<KnownHost> {
    system.hosts.iter().flat_map(|(name, host)| host.known(name, host.shape())).collect()
}
