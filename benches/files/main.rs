//! Files of the host in a guest: over virtio-fs from our server, over QEMU's 9P as partitions had it, and the guest's own tmpfs, which says
//! what the translator itself costs; all three in one guest, in turn.
//!
//! `cargo bench --bench files [-- --rounds N] [--files N] [--tree N] [--mib N]`
//!
//! | figure | mark |
//! | --- | --- |
//! | 3,000 small files created / 9P | ≤ 0.5 |
//! | `stat` of each, `scandir` with `lstat` / 9P | ≤ 0.2 |
//! | `git status` of 20,000 files, cold; again / 9P | ≤ 0.1; ≤ 0.15 |
//! | 300 MiB written with fsync, and read again / tmpfs | ≤ 1.3 |
//! | the same into a file that was there and is emptied; in pieces of 128 KiB instead of 1 MiB | ≤ 1.3 |
//!
//! This program is its own guest. git is the host's, shown read-only; the trees are in a folder on the host's disk.

mod guest;
#[path = "../verdict/mod.rs"]
mod verdict;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, anyhow, ensure};
use bulkhead::cli::cache_folder;
use bulkhead::model::experiment::PlatformSpec;
use bulkhead::platforms::vm::initramfs::{Archive, in_memory};
use bulkhead::platforms::vm::modules::{ModuleTree, ModulesError};
use bulkhead::platforms::vm::payload::{GuestModules, read_program};
use bulkhead::platforms::vm::qemu::TRANSLATED_CPU;
use bulkhead::platforms::vm::toolbox::Toolbox;
use bulkhead::units::names::PlatformKind;
use files::{Fullness, Tree};
use verdict::{Judge, Mark, say};

const ROUNDS: u64 = 5;
const MEMORY_MIB: u64 = 1536;

/// What is measured: its name, over what it is divided, and the mark.
const FIGURES: [(&str, &str, f64); 8] = [
    ("create", "9p", 0.5),
    ("stat", "9p", 0.2),
    ("scandir", "9p", 0.2),
    ("git status, cold", "9p", 0.1),
    ("git status, again", "9p", 0.15),
    ("stream", "tmpfs", 1.3),
    ("stream, emptied", "tmpfs", 1.3),
    ("stream, 128 KiB", "tmpfs", 1.3),
];

