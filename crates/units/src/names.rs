//! The closed lists of names: platforms, probes, loads, places. Each name parses from text with one check for
//! command line and files alike, and a misspelt one is answered with the nearest.

/// A name that is not in its list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} \"{got}\"{}; known are: {known}", nearest_hint(.nearest.as_deref()))]
pub struct UnknownName {
    /// What kind of name was wanted, for example "probe".
    pub what: &'static str,
    /// What was written.
    pub got: String,
    /// The nearest known name, when one is near.
    pub nearest: Option<String>,
    /// All known names, comma separated.
    pub known: String,
}

fn nearest_hint(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean \"{name}\"?")).unwrap_or_default()
}

/// `; did you mean "NAME"?`, to stand behind what is wrong with `got`; nothing where no known name is near.
pub fn hint(got: &str, known: &[&str]) -> String {
    nearest_hint(nearest(got, known))
}

impl UnknownName {
    /// Builds the error for `got`, looking for the nearest of `known`.
    pub fn new(what: &'static str, got: &str, known: &[&str]) -> Self {
        Self {
            what,
            got: got.chars().take(80).collect(),
            nearest: nearest(got, known).map(str::to_owned),
            known: known.join(", "),
        }
    }
}

/// Whether a text is as a pattern says, in which `*` stands for any text.
pub fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

/// The known name that looks most like `got`, if any is near enough to be meant.
pub fn nearest<'a>(got: &str, known: &[&'a str]) -> Option<&'a str> {
    let got: String = got.chars().take(80).collect::<String>().to_lowercase();
    known
        .iter()
        .map(|name| (strsim::jaro_winkler(&got, name), *name))
        .filter(|(likeness, _)| *likeness >= 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// A closed list of names: an enum whose members parse from text and are written as they are here.
#[macro_export]
macro_rules! names {
    ($(#[$meta:meta])* $type:ident, $what:literal, { $($(#[$vmeta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $type {
            $($(#[$vmeta])* #[serde(rename = $text)] $variant,)+
        }

        impl $type {
            /// Every name of this list, in the order they are shown.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name as it is written.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::names::UnknownName;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    other => Err($crate::names::UnknownName::new($what, other, &[$($text,)+])),
                }
            }
        }
    };
}

names!(
    /// A way to run code on a host.
    PlatformKind, "platform", {
        /// A process on the host itself.
        Native = "native",
        /// An OCI container made by a runtime found on the host.
        Container = "container",
        /// A virtual machine: QEMU with KVM or TCG.
        Vm = "vm",
        /// Any Linux machine reached by OpenSSH: a guest of any hypervisor, a cloud machine, another host.
        Ssh = "ssh",
        /// Scripted and deterministic; nothing is run. For tests and for trying out experiments.
        Fake = "fake",
        /// A case of a simulated scenario; only results have it, nothing can be measured on it.
        Sim = "sim",
    }
);

names!(
    /// A neighbour: a stressor with a measured dose.
    LoadKind, "load", {
        /// Nothing; the control.
        Idle = "idle",
        /// Arithmetic on every CPU granted.
        Cpu = "cpu",
        /// Streaming writes through an array beyond the last-level cache.
        Memory = "memory",
        /// Sequential writes with fsync.
        Disk = "disk",
        /// UDP datagrams, as many as pass: out of the instance where it has a network, else over its own loopback device.
        Network = "network",
        /// Packets that only kernels answer, as a ping flood does: interrupts and soft interrupts, no user code.
        Interrupt = "interrupt",
        /// fork, exit, wait, over and over.
        Fork = "fork",
        /// Threads that fight for one spinlock.
        Lock = "lock",
        /// A quarter of its threads each: arithmetic, memory, disk, network.
        Mixed = "mixed",
    }
);

names!(
    /// Where a load runs.
    LoadPlace, "load place", {
        /// In the instance that is measured.
        Same = "same",
        /// In a second instance of the same platform.
        Second = "second",
        /// On the host, outside any instance.
        Host = "host",
    }
);

impl LoadKind {
    /// Unit of what a load does, as its dose counts it.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Idle | Self::Cpu => "rounds",
            Self::Memory | Self::Disk => "bytes",
            Self::Network | Self::Interrupt => "packets",
            Self::Fork => "processes",
            Self::Lock => "turns",
            Self::Mixed => "pieces of work",
        }
    }

    /// Whether it sends packets, which leave the instance where there is a way out.
    pub const fn sends_packets(self) -> bool {
        matches!(self, Self::Network | Self::Interrupt | Self::Mixed)
    }

    /// What else its dose counts: the same work in another unit, or the loads it is mixed of.
    pub const fn parts(self) -> &'static [(Self, &'static str)] {
        match self {
            Self::Network => &[(Self::Network, "bytes")],
            Self::Mixed => &[
                (Self::Cpu, "rounds"),
                (Self::Memory, "bytes"),
                (Self::Disk, "bytes"),
                (Self::Network, "packets"),
            ],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back_to_itself() {
        for kind in PlatformKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(*kind));
        }
    }

    #[test]
    fn parts_of_a_load_are_counted_as_alone_or_in_another_unit() {
        for kind in LoadKind::ALL {
            for (part, unit) in kind.parts() {
                assert!(part.unit() == *unit || part == kind, "{kind}: {part} in {unit}");
            }
        }
    }

    #[test]
    fn a_misspelt_name_is_answered_with_the_nearest() {
        let error = "containr".parse::<PlatformKind>().unwrap_err();
        assert_eq!(error.nearest.as_deref(), Some("container"));
        assert!(error.to_string().contains("did you mean \"container\"?"), "{error}");
        assert_eq!("zzz".parse::<PlatformKind>().unwrap_err().nearest, None);
    }
}
