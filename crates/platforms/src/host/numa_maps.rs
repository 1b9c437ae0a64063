//! `/proc/PID/numa_maps`: where the memory of a process may lie and where it does. Pure but for the reading.
//!
//! ```text
//!  7f8a55fff000 bind:0 file=/memfd:memory-backend-memfd\040(deleted) dirty=8192 N0=8192 kernelpagesize_kB=4
//!  address      policy │                                                        │       └ size of a page
//!                      └ nodes                              pages on node 0 ─────┘
//! ```
//! Source: `numa(7)`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};

use model::partition::{GivenMemory, NumberList};
use units::{Bytes, Mebibytes, Reason};

/// How the kernel writes the name of QEMU's memory backends.
const BACKEND: &str = "file=/memfd:memory-backend-memfd";
/// Size of the pages that are not huge.
const USUAL_KIB: u64 = 4;
/// Longest file that is read: a line is some hundred bytes, and the kernel allows 65530 mappings unless told otherwise.
const MAX_BYTES: u64 = 16 << 20;

/// The text of a process; none where the kernel knows no memory nodes.
///
/// # Errors
/// Why it cannot be read, rights or length for example.
pub fn read(pid: u32) -> Result<Option<String>, Reason> {
    let path = format!("/proc/{pid}/numa_maps");
    let mut text = String::new();
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other,
    };
    let length = file
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| format!("{path} cannot be read: {error}"))?;
    if length as u64 > MAX_BYTES {
        return Err(format!("{path} is longer than {}", Bytes::from_bytes(MAX_BYTES)).into());
    }
    Ok(Some(text))
}

/// The guest's memory, of this size: QEMU's memory backends, or where it has none of them, the mapping that holds the
/// address of the guest's first byte.
///
/// # Errors
/// What is not as it should be in the text.
pub fn guest_memory(maps: &str, first_byte: Option<u64>, size: Mebibytes) -> Result<GivenMemory, Reason> {
    let backends: Vec<&str> = maps.lines().filter(|line| line.contains(BACKEND)).collect();
    let anonymous = || {
        let mappings = maps.lines().filter_map(|line| Some((start(line)?, line)));
        let below = mappings.filter(|(start, _)| first_byte.is_some_and(|first| *start <= first));
        below.max_by_key(|(start, _)| *start).map(|(_, line)| line)
    };
    let lines = if backends.is_empty() { anonymous().into_iter().collect() } else { backends };
    if lines.is_empty() {
        return Err("the guest's memory is not among the mappings of qemu's numa_maps".into());
    }
    let mappings = lines.into_iter().map(mapping).collect::<Result<Vec<_>, _>>()?;
    let mut present = BTreeMap::new();
    for (node, pages, page) in
        mappings.iter().flat_map(|one| one.pages.iter().map(|(n, p)| (*n, *p, one.page_kib)))
    {
        let bytes = present.entry(node).or_insert(0_u64);
        *bytes = bytes.saturating_add(pages.saturating_mul(page).saturating_mul(1024));
    }
    Ok(GivenMemory {
        size,
        // Free to lie anywhere as soon as one part of it is.
        nodes: if mappings.iter().any(|one| one.nodes.numbers().is_empty()) {
            NumberList::default()
        } else {
            NumberList::of(mappings.iter().flat_map(|one| one.nodes.numbers().iter().copied()))
        },
        present_bytes: present.into_iter().map(|(node, bytes)| (node, Bytes::from_bytes(bytes))).collect(),
        hugepages: mappings.iter().all(|one| one.page_kib > USUAL_KIB),
    })
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    /// Nodes it is bound to; none for any other policy, under which it may lie elsewhere.
    nodes: NumberList,
    pages: Vec<(u32, u64)>,
    page_kib: u64,
}

fn start(line: &str) -> Option<u64> {
    u64::from_str_radix(line.split(' ').next()?, 16).ok()
}