fn main() -> ExitCode {
    if guest::is_guest() {
        guest::run();
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    verdict::ended("files", run(&words))
}

fn number(words: &[String], name: &str, usual: u64) -> u64 {
    let at = words.iter().position(|word| word == name);
    at.and_then(|at| words.get(at + 1)?.parse().ok()).unwrap_or(usual)
}

fn run(words: &[String]) -> Result<Judge> {
    let spec = PlatformSpec::of_kind(PlatformKind::Vm);
    let modules = |folder: Option<&Path>| -> Result<GuestModules, ModulesError> {
        let mut modules = GuestModules::for_lone_qemu(folder, &[], &[])?;
        if let Some(folder) = folder {
            let loaded = [modules.link.as_slice(), &modules.program].concat();
            modules.program.extend(ModuleTree::open(folder)?.closure(&["virtiofs"], &loaded)?);
        }
        Ok(modules)
    };
    let tools = Toolbox::find_with(&spec, Path::new("/proc/self/exe"), &cache_folder(), None, &modules)?;
    let mut orders = guest::Orders {
        files: number(words, "--files", 3000),
        tree: number(words, "--tree", 20_000),
        mib: number(words, "--mib", 300),
        is_reversed: false,
    };
    let mut folders = Vec::new();
    let mut ratios: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for round in 0..number(words, "--rounds", ROUNDS) {
        // Kept until the end: for seconds after many files were removed ext4 makes new ones slowly.
        let folder = tempfile::tempdir()?;
        orders.is_reversed = round % 2 == 1;
        let taken = one_guest(&tools, &orders, folder.path(), round)?;
        folders.push(folder);
        for (name, over, _) in FIGURES {
            let of = |kind: &str| {
                taken
                    .get(&format!("{kind} {name}"))
                    .copied()
                    .ok_or_else(|| anyhow!("{kind} {name} was not taken"))
            };
            let (ours, other) = (of("virtiofs")?, of(over)?);
            say(&format!(
                "round {round}: {name}: virtio-fs {ours:.3} s, {over} {other:.3} s, ratio {:.3}",
                ours / other
            ));
            ratios.entry(name).or_default().push(ours / other);
        }
    }
    let mut judge = Judge::default();
    for (name, over, mark) in FIGURES {
        let what = format!("{name}: virtio-fs / {over}");
        judge.rounds(&what, ratios.get(name).map_or(&[], Vec::as_slice), Mark::AtMost(mark));
    }
    Ok(judge)
}

/// A repository of so many small files, all of them in its index.
fn make_tree(at: &Path, files: u64) -> Result<()> {
    for number in 0..files {
        let folder = at.join(format!("{:03}", number / 100));
        if number % 100 == 0 {
            fs::create_dir_all(&folder)?;
        }
        fs::write(folder.join(format!("file-{number}")), format!("content of {number}\n"))?;
    }
    for words in [vec!["init", "-q"], vec!["add", "."]] {
        let status = Command::new("git").arg("-C").arg(at).args(words).status().context("git")?;
        ensure!(status.success(), "git ended with {status}");
    }
    Ok(())
}

/// Seconds of everything that one guest has taken.
fn one_guest(
    tools: &Toolbox,
    orders: &guest::Orders,
    folder: &Path,
    round: u64,
) -> Result<BTreeMap<String, f64>> {
    let trees = folder.join("trees");
    for (tree, kind) in ["0", "1"].into_iter().zip(["virtiofs", "9p"]) {
        fs::create_dir_all(trees.join(tree))?;
        say(&format!("round {round}: the repository for {kind}"));
        make_tree(&trees.join(tree).join("tree"), orders.tree)?;
    }
    // The host's system: a link would not lead there, a mount needs rights.
    let served = folder.join("served");
    fs::create_dir_all(&served)?;
    fs::rename(trees.join("0"), served.join("0"))?;
    let socket = folder.join("s");
    let listener = UnixListener::bind(&socket)?;
    let top = File::open(&served)?;
    std::thread::spawn(move || {
        files::serve(listener, top.into(), vec![Tree { is_writable: true }], Fullness::default())
    });
    let initramfs = first_files(tools, orders)?;
    let nine = trees.join("1");
    let output = Command::new(&tools.qemu)
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"])
        .args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", TRANSLATED_CPU, "-smp", "1"])
        .args(["-m", &format!("{MEMORY_MIB}M")])
        .args(["-object", &format!("memory-backend-memfd,id=mem0,size={MEMORY_MIB}M,share=on")])
        .args(["-numa", "node,nodeid=0,memdev=mem0,cpus=0"])
        .arg("-kernel")
        .arg(&tools.kernel.image)
        .args(["-initrd", &format!("/proc/{}/fd/{}", std::process::id(), initramfs.as_raw_fd())])
        .args(["-append", "console=ttyS0 quiet panic=-1"])
        .arg("-chardev")
        .arg(format!("socket,id=files,path={}", socket.display()))
        .args(["-device", "vhost-user-fs-pci,chardev=files,tag=files,queue-size=1024"])
        .arg("-fsdev")
        .arg(format!(
            "local,id=nine,security_model=none,multidevs=remap,readonly=off,path={}",
            nine.display()
        ))
        .args(["-device", "virtio-9p-pci,fsdev=nine,mount_tag=nine"])
        .args(["-fsdev", "local,id=host,security_model=none,multidevs=remap,readonly=on,path=/"])
        .args(["-device", "virtio-9p-pci,fsdev=host,mount_tag=host"])
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let taken: BTreeMap<String, f64> = said
        .lines()
        .filter_map(|line| line.trim().strip_prefix(guest::TAKEN)?.rsplit_once(": "))
        .filter_map(|(name, seconds)| Some((name.to_owned(), seconds.parse().ok()?)))
        .collect();
    ensure!(!taken.is_empty(), "the guest said\n{said}{}", String::from_utf8_lossy(&output.stderr));
    Ok(taken)
}

fn first_files(tools: &Toolbox, orders: &guest::Orders) -> Result<OwnedFd> {
    let mut archive = Archive::new();
    archive.folder("dev")?;
    archive.device("dev/console", 5, 1)?;
    archive.file("init", 0o755, &read_program(&std::env::current_exe()?)?)?;
    archive.folder("modules")?;
    let reversed = u64::from(orders.is_reversed);
    let mut text = format!("{} {} {} {reversed}\n", orders.files, orders.tree, orders.mib);
    for module in tools.modules.link.iter().chain(&tools.modules.program) {
        let path = format!("modules/{}.ko", module.name);
        archive.file(&path, 0o644, &module.image)?;
        text.extend(["/", &path, "\n"]);
    }
    archive.file(guest::ORDERS.trim_start_matches('/'), 0o644, text.as_bytes())?;
    Ok(in_memory("bench-initramfs", &archive.finish()?)?)
}
