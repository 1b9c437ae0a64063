//! What stands against a set is told before anything of it is started, with a stand-in for QEMU: all of it at once, each at its line.

use crate::set_fixture;

use bulkhead::model::partition::set::Phase;
use set_fixture::{Bench, said};

#[test]
fn bad_files_start_nothing() {
    let bench = Bench::pretending();
    for (text, part) in [
        (
            "[partition.a]\nprogram = [\"/bin/true\"]\nafter = [\"b\"]\n[partition.b]\nprogram = [\"/bin/true\"]\nafter = [\"a\"]\n",
            "line 4: partition.a.after: they wait for each other: a after b after a",
        ),
        (
            "[partition.a]\nprogram = [\"/no/such/program\"]\n",
            "line 3: partition.a.program: /no/such/program was not found",
        ),
        (
            "[partition.a]\nprogram = [\"/bin/true\"]\nmemory_mib = 16000000\n",
            "line 4: partition.a.memory_mib",
        ),
        ("[partition.a]\nprogram = [\"/bin/true\"]\npin = \"8191\"\n", "line 4: partition.a.pin: CPU 8191"),
        ("[partition.a]\nprogram = [\"/bin/true\"]\nnode = 4000\n", "line 4: partition.a.node"),
        (
            "[partition.a]\nprogram = [\"/bin/true\"]\nuser = \"nobody-of-that-name\"\n",
            "line 4: partition.a.user",
        ),
        (
            "[partition.a]\nprogram = [\"/bin/true\"]\nrw = [\"/no/such/folder\"]\n",
            "line 4: partition.a.rw: ",
        ),
        (
            "[partition.a]\nprogram = [\"/bin/true\"]\ncpus = \"two\"\n",
            "line 4: cpus: invalid type: string \"two\", expected a number from 0 to",
        ),
        (
            "[partition.a]\nprogram = [\"/bin/true\"]\nmemory_mib = 100\n",
            "line 4: partition.a.memory_mib: a guest boots with at least 128 MiB, got 100 MiB",
        ),
    ] {
        let file = bench.file("plant.toml", text);
        let told = bench.up(&file);
        assert_eq!(told.code, Some(2), "{text}: {told:?}");
        assert!(told.err.contains(part), "{text}: {}", told.err);
        assert_eq!(bench.left(), Vec::<String>::new(), "{text}");
    }
    assert_eq!(bench.up(&bench.path("missing.toml")).code, Some(2));
}

/// What the file alone tells, and what only this host can tell.
#[test]
fn all_that_is_wrong_is_told_at_once_in_the_order_of_the_file() {
    let bench = Bench::pretending();
    let by_file = "[partition.b]\nprogram = [\"/bin/true\"]\ncpu = 1\n[partition.a]\nprogram = [\"/bin/true\"]\n\
                   cpus = 0\nafter = [\"nobody\"]\n";
    let by_host = "[partition.b]\nprogram = [\"/no/such/program\"]\n[partition.a]\nprogram = [\"/bin/true\"]\n\
                   user = \"nobody-of-that-name\"\npin = \"8191\"\n";
    // Everything once, at its own line; what may come from another fault is left out.
    let by_both = "[partition.c]\nprogram = [\"/bin/true\"]\ncpu = 1\n[partition.b]\nprogram = [\"/no/such/program\"]\n\
                   rw = [\"/no/such/folder\"]\ncpus = 0\n[partition.a]\nprogram = [\"/bin/true\"]\nafter = [\"nobody\"]\n\
                   user = \"nobody-of-that-name\"\nnetworks = [\"none\"]\n";
    let of_all_kinds = "[partition.c]\nimage = \"/no/such/image\"\nrw = [\"/no/such/folder\"]\n\
                        secrets = { token = \"/no/such/file\" }\n\
                        [partition.d]\nprogram = [\"/no/such/program\"]\nworkdir = \"/no/such/folder\"\n\
                        user = \"nobody-of-that-name\"\nro = [\n  \"/no/such/one\",\n  \"/no/such/two\",\n]\n\
                        disk = [{ file = \"/no/such/disk\" }]\n";
    for (text, wanted) in [
        (
            by_both,
            &[
                "line 4: unknown field",
                "line 6: partition.b.program: /no/such/program",
                "line 7: partition.b.rw: what is to be opened for writing, /no/such/folder",
                "line 8: partition.b.cpus",
                "line 11: partition.a.after",
                "line 12: partition.a.user",
                "line 13: partition.a.networks",
            ][..],
        ),
        (by_file, &["line 4: unknown field", "line 7: partition.a.cpus", "line 8: partition.a.after"][..]),
        ("[partition.a]\ncpus = 0\n", &["line 2: partition.a: wanted program", "line 3: partition.a.cpus"]),
        (by_host, &["line 3: partition.b.program", "line 6: partition.a.user", "line 7: partition.a.pin"]),
        (
            of_all_kinds,
            &[
                "line 3: partition.c.image",
                "line 4: partition.c.rw: what is to be opened for writing, /no/such/folder",
                "line 5: partition.c.secrets.token: secret token: /no/such/file",
                "line 7: partition.d.program: /no/such/program",
                "line 8: partition.d.workdir: the folder to start in, /no/such/folder",
                "line 9: partition.d.user",
                "line 11: partition.d.ro: /no/such/one",
                "line 12: partition.d.ro: /no/such/two",
                "line 14: partition.d.disk: disk /no/such/disk",
            ],
        ),
        (
            &format!("{of_all_kinds}[partition.e]\nprogram = [\"/bin/true\"]\nafter = [\"nobody\"]\n"),
            &[
                "line 3: partition.c.image",
                "line 4: partition.c.rw",
                "line 5: partition.c.secrets.token",
                "line 7: partition.d.program",
                "line 8: partition.d.workdir",
                "line 9: partition.d.user",
                "line 11: partition.d.ro",
                "line 12: partition.d.ro",
                "line 14: partition.d.disk",
                "line 17: partition.e.after",
            ],
        ),
    ] {
        let file = bench.file("plant.toml", text);
        let told = bench.up(&file);
        assert_eq!(told.code, Some(2), "{told:?}");
        assert_eq!(told.err.lines().count(), wanted.len(), "{}", told.err);
        for (line, wanted) in told.err.lines().zip(wanted) {
            assert!(line.contains(&format!("{}: {wanted}", file.display())), "{wanted}: {}", told.err);
        }
        assert_eq!(bench.left(), Vec::<String>::new());
    }
}