fn mapping(line: &str) -> Result<Mapping, Reason> {
    let unclear = || {
        format!(
            "numa_maps has a line that cannot be understood: {}",
            line.chars().take(200).collect::<String>()
        )
    };
    let mut fields = line.split_whitespace().skip(1);
    let policy = fields.next().ok_or_else(unclear)?;
    let nodes = match policy.split_once(':') {
        // `bind=static:0` is one that does not follow a cpuset.
        Some((kind, nodes)) if kind.split('=').next() == Some("bind") => nodes.parse()?,
        _ => NumberList::default(),
    };
    let mut found = Mapping { nodes, pages: Vec::new(), page_kib: USUAL_KIB };
    for (name, value) in fields.filter_map(|field| field.split_once('=')) {
        if name == "kernelpagesize_kB" {
            found.page_kib = value.parse().map_err(|_| unclear())?;
        } else if let Some(node) = name.strip_prefix('N').and_then(|number| number.parse().ok()) {
            found.pages.push((node, value.parse().map_err(|_| unclear())?));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: Mebibytes = Mebibytes::from_mib(64);

    #[test]
    fn backends_are_added_up() {
        let text = "561f27bbc000 default heap anon=2599 N0=2599 kernelpagesize_kB=4\n\
             7f8a55fff000 bind:2 file=/memfd:memory-backend-memfd\\040(deleted) dirty=8192 N2=8190 N1=2 kernelpagesize_kB=4\n\
             7f8a9cf7d000 bind:2 file=/memfd:memory-backend-memfd\\040(deleted) dirty=8192 N2=8192 kernelpagesize_kB=4\n";
        let given = guest_memory(text, Some(0x7f8a_9cf7_d000), SIZE).unwrap();
        assert_eq!(given.nodes.to_string(), "2");
        assert_eq!(given.present_bytes, [(1, Bytes::from_bytes(8192)), (2, Bytes::from_bytes(16382 * 4096))]);
        assert!(!given.hugepages);
        let loose = text.replacen("bind:2", "prefer:2", 1);
        assert_eq!(guest_memory(&loose, None, SIZE).unwrap().nodes, NumberList::default());
    }

    #[test]
    fn huge_pages_are_counted_in_their_size() {
        let text = "7f00 bind=static:1-2 file=/memfd:memory-backend-memfd\\040(deleted) huge dirty=4 N1=3 N2=1 \
                    kernelpagesize_kB=2048";
        let given = guest_memory(text, None, SIZE).unwrap();
        assert!(given.hugepages);
        assert_eq!(given.nodes.to_string(), "1-2");
        assert_eq!(given.present_bytes, [(1, Bytes::from_bytes(6 << 20)), (2, Bytes::from_bytes(2 << 20))]);
    }

    #[test]
    fn plain_memory_is_found_by_its_address() {
        let text = "1000 default file=/x N0=5\n5000 default anon=2 N0=2 kernelpagesize_kB=4\n9000 default\n";
        let given = guest_memory(text, Some(0x6000), SIZE).unwrap();
        assert_eq!(given.present_bytes, [(0, Bytes::from_bytes(8192))]);
        assert_eq!((given.nodes, given.size), (NumberList::default(), SIZE));
        assert!(guest_memory(text, Some(0x10), SIZE).is_err());
        assert!(guest_memory(text, None, SIZE).is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        for line in ["7f00", "7f00 bind:x", "7f00 bind:1 N0=x", "7f00 default kernelpagesize_kB=x"] {
            assert!(guest_memory(line, Some(0x7f00), SIZE).is_err(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn pages_are_counted_once_each_whatever_stands_around_them(
            parts in prop::collection::vec(prop::collection::vec((0u32..9, 0u64..1 << 40), 0..5), 1..8),
            noise in prop::collection::vec("[ -~]{0,60}", 0..8),
        ) {
            let line = |pages: &Vec<(u32, u64)>| {
                let pages: Vec<String> = pages.iter().map(|(node, count)| format!("N{node}={count}")).collect();
                format!("7f00 bind:0 {BACKEND} {} kernelpagesize_kB=4\n", pages.join(" "))
            };
            let noise = noise.iter().filter(|line| !line.contains(BACKEND)).map(|line| format!("{line}\n"));
            let text: String = noise.chain(parts.iter().map(line)).collect();
            let given = guest_memory(&text, None, SIZE).unwrap();
            let wanted: u64 = parts.iter().flatten().map(|(_, count)| count * 4096).sum();
            let got: u64 = given.present_bytes.iter().map(|(_, bytes)| bytes.get()).sum();
            prop_assert_eq!(got, wanted);
            prop_assert!(given.present_bytes.windows(2).all(|pair| pair[0].0 < pair[1].0), "each node once");
        }

        #[test]
        fn any_text_is_understood_or_refused(text in ".{0,400}", first in any::<Option<u64>>()) {
            let _ = guest_memory(&text, first, SIZE);
        }
    }
}
