//! Which file systems are mounted below a folder, and which of them the kernel makes up.

use std::path::{Path, PathBuf};

/// Kinds of file systems whose files nobody has written: they show the kernel and what it runs.
const MADE_UP: [&str; 24] = [
    "proc",
    "sysfs",
    "devtmpfs",
    "devpts",
    "cgroup",
    "cgroup2",
    "securityfs",
    "debugfs",
    "tracefs",
    "pstore",
    "bpf",
    "mqueue",
    "hugetlbfs",
    "configfs",
    "fusectl",
    "binfmt_misc",
    "autofs",
    "rpc_pipefs",
    "nsfs",
    "efivarfs",
    "selinuxfs",
    "smackfs",
    "nfsd",
    "resctrl",
];

/// Every mount of the host.
pub struct Below {
    /// Where, and whether its files are made up by the kernel; those above come first.
    mounts: Vec<(PathBuf, bool)>,
}

impl Below {
    /// From what `/proc/self/mountinfo` says (proc(5)); names of files are bytes there, whatever their encoding.
    pub fn read(table: &[u8]) -> Self {
        let line = |line: &[u8]| {
            let point = mount_point(line)?;
            let back = line.windows(3).position(|three| three == b" - ")?;
            let kind = line.get(back + 3..)?.split(|byte| *byte == b' ').next()?;
            Some((point, MADE_UP.iter().any(|known| known.as_bytes() == kind)))
        };
        let mut mounts: Vec<(PathBuf, bool)> = table.split(|byte| *byte == b'\n').filter_map(line).collect();
        // The last one of several at the same place is what is seen there.
        mounts.reverse();
        mounts.sort_by(|(a, _), (b, _)| a.cmp(b));
        mounts.dedup_by(|(later, _), (first, _)| later == first);
        Self { mounts }
    }

    /// Those strictly below a folder, without those below what is made up.
    pub fn of(&self, folder: &Path) -> Vec<(&Path, bool)> {
        let mut found: Vec<(&Path, bool)> = Vec::new();
        for (path, is_made_up) in &self.mounts {
            let is_below = path.starts_with(folder) && path != folder;
            let is_hidden = found.iter().any(|(above, made_up)| *made_up && path.starts_with(above));
            if is_below && !is_hidden {
                found.push((path, *is_made_up));
            }
        }
        found
    }
}

/// Where the mounts of `/proc/PID/mountinfo` lie, in the order in which they were made.
pub fn mount_points(table: &[u8]) -> impl Iterator<Item = PathBuf> {
    table.split(|byte| *byte == b'\n').filter_map(mount_point)
}

/// Where the mount of one line lies.
fn mount_point(line: &[u8]) -> Option<PathBuf> {
    line.split(|byte| *byte == b' ').nth(4).map(unescaped)
}

/// Spaces, tabs, line ends and backslashes are written as three octal digits.
fn unescaped(word: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::new();
    let mut left = word;
    while let Some((first, rest)) = left.split_first() {
        let digits = rest.get(..3).filter(|_| *first == b'\\');
        let code = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(code.unwrap_or(*first));
        left = if code.is_some() { rest.get(3..).unwrap_or_default() } else { rest };
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:1 / /proc rw - proc proc rw\n\
                         3 2 0:2 / /proc/sys/x rw - ext4 b rw\n4 1 0:3 / /srv/a\\040b rw - xfs c rw\n\
                         5 1 0:4 / /srv rw - tmpfs d rw\n6 1 0:4 / /srvx rw shared:1 - sysfs d rw\nrubbish\n";

    #[test]
    fn mounts_below_a_folder_are_found_above_first() {
        let below = Below::read(TABLE);
        let of = |folder: &str| -> Vec<(String, bool)> {
            below
                .of(Path::new(folder))
                .into_iter()
                .map(|(path, made_up)| (path.display().to_string(), made_up))
                .collect()
        };
        assert_eq!(of("/srv"), [("/srv/a b".to_owned(), false)]);
        let all = ["/proc", "/srv", "/srv/a b", "/srvx"];
        assert_eq!(of("/"), all.map(|path| (path.to_owned(), path == "/proc" || path == "/srvx")));
    }

    #[test]
    fn names_are_bytes() {
        use std::os::unix::ffi::OsStrExt;
        let below = Below::read(b"1 0 8:1 / /a\xff rw - ext4 x rw\n2 1 8:1 / /a\xff/b rw - proc x rw\n");
        let folder = Path::new(std::ffi::OsStr::from_bytes(b"/a\xff"));
        assert_eq!(below.of(folder), [(folder.join("b").as_path(), true)]);
    }

    #[test]
    fn what_lies_on_top_counts() {
        let below = Below::read(b"1 0 8:1 / /a rw - ext4 x rw\n2 1 8:1 / /a rw - proc x rw\n");
        assert_eq!(below.of(Path::new("/")), [(Path::new("/a"), true)]);
    }
}