/// Regression: what this host says named the file by its whole path, what the file says as it was given.
#[test]
fn a_file_is_called_as_it_was_given() {
    let bench = Bench::pretending();
    for text in ["[partition.a]\nprogram = [\"/no/such/program\"]\n", "[partition.a]\ncpus = 0\n"] {
        let file = bench.file("plant.toml", text);
        let folder = file.parent().expect("a folder");
        let told = said(&bench.command(&["up", "plant.toml"]).current_dir(folder).output().expect("it runs"));
        assert_eq!(told.code, Some(2), "{told:?}");
        assert!(told.err.lines().all(|line| line.contains("plant.toml: line")), "{}", told.err);
        assert!(!told.err.contains(&folder.display().to_string()), "{}", told.err);
    }
}

#[test]
fn a_port_that_somebody_else_has_is_told_before_anything_is_started() {
    let bench = Bench::pretending();
    // None of those that the kernel gives to whoever asks for any: somebody would have it between the end of this one and `up`.
    let mut below = (10_000_u16..30_000).cycle().skip(std::process::id() as usize % 20_000).take(1000);
    let taken = below.find_map(|port| std::net::TcpListener::bind(("127.0.0.1", port)).ok()).expect("a port");
    let port = taken.local_addr().expect("a port").port();
    let text = format!(
        "[partition.db]\nprogram = [\"/bin/sleep\", \"1000\"]\n[partition.web]\nprogram = [\"/bin/sleep\", \"1000\"]\n\
         after = [\"db\"]\nports = [\"{port}:80\"]\n"
    );
    let file = bench.file("plant.toml", &text);
    let told = bench.up(&file);
    assert_eq!(told.code, Some(2), "{told:?}");
    let wanted = format!(
        "line 7: partition.web.ports: port 127.0.0.1:{port}:80: 127.0.0.1:{port} cannot be listened at"
    );
    assert!(told.err.contains(&wanted) && !told.err.contains("db: "), "{}", told.err);
    assert_eq!(bench.left(), Vec::<String>::new());

    // What the set itself has, it may have again.
    drop(taken);
    assert_eq!(bench.up(&file).code, Some(0));
    let db = bench.wait_for("db", Phase::Running).pid;
    bench.file("plant.toml", &text.replace("\nafter", "\nnice = 3\nafter"));
    let told = bench.up(&file);
    assert!(told.code == Some(0) && told.err.contains("web: ended, because it is another one"), "{told:?}");
    // Another one may not.
    let other = bench.file("other.toml", &text);
    let told = bench.up(&other);
    assert!(told.code == Some(2) && told.err.contains(&wanted), "{told:?}");
    assert_eq!(bench.phases(), "db running, web running");
    assert_eq!(bench.wait_for("db", Phase::Running).pid, db);
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}
