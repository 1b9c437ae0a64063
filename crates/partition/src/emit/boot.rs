//! A service that brings a set up with Bulkhead itself at boot, and takes it down (systemd.service(5)): for the system where
//! root asks, else for the user's own manager.

use std::fmt::Write;
use std::path::Path;

use super::quote::{unit, unit_path, unit_value};
use super::text;
use units::Reason;

/// What the service runs.
#[derive(Debug)]
pub struct AtBoot<'a> {
    /// Name of the set.
    pub set: &'a str,
    /// This program.
    pub exe: &'a Path,
    /// The set's file; absolute.
    pub file: &'a Path,
    /// Further words of `up`.
    pub words: &'a [String],
    /// Variables that lead to its folders, as they are now.
    pub env: &'a [(&'a str, String)],
    /// Whether it is root's.
    pub is_root: bool,
}

/// The unit's text. Its supervisors are processes of the unit: none is left when it is stopped, whatever `down` says.
///
/// # Errors
/// A path that a unit cannot hold.
pub fn write(boot: &AtBoot) -> Result<String, Reason> {
    let exe = unit(text(boot.exe)?);
    let mut up = format!("{exe} up {}", unit(text(boot.file)?));
    for word in boot.words {
        let _ = write!(up, " {}", unit(text(Path::new(word))?));
    }
    let mut out = format!("[Unit]\nDescription=Partitions of {}\n", unit_value(boot.set));
    if boot.is_root {
        out.push_str("After=local-fs.target network.target\n");
    }
    // `up` has deadlines of its own for every step.
    out.push_str(
        "\n[Service]\nType=oneshot\nRemainAfterExit=yes\nTimeoutStartSec=infinity\nTimeoutStopSec=5min\n",
    );
    // Groups for its partitions are made below its own.
    out.push_str("Delegate=yes\nKillMode=mixed\nUMask=0077\n");
    for (name, value) in boot.env {
        let _ = writeln!(out, "Environment={}", unit_path(&format!("{name}={}", text(Path::new(value))?)));
    }
    let _ = writeln!(out, "ExecStart={up}\nExecStop={exe} down {}", unit(boot.set));
    let target = if boot.is_root { "multi-user.target" } else { "default.target" };
    let _ = write!(out, "\n[Install]\nWantedBy={target}\n");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_words() {
        let text = write(&AtBoot {
            set: "plant",
            exe: Path::new("/opt/a b/bulkhead"),
            file: Path::new("/etc/pl%ant.toml"),
            words: &["--qemu".to_owned(), "$x".to_owned()],
            env: &[("BULKHEAD_CACHE", "/var/\"c\"".to_owned())],
            is_root: true,
        })
        .expect("a unit");
        assert!(text.contains("ExecStart=\"/opt/a b/bulkhead\" up /etc/pl%%ant.toml --qemu $$x\n"), "{text}");
        assert!(text.contains("Environment=\"BULKHEAD_CACHE=/var/\\\"c\\\"\"\n"), "{text}");
        assert!(text.contains("ExecStop=\"/opt/a b/bulkhead\" down plant\n"), "{text}");
        assert!(text.ends_with("WantedBy=multi-user.target\n"), "{text}");
    }

    #[test]
    fn a_path_of_two_lines_is_refused() {
        let file = Path::new("/etc/a\nExecStart=/bin/sh");
        let boot = AtBoot { set: "plant", exe: Path::new("/b"), file, words: &[], env: &[], is_root: false };
        assert!(write(&boot).is_err());
    }
}
