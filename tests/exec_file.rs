//! `bulkhead exec --rw FILE`: a single file is written through, and nothing beside it.

use crate::exec_fixture;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use exec_fixture::normal_user::{NOBODY, NormalUser};
use exec_fixture::{Here, assert_code, complaint, end_of, finish, guests_start, text, wait_for};
use skips::{Need, skip};

/// A file to open and one beside it, where everybody may write.
fn two_files(here: &Here) -> PathBuf {
    let folder = here.path("folder");
    fs::create_dir(&folder).expect("the test's own files");
    for (path, mode) in [(here.files.path(), 0o755), (&folder, 0o777)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the test's own files");
    }
    fs::write(folder.join("opened"), "old\n").expect("the test's own files");
    fs::write(folder.join("beside"), "untouched\n").expect("the test's own files");
    folder
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).expect("the test's own files")
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

/// Nothing of it can be seen by anybody else, neither now nor later.
fn assert_unseen(here: &Here) {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("proc");
    assert!(!mounts.contains(plain(here.temporary())), "{mounts}");
}

#[test]
fn what_is_written_to_the_file_arrives_and_nothing_else() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let folder = two_files(&here);
    symlink("opened", folder.join("link")).expect("the test's own files");
    let number = folder.join("opened").metadata().expect("the test's own files").ino();
    // Written into, made longer and shorter; what replaces a file instead cannot be.
    let script = "assert() { \"$@\" || exit 9; }
        printf XY | dd of=opened conv=notrunc bs=1 seek=1 2>/dev/null; assert test \"$(cat link)\" = oXY
        head -c 3000000 /dev/urandom > link; sum=$(sha256sum < opened); sync
        echo lost > beside; echo lost > new; cat beside
        mv beside opened 2>/dev/null || echo not replaced
        rm opened 2>/dev/null || echo not removed
        assert test \"$sum\" = \"$(sha256sum < opened)\"; ls -A; ls -A /dev | grep -c open; echo \"$sum\"";
    let link = folder.join("link");
    let words =
        ["--rw", plain(&link), "--workdir", plain(&folder), "--user", "0", "--", "bash", "-c", script];
    let output = here.run(&words);
    assert_code(&output, 0);
    let sum = Command::new("sh").args(["-c", "sha256sum < opened"]).current_dir(&folder).output();
    let sum = text(&sum.expect("a shell"));
    let wanted = format!("lost\nnot replaced\nnot removed\nbeside\nlink\nnew\nopened\n0\n{sum}");
    assert_eq!(text(&output), wanted, "{}", complaint(&output));
    let meta = folder.join("opened").metadata().expect("still there");
    assert_eq!((meta.len(), meta.ino()), (3_000_000, number));
    assert_eq!(read(&folder, "beside"), "untouched\n");
    assert!(!folder.join("new").exists());
    assert_unseen(&here);
    here.assert_nothing_left();
}

#[test]
fn it_has_its_own_path_in_another_tree_and_two_can_be_opened_with_a_folder() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let folder = two_files(&here);
    let (tree, whole) = (here.path("tree"), here.path("whole"));
    for made in [&tree, &whole] {
        fs::create_dir(made).expect("the test's own files");
    }
    let system = ["bin", "lib", "lib64", "usr"].map(|name| format!("/{name}:/{name}"));
    let (opened, beside) = (folder.join("opened"), folder.join("beside"));
    let mut words = vec!["--files", plain(&tree), "--rw", plain(&opened)];
    words.extend(["--rw", plain(&whole), "--rw", plain(&beside)]);
    words.extend(system.iter().flat_map(|bind| ["--bind", bind]));
    let script = "cd \"$0\" && echo one >> opened; echo two >> beside; echo three > other; echo four > ../whole/new; ls";
    words.extend(["--", "/bin/sh", "-c", script, plain(&folder)]);
    let output = here.run(&words);
    assert_code(&output, 0);
    assert_eq!(text(&output), "beside\nopened\nother\n", "{}", complaint(&output));
    assert_eq!(
        (read(&folder, "opened"), read(&folder, "beside")),
        ("old\none\n".into(), "untouched\ntwo\n".into())
    );
    assert_eq!(read(&whole, "new"), "four\n");
    assert!(!folder.join("other").exists() && fs::read_dir(&tree).expect("it is there").next().is_none());
    here.assert_nothing_left();
}

/// Needs a user namespace, which is the least that a normal user can do it with.
#[test]
fn a_normal_user_can_open_his_own_file_only() {
    if !nix::unistd::geteuid().is_root() {
        return skip(Need::Root, "only root can become a normal user for a moment");
    }
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let folder = two_files(&here);
    std::os::unix::fs::chown(folder.join("opened"), Some(NOBODY), Some(NOBODY)).expect("root may");
    let user = NormalUser::new(&here);
    let as_nobody = |file: &str| -> Output {
        let script = "id -u; echo mine >> opened; cat opened; echo lost > beside";
        let mut command = user.exec(&[], &["--rw", file, "--", "sh", "-c", script]);
        finish(command.current_dir(&folder).spawn().expect("setpriv runs"))
    };
    let output = as_nobody("opened");
    assert_code(&output, 0);
    assert_eq!(text(&output), "65534\nold\nmine\n", "{}", complaint(&output));
    assert_eq!(
        (read(&folder, "opened"), read(&folder, "beside")),
        ("old\nmine\n".into(), "untouched\n".into())
    );
    let refused = as_nobody("beside");
    assert_code(&refused, 125);
    assert!(complaint(&refused).contains("it cannot be read and written"), "{}", complaint(&refused));
    assert_eq!(fs::read_dir(&user.temporary).expect("it is there").count(), 0);
}

#[test]
fn killed_it_leaves_the_file_and_nothing_else() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let folder = two_files(&here);
    let opened = folder.join("opened");
    let words = ["--rw", plain(&opened), "--", "sh", "-c", "echo in time >> \"$0\"; echo ready; sleep 1000"];
    let mut child = here.command(&[&words[..], &[plain(&opened)]].concat()).spawn().expect("it starts");
    wait_for(&mut child, "ready\n");
    child.kill().expect("it runs");
    end_of(&mut child);
    here.assert_nothing_left();
    assert_eq!(read(&folder, "opened"), "old\nin time\n");
    assert_unseen(&here);
}

#[test]
fn what_is_neither_is_refused() {
    let here = Here::new();
    let folder = two_files(&here);
    let socket = folder.join("socket");
    let _listening = std::os::unix::net::UnixListener::bind(&socket).expect("the test's own files");
    for path in [&socket, Path::new("/dev/null")] {
        let begun = std::time::Instant::now();
        let output = here.run(&["--rw", plain(path), "--", "true"]);
        assert_code(&output, 125);
        assert!(complaint(&output).contains("neither a file nor a folder"), "{}", complaint(&output));
        assert!(begun.elapsed() < Duration::from_secs(20), "it takes no guest to know that");
    }
    here.assert_nothing_left();
}
