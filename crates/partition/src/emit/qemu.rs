//! A script for each partition: one command line, with what each part of it is for.

use std::fmt::Write;
use std::path::PathBuf;

use super::quote::{comment, shell};
use super::words::{CONSOLE_FILE, groups};
use super::{Emission, Emitted, Prepared, text};
use model::partition::Priority;
use model::partition::set::Restart;
use units::Reason;

/// Writes the scripts, and one that starts all of them.
pub fn write(emission: &Emission, emitted: &mut Emitted) -> Result<(), Reason> {
    emitted.remark(
        "QEMU runs as whoever starts these scripts, with all that user may do: not root, if what runs in the partitions \
         is not trusted; units of systemd hold it back".to_owned(),
    );
    for partition in &emission.partitions {
        let script = script(emission, partition, emitted)?;
        emitted.file(format!("{}.sh", partition.spec.name), script, true);
    }
    let mut all = String::from(
        "#!/bin/sh\n# Starts all partitions and waits for all their ends; fails when one's script does, which says so at once, and ends \
         them when\n# it is ended.\nset -eu\n",
    );
    let memory = memory(emission);
    let shares = emission.partitions.iter().any(|partition| !partition.spec.sections.is_empty());
    if shares {
        let _ = writeln!(all, "memory={}", shell(text(&memory)?));
        let shown = memory.display();
        emitted.remark(format!(
            "channels: their memory stays in {shown} unless all-partitions comes to its end"
        ));
    }
    all.push_str(&ending(shares));
    for partition in &emission.partitions {
        let path = emission.beside(&format!("{}.sh", partition.spec.name))?;
        let _ = writeln!(all, "{} &\npids=\"$pids $!\"", shell(&path));
        if !partition.after.is_empty() {
            emitted.remark(format!("{}: started in order, but not when the others run", partition.spec.name));
        }
    }
    all.push_str("status=0\nfor pid in $pids; do wait \"$pid\" || status=$?; done\n");
    all.push_str("finish $status\n");
    emitted.file("all-partitions".to_owned(), all, true);
    Ok(())
}

/// How the script that starts all of them ends: by itself, or by a signal, which QEMU is passed on as SIGTERM (in the background it
/// ignores SIGINT).
fn ending(shares_memory: bool) -> String {
    let forget = "    if [ -O \"$memory\" ] && [ ! -L \"$memory\" ]; then rm -rf \"$memory\"; fi\n";
    let forget = if shares_memory { forget } else { "" };
    format!(
        "pids=\nfinish() {{\n{forget}    exit \"$1\"\n}}\n\
         stop() {{\n    trap '' HUP INT TERM\n    for pid in $pids; do kill \"$pid\" 2>/dev/null || true; done\n    \
         wait\n    finish \"$1\"\n}}\n\
         trap 'stop 129' HUP\ntrap 'stop 130' INT\ntrap 'stop 143' TERM\n"
    )
}

fn script(emission: &Emission, partition: &Prepared, emitted: &mut Emitted) -> Result<String, Reason> {
    let name = &partition.spec.name;
    let known = emitted.remarks.len();
    let (before, mine) = placing(partition);
    for remark in mine {
        emitted.remark(format!("{name}: {remark}"));
    }
    let groups = groups(emission, partition, &memory(emission), emitted)?;
    let mut script = format!("#!/bin/sh\n# Partition {name} of {}.\n", emission.set);
    for remark in emitted.remarks.iter().skip(known) {
        let _ = writeln!(script, "# Not as with Bulkhead: {}", comment(remark));
    }
    script.push_str("set -eu\n");
    script.push_str(&shared_memory(emission, partition)?);
    script.push_str("\nset -- \\\n");
    let mut lines = vec![before.iter().map(|word| shell(word)).collect::<Vec<_>>().join(" ")];
    lines.push(shell(text(&emission.qemu)?));
    lines.retain(|line| !line.is_empty());
    let _ = writeln!(script, "    {}", lines.join(" "));
    for group in groups {
        let words: Vec<String> = group.words.iter().map(|word| shell(word)).collect();
        // Comments cannot stand within a command that goes over several lines, so each group is a command.
        let _ = write!(script, "\n# {}\nset -- \"$@\"", group.about);
        for word in words {
            // An option begins a line.
            let _ = if word.starts_with('-') {
                write!(script, " \\\n    {word}")
            } else {
                write!(script, " {word}")
            };
        }
        script.push('\n');
    }
    let console = shell(&emission.output(partition, CONSOLE_FILE)?);
    let end = if partition.is_program() { shell(&emission.output(partition, "end")?) } else { String::new() };
    let (name, memory) = (shell(name), partition.spec.resources.memory.get());
    let _ = write!(script, "\nname={name}\nmemory_mib={memory}\nconsole={console}\nend={end}\n");
    script.push_str(RUN_TO_ITS_END);
    Ok(script)
}

