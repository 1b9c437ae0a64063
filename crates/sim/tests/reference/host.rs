//! Hosts and their VMs as the reference sees them: made by seed, and written down as a scenario for the program under test.

use std::fmt::Write as _;

pub const MICRO: i64 = 1_000;
pub const MILLI: i64 = 1_000_000;
pub const SECOND: i64 = 1_000_000_000;

/// What a virtual CPU does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Computes for ever.
    Endless,
    /// Computes for so long, sleeps for so long after that, and so on.
    OnOff { work: i64, wait: i64 },
}

#[derive(Clone, Debug)]
pub struct Vm {
    pub vcpus: usize,
    pub weight: u32,
    /// In hundredths of a CPU.
    pub cap: Option<i64>,
    /// CPUs that it may use; all unless given.
    pub cpus: Option<Vec<usize>>,
    /// Whether virtual CPU i stays on the i-th of them.
    pub pinned: bool,
    pub load: Load,
}

impl Vm {
    pub fn new(vcpus: usize, weight: u32) -> Self {
        Self { vcpus, weight, cap: None, cpus: None, pinned: false, load: Load::Endless }
    }
}

#[derive(Clone, Debug)]
pub struct Host {
    pub cpus: usize,
    pub vms: Vec<Vm>,
}

/// Whether the weight is that of the VM, dealt out to its virtual CPUs, or that of each of them. Xen's credit began with
/// the first and has the second since 4.1 (commit 3a37d430ce26 of August 2010); credit2 always had the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    PerVm,
    PerVcpu,
}

/// Random numbers (splitmix64), so that a host depends on nothing but its seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        // Seeds that follow each other would give streams that follow each other.
        let mut first = Self(seed ^ 0x5851_f42d_4c95_7f2d);
        Self(first.next() ^ first.next().rotate_left(32))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `from` to `to`, both included.
    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        from + (self.next() % (to - from + 1) as u64) as i64
    }
}

/// What makes a random host special.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    Pins,
    Blocking,
}

/// Of four hosts two are plain, one has pins, one has VMs that sleep.
pub fn kind(seed: u64) -> Kind {
    match seed % 4 {
        1 => Kind::Pins,
        3 => Kind::Blocking,
        _ => Kind::Plain,
    }
}

impl Host {
    /// 2 to 8 CPUs, 2 to 6 VMs with 1 to 4 virtual CPUs and weights of 1 to 16.
    pub fn made(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let cpus = random.between(2, 8) as usize;
        let count = random.between(2, 6);
        let kind = kind(seed);
        let vms = (0..count).map(|_| {
            let mut vm = Vm::new(random.between(1, 4) as usize, random.between(1, 16) as u32);
            if kind == Kind::Pins && random.between(0, 1) == 1 {
                let first = random.between(0, cpus as i64 - 1) as usize;
                let many = random.between(1, cpus as i64) as usize;
                vm.cpus = Some((0..many).map(|step| (first + step) % cpus).collect());
                vm.pinned = random.between(0, 1) == 1;
            }
            if kind == Kind::Blocking && random.between(0, 1) == 1 {
                let (work, wait) = (random.between(200, 20_000), random.between(200, 20_000));
                vm.load = Load::OnOff { work: work * MICRO, wait: wait * MICRO };
            }
            vm
        });
        Self { cpus, vms: vms.collect() }
    }

    /// CPUs that a virtual CPU of a VM may use.
    pub fn places(&self, vm: usize, vcpu: usize) -> Vec<bool> {
        let vm = &self.vms[vm];
        let all: Vec<usize> = vm.cpus.clone().unwrap_or_else(|| (0..self.cpus).collect());
        let mut places = vec![false; self.cpus];
        for (at, cpu) in all.iter().enumerate() {
            places[*cpu] |= !vm.pinned || at == vcpu % all.len();
        }
        places
    }

    /// The virtual CPUs, as `(VM, number in it)`.
    pub fn vcpus(&self) -> Vec<(usize, usize)> {
        let of = |(vm, it): (usize, &Vm)| (0..it.vcpus).map(move |vcpu| (vm, vcpu)).collect::<Vec<_>>();
        self.vms.iter().enumerate().flat_map(of).collect()
    }

    /// What it looks like in a sentence.
    pub fn in_words(&self) -> String {
        let mut text = format!("{} CPUs:", self.cpus);
        for vm in &self.vms {
            let _ = write!(text, " {}×w{}", vm.vcpus, vm.weight);
            if let Some(cpus) = &vm.cpus {
                let _ = write!(text, "{}{cpus:?}", if vm.pinned { "!" } else { "@" });
            }
            if let Load::OnOff { work, wait } = vm.load {
                let _ = write!(text, "~{}/{}µs", work / MICRO, wait / MICRO);
            }
            if let Some(cap) = vm.cap {
                let _ = write!(text, "≤{cap}%");
            }
        }
        text
    }

    /// The scenario that says the same; VM i is `v<i>`.
    pub fn scenario(&self, policy: &str, seconds: i64, seed: u64) -> String {
        let mut text = format!(
            "name = \"reference\"\nseed = {seed}\n[limits]\nsimulated_s = {seconds}\n[host]\ncpus = {}\nstaggered = true\n\
             policy = {{ name = \"{policy}\", queues = \"per-cpu\" }}\n",
            self.cpus
        );
        for (number, vm) in self.vms.iter().enumerate() {
            let weight = f64::from(vm.weight);
            let _ = write!(text, "[[vm]]\nname = \"v{number}\"\nvcpus = {}\nweight = {weight:?}\n", vm.vcpus);
            if let Some(cpus) = &vm.cpus {
                let _ = write!(text, "cpus = {cpus:?}\npinned = {}\n", vm.pinned);
            }
            if let Some(cap) = vm.cap {
                let _ = writeln!(text, "limit_cpus = {:?}", cap as f64 / 100.0);
            }
            let run = match vm.load {
                Load::Endless => "{ program = \"endless\" }".to_owned(),
                Load::OnOff { work, wait } => {
                    format!("{{ program = \"io\", work_us = {}, wait_us = {} }}", work / MICRO, wait / MICRO)
                }
            };
            let threads: Vec<String> =
                (0..vm.vcpus).map(|vcpu| format!("{{ count = 1, bound = {vcpu}, run = {run} }}")).collect();
            let _ = writeln!(text, "thread = [{}]", threads.join(", "));
        }
        text
    }
}
