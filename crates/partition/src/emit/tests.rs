//! What is written for others: held against snapshots, well-formed whatever the names, and words stay words.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

use proptest::prelude::*;

use super::quote::{shell, unit};
use super::xml::Xml;
use super::{Emission, Manager, Prepared, emit};
use model::partition::set::Restart;
use model::partition::{
    CardSpec, Content, DiskSpec, PartitionSpec, Priority, Program, Resources, SectionSpec,
};
use platforms::vm::qemu::{Engine, ShareArgument, SharedTree};
use units::{Bytes, Mebibytes};

fn resources() -> Resources {
    Resources {
        cpus: 2,
        pin: Some("2-3".parse().unwrap()),
        memory: Mebibytes::from_mib(513),
        node: Some(1),
        hugepages: true,
        priority: Priority::Realtime(50),
        cpu_weight: Some(200),
        cpu_cap_percent: Some(150),
        guest_nodes: 2,
    }
}

fn card(number: u8) -> CardSpec {
    CardSpec::Switch {
        network: "plant".to_owned(),
        sockets: vec!["/a".into(), "/b".into()],
        number,
        address: format!("10.77.1.{number}/24"),
    }
}

fn section(writable: bool) -> SectionSpec {
    let (name, size) = ("frames".to_owned(), Mebibytes::from_mib(4));
    SectionSpec { name, path: "/works/c/frames".into(), size_mib: size, writable }
}

fn emission() -> Emission {
    let plc = PartitionSpec {
        name: "plc".to_owned(),
        content: Content::Program(Box::default()),
        resources: resources(),
        disks: vec![DiskSpec {
            file: "/data/it's <one>,100%.img".into(),
            read_only: true,
            bytes_per_s: Some(Bytes::from_bytes(1_000_000)),
            operations_per_s: Some(100),
        }],
        cards: vec![card(1), CardSpec::User],
        sections: vec![section(true)],
        ports: Vec::new(),
    };
    let usual = Resources { pin: None, node: None, hugepages: false, guest_nodes: 1, ..resources() };
    let resources =
        Resources { priority: Priority::Nice(5), cpu_weight: None, cpu_cap_percent: None, ..usual };
    let disks = vec![DiskSpec {
        file: "/dev/vg/db".into(),
        read_only: false,
        bytes_per_s: None,
        operations_per_s: None,
    }];
    let db = PartitionSpec {
        name: "db".to_owned(),
        content: Content::Image,
        resources,
        disks,
        cards: vec![card(2)],
        sections: vec![section(false)],
        ports: Vec::new(),
    };
    let shares = vec![ShareArgument {
        tag: "root".to_owned(),
        path: "/".into(),
        tree: SharedTree::All,
        writable: false,
    }];
    Emission {
        set: "works".to_owned(),
        networks: vec![("plant".to_owned(), 2)],
        partitions: vec![
            Prepared {
                spec: db,
                shares: Vec::new(),
                restart: Restart::OnFailure,
                after: Vec::new(),
                is_watched: false,
            },
            Prepared {
                spec: plc,
                shares,
                restart: Restart::Always,
                after: vec!["db".to_owned()],
                is_watched: false,
            },
        ],
        qemu: "/usr/bin/qemu-system-x86_64".into(),
        engine: Engine::Tcg,
        folder: PathBuf::from("/srv/works $HOME"),
        user: None,
    }
}

/// Checks that elements close in order, and that nothing stands where it may not.
fn assert_well_formed(xml: &str) {
    let mut open: Vec<String> = Vec::new();
    let mut rest = xml;
    while let Some((text, after)) = rest.split_once('<') {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '#';
        let is_entity = |part: &str| part.split_once(';').is_some_and(|(name, _)| name.chars().all(is_name));
        assert!(!text.contains('>') && text.split('&').skip(1).all(is_entity), "{text}");
        let (tag, later) = if let Some(comment) = after.strip_prefix("!--") {
            let (comment, later) = comment.split_once("-->").expect("comments end");
            assert!(!comment.contains("--") && !comment.ends_with('-'), "{comment}");
            rest = later;
            continue;
        } else {
            after.split_once('>').expect("tags end")
        };
        rest = later;
        let quotes = tag.matches('\'').count();
        assert!(quotes % 2 == 0 && !tag.contains('<'), "{tag}");
        let name = tag.trim_matches('/').split(' ').next().unwrap_or_default().to_owned();
        assert!(
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c)),
            "{tag}"
        );
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
}

#[test]
fn the_same_partitions_for_everyone() {
    for (manager, name) in
        [(Manager::Libvirt, "libvirt"), (Manager::Qemu, "qemu"), (Manager::Systemd, "systemd")]
    {
        let emitted = emit(&emission(), manager).unwrap();
        let mut all = String::new();
        for file in &emitted.files {
            let _ = write!(
                all,
                "=== {}{}\n{}",
                file.name,
                if file.executable { " (program)" } else { "" },
                file.text
            );
            if manager == Manager::Libvirt {
                assert_well_formed(&file.text);
            }
        }
        let _ = write!(all, "=== remarks\n{}\n", emitted.remarks.join("\n"));
        insta::assert_snapshot!(name, all);
    }
}

#[test]
fn a_path_that_is_no_line_of_text_is_refused() {
    for path in ["/a\nb", "/a\rb"] {
        let mut emission = emission();
        emission.partitions[0].spec.disks[0].file = path.into();
        for manager in [Manager::Libvirt, Manager::Qemu, Manager::Systemd] {
            assert!(emit(&emission, manager).unwrap_err().to_string().contains("one line of text"));
        }
    }
}

#[test]
fn a_program_has_no_secrets_in_these_files() {
    let mut emission = emission();
    let program = Program { env: vec![(b"TOKEN".to_vec(), b"s3cret".to_vec())], ..Program::default() };
    emission.partitions[1].spec.content = Content::Program(Box::new(program));
    for manager in [Manager::Libvirt, Manager::Qemu, Manager::Systemd] {
        let emitted = emit(&emission, manager).unwrap();
        assert!(emitted.files.iter().all(|file| !file.text.contains("s3cret")));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_shell_reads_back_the_words(words in proptest::collection::vec("[^\0]{0,20}", 1..8)) {
        let quoted: Vec<String> = words.iter().map(|word| shell(word)).collect();
        let script = format!("printf '%s\\0' {}", quoted.join(" "));
        let output = Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
        let read: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
        let wanted: Vec<&[u8]> = words.iter().map(String::as_bytes).chain([b"".as_slice()]).collect();
        prop_assert_eq!(read, wanted);
    }

    #[test]
    fn xml_stays_well_formed_whatever_is_in_it(value in any::<String>(), text in any::<String>()) {
        let mut xml = Xml::default();
        xml.comment(&value);
        xml.element("a", &[("b", &value)], |xml| -> Result<(), ()> {
            xml.text("c", &[("d", &text)], &value);
            xml.empty("e", &[("f", &text)]);
            Ok(())
        }).unwrap();
        assert_well_formed(&xml.finish());
    }

    #[test]
    fn a_word_in_a_unit_means_nothing_else(word in "[ -~\n]{0,20}") {
        let quoted = unit(&word);
        let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(&quoted);
        let plain = inside.replace("%%", "%").replace("$$", "$").replace("\\n", "\n");
        let plain = if inside.contains('\\') { None } else { Some(plain) };
        prop_assert!(!quoted.contains('\n'));
        prop_assert!(plain.is_none_or(|plain| plain == word));
    }
}