/// Runs QEMU to its end and ends as the program did: QEMU itself ends well whatever becomes of what it runs. QEMU does not outlive
/// this script where `setpriv` can see to that.
const RUN_TO_ITS_END: &str = r#"
if [ -n "$end" ]; then rm -f "$end"; fi
if command -v setpriv >/dev/null 2>&1; then set -- setpriv --pdeathsig KILL "$@"; fi
# What is in the background has no input otherwise.
exec 3<&0
"$@" <&3 3<&- &
qemu=$!
exec 3<&-
asked=
ask() { asked=$1; kill "$qemu" 2>/dev/null || true; }
trap 'ask 129' HUP
trap 'ask 130' INT
trap 'ask 143' TERM
# A signal ends the wait, and not QEMU.
while :; do
    status=0
    wait "$qemu" || status=$?
    kill -0 "$qemu" 2>/dev/null || break
done
if [ -n "$asked" ]; then exit "$asked"; fi
fail() { echo "$name: $1" >&2; exit "$2"; }
if [ "$status" -ne 0 ]; then fail "QEMU ended with $status" "$status"; fi
if [ -z "$end" ]; then exit 0; fi
if grep -qs '^{"type":"memory-ran-out"' "$end"; then echo "$name: memory ran out ($memory_mib MiB)" >&2; fi
how=$(grep -s '^{"type":"ended"' "$end" | tail -n 1 | tr -cd 'a-z0-9')
case $how in
    typeendedhowexit*) code=${how#typeendedhowexit} ;;
    typeendedhowsignal*) code=$((128 + ${how#typeendedhowsignal})) ;;
    *) fail "its guest ended before its program did; what the guest said is in $console" 1 ;;
esac
exit "$code"
"#;

/// Folder of channels: another one for each place that is written to.
fn memory(emission: &Emission) -> PathBuf {
    let place = crc32fast::hash(emission.folder.as_os_str().as_encoded_bytes());
    PathBuf::from(format!("/dev/shm/bulkhead-{}-{place:08x}", emission.set))
}

/// Makes the memory of channels, unless another partition has.
fn shared_memory(emission: &Emission, partition: &Prepared) -> Result<String, Reason> {
    let mut script = String::new();
    let memory = memory(emission);
    if partition.spec.sections.is_empty() {
        return Ok(script);
    }
    let _ = write!(
        script,
        "\n# memory it shares with others, in a folder of ours alone\nmemory={}\n\
         mkdir -m 700 \"$memory\" 2>/dev/null || true\n\
         if [ -L \"$memory\" ] || [ ! -d \"$memory\" ] || [ ! -O \"$memory\" ]; then\n    \
         echo \"$memory is not ours\" >&2\n    exit 1\nfi\n",
        shell(text(&memory)?)
    );
    for section in &partition.spec.sections {
        let (bytes, name) = (section.size_mib.to_bytes().get(), shell(&section.name));
        let _ = writeln!(script, "(umask 077 && fallocate -l {bytes} \"$memory\"/{name})");
    }
    Ok(script)
}

/// Words in front of QEMU's name, and what cannot be said there.
fn placing(partition: &Prepared) -> (Vec<String>, Vec<&'static str>) {
    let resources = &partition.spec.resources;
    let (mut words, mut remarks) = (Vec::new(), Vec::new());
    let mut add = |parts: &[&str]| words.extend(parts.iter().map(|part| (*part).to_owned()));
    if let Some(pin) = &resources.pin {
        add(&["taskset", "-c", &pin.to_string()]);
        if pin.numbers().len() == resources.cpus as usize {
            remarks.push("its CPUs share those they are pinned to, none has one of its own");
        }
    }
    match resources.priority {
        Priority::Usual => {}
        Priority::Nice(nice) => add(&["nice", "-n", &nice.to_string()]),
        Priority::Realtime(priority) => {
            add(&["chrt", "-f", &priority.to_string()]);
            remarks.push("all of QEMU is real-time, not its CPUs alone");
        }
    }
    if resources.cpu_weight.is_some() || resources.cpu_cap_percent.is_some() {
        remarks
            .push("no cpu_weight and no cpu_cap_percent: they need a cgroup, which a plain command has not");
    }
    if partition.restart != Restart::Never {
        remarks.push("it is not started again when it ends");
    }
    (words, remarks)
}
