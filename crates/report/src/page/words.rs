//! Words of the probe sections: the heading, and what a probe measures and how to read it.

use model::names::ProbeKind;

/// Heading and explanation of each probe.
const WORDS: &[(ProbeKind, &str, &str)] = &[
    (
        ProbeKind::Gap,
        "Time taken away",
        "One thread does nothing but read the cycle counter. Whenever the time between two reads is long, somebody \
             took the CPU away: the kernel, the hypervisor, a neighbour. A gap counts as long as it lasts. bound_95 is \
             the length that gaps stay below for 95 % of the time; the worst gap is what a deadline has to survive.",
    ),
    (
        ProbeKind::Fwq,
        "Same work, again and again",
        "A fixed piece of work is done over and over, and each time is noted. On an ideal machine all times are \
             equal; what lies above the shortest is interference.",
    ),
    (
        ProbeKind::Ftq,
        "How much work fits into equal spans",
        "Work is counted in equal spans of time. What is missing in a span was taken away; the spectrum shows whether \
             it is taken at regular times, and by what frequency.",
    ),
    (
        ProbeKind::Wakeup,
        "Waking up on time",
        "A thread sleeps until the next due time, over and over. The response time counts from each due time until \
             the thread runs, also for those that passed while it could not: nothing is left out because it was late.",
    ),
    (
        ProbeKind::Frames,
        "Frames of an interactive program",
        "A program has the same work to do for every frame, at 60 frames per second. A frame that is done after \
             the next one is due is one that a person sees stutter.",
    ),
    (
        ProbeKind::Cpu,
        "Threads and time",
        "More and more threads each do the same work. The time stays flat while every thread has a CPU of its own \
             and grows in proportion from there on. The bend (knee) shows how many CPUs the platform really grants.",
    ),
    (
        ProbeKind::Syscall,
        "System calls",
        "The cheapest system call, in a loop. It shows what entering the kernel costs, and what a platform puts in \
             between. Longer bars are better.",
    ),
    (
        ProbeKind::Fork,
        "Starting processes",
        "Start a process, run a program in it, wait for its end. This exercises page tables and the kernel and is \
             where virtualization tends to cost most. Longer bars are better.",
    ),
    (
        ProbeKind::Exit,
        "Traps to the hypervisor",
        "An instruction that a hypervisor must handle itself, over and over. It shows what leaving the guest and \
             coming back costs; on a machine without a hypervisor it is a slow instruction and nothing else.",
    ),
    (
        ProbeKind::Lock,
        "Waiting for locks",
        "Threads fight for one spinlock. When a hypervisor takes the CPU from the thread that holds it, the others \
             wait for a whole time slice: a second hump far to the right.",
    ),
    (
        ProbeKind::Linpack,
        "Solving linear equations",
        "A dense system of linear equations is solved, and the solution is checked. Longer bars are better.",
    ),
    (
        ProbeKind::Build,
        "A compile job",
        "Source files are made and compiled, one compiler process each. It mixes computing, starting processes, \
             memory and files as real builds do.",
    ),
    (
        ProbeKind::MemLatency,
        "Memory latency",
        "Each load needs the result of the one before, over larger and larger arrays. The curve climbs in steps: \
             each plateau is a level of cache, the last one is memory.",
    ),
    (
        ProbeKind::MemBandwidth,
        "Memory throughput",
        "Arrays of growing size are read, written and copied. The curve falls in steps as the array outgrows one \
             cache after the other.",
    ),
    (
        ProbeKind::Pages,
        "First touch of memory",
        "Memory is touched for the first time, page by page. In a machine that has just been started the hypervisor \
             must find each page; later the guest's kernel has pages of its own to give.",
    ),
    (
        ProbeKind::Disk,
        "Disk",
        "A file is written and read in sequence. Besides the throughput it shows the stalls: stretches in which \
             nothing moved. Then single blocks are read anywhere in it.",
    ),
    (
        ProbeKind::Net,
        "Network",
        "Two instances send each other messages of growing size, as a stream and as question and answer. Streams show how \
             much goes through, round trips how long a partner waits. CPU time is that of both ends; UDP may lose messages, \
             and what it loses is counted.",
    ),
    (
        ProbeKind::Mpi,
        "Message passing",
        "Messages go to and fro between two ranks, and from all to all, as parallel programs send them: whoever waits asks \
             again and again instead of sleeping. In such programs all wait for the slowest, so the tail counts more than \
             the median.",
    ),
    (
        ProbeKind::Share,
        "Shares of the CPUs",
        "One instance needs some of the CPUs, the others want all of them. What it gets shows by which policy the \
             CPUs are shared.",
    ),
];

/// The heading of a probe's section.
pub(super) fn title(probe: ProbeKind) -> &'static str {
    WORDS.iter().find(|words| words.0 == probe).map_or(probe.as_str(), |words| words.1)
}

/// What a probe measures and how to read it.
pub(super) fn explanation(probe: ProbeKind) -> &'static str {
    WORDS.iter().find(|words| words.0 == probe).map_or("", |words| words.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_probe_is_explained() {
        for probe in ProbeKind::ALL {
            assert!(!explanation(*probe).is_empty() && title(*probe) != probe.as_str(), "{probe}");
        }
    }
}
