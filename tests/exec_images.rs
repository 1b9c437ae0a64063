//! Images of containers and volumes, with real guests: `bulkhead exec --image`, `--volume`, and what is kept of both.

use crate::{exec_fixture, image_fixture};

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use bulkhead::model::partition::{Files, ImageRef};
use bulkhead::partition::image::{Around, Overrides, Ready, ready};
use exec_fixture::normal_user::NormalUser;
use exec_fixture::{
    Here, PATIENCE, assert_code, complaint, end_of, fetched_kernel, finish, free_port, guests_start, text,
    wait_for,
};
use image_fixture::{Layer, Who, image, image_of, index, named, shell_image, system_layer};
use nix::unistd::geteuid;
use serde_json::json;
use skips::{Need, skip};
use tar::EntryType;

fn plain(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

/// Makes an image ready below `cache`; its root, and what was told.
fn made(cache: &Path, named: &str) -> Result<(std::path::PathBuf, Vec<String>), String> {
    let mut told = Vec::new();
    let mut tell = |text: &str| told.push(text.to_owned());
    let mut around = Around { cache, is_wanted: &|| true, tell: &mut tell };
    let wanted: ImageRef = named.parse().expect("a name");
    let Ready::Image(image) = ready(&wanted, &mut around)? else { panic!("an image") };
    let Files::Tree(root) = image.program(Overrides::default())?.files else { panic!("a tree") };
    Ok((root, told))
}

/// Runs with these words, and leaves no image behind in the cache.
fn run(here: &Here, words: &[&str]) -> Output {
    let output = here.run(words);
    image_fixture::forget(&bulkhead::cli::cache_folder(), here.files.path());
    output
}

#[test]
fn an_image_says_its_program_variables_folder_and_user() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let script = "id -u; id -g; pwd; echo $A $HOME; stat -c '%a %u %g' /usr/bin/tool /etc/shadow /srv/app; test -e /gone || echo away; \
                  cat kept; test -c /dev/null && test -d /proc/self && test -d /sys/class && test -w /tmp && echo mounts; \
                  echo changed > kept; cat kept; cat /run/secrets/token; echo $0 $1";
    let config = json!({
        "User": "app", "WorkingDir": "/srv/app", "Env": ["A=image", "PATH=/bin"],
        "Entrypoint": ["/bin/sh", "-c", script], "Cmd": ["from", "cmd"],
    });
    let who = |user, mode| Who { user, group: 42, mode };
    let users = "root:x:0:0::/root:/bin/sh\napp:x:70:71::/home/app:/bin/sh\n";
    let lower = system_layer(&["sh", "id", "cat", "stat"])
        .file("etc/passwd", 0o644, users)
        .file("gone", 0o644, "")
        .entry(EntryType::Regular, b"etc/shadow", b"", who(0, 0o640), b"root:*\n")
        .entry(EntryType::Regular, b"usr/bin/tool", b"", who(0, 0o4755), b"tool");
    let upper = Layer::default()
        .file(".wh.gone", 0o644, "")
        .entry(EntryType::Directory, b"srv/app", b"", who(70, 0o750), b"")
        .entry(EntryType::Regular, b"srv/app/kept", b"", who(70, 0o600), b"kept\n");
    let layout = here.path("layout");
    let both = [lower.archive(), upper.archive()];
    index(&layout, &[image(&layout, &config, &both)]);
    fs::write(here.path("token"), "xyzzy\n").expect("the test's own files");
    let secret = format!("token={}", here.path("token").display());
    let output = run(&here, &["--image", plain(&layout), "--secret", &secret]);
    assert_code(&output, 0);
    let wanted = "70\n71\n/srv/app\nimage /home/app\n4755 0 42\n640 0 42\n750 70 42\naway\nkept\nmounts\nchanged\nxyzzy\nfrom cmd\n";
    assert_eq!(text(&output), wanted);
    assert!(complaint(&output).contains("unpacking"), "{}", complaint(&output));
    here.assert_nothing_left();
}

#[test]
fn the_command_line_counts_before_the_image() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let layout = here.path("layout");
    let config = json!({ "Entrypoint": ["/bin/sh"], "Cmd": ["-c", "exit 9"], "Env": ["A=1", "B=2"], "User": "5:6", "WorkingDir": "/w" });
    let one = image(&layout, &config, &[system_layer(&["sh", "id"]).archive()]);
    let other = image(&layout, &json!({}), &[Layer::default().file("x", 0o644, "").archive()]);
    let script = "id -u; id -g; pwd; cat /etc/hosts /etc/hostname";
    let bare = json!({ "Entrypoint": ["/bin/sh", "-c", script], "User": "1234", "WorkingDir": "/w/../v" });
    let bare = image(&layout, &bare, &[system_layer(&["sh", "id", "cat"]).archive()]);
    index(&layout, &[named(one, "1.0"), named(other, "2.0"), named(bare, "3.0")]);
    let first = format!("{}:1.0", layout.display());
    let script = "id -u; pwd; echo $A $B $TERM; exit 7";
    let own = ["--env", "A=3", "--user", "8:9", "--workdir", "/bin", "--", "-c", script];
    let output = here.run(&[&["--image", &first], &own[..]].concat());
    assert_code(&output, 7);
    assert_eq!(text(&output), "8\n/bin\n3 2\n");
    assert_code(&here.run(&["--image", &first]), 9);
    // As container engines have it: a stranger's group is 0, and who looks for its own name finds it.
    let output = here.run(&["--hostname", "box", "--image", &format!("{}:3.0", layout.display())]);
    assert_code(&output, 0);
    assert_eq!(text(&output), "1234\n0\n/v\n127.0.0.1\tlocalhost\n127.0.1.1\tbox\nbox\n");
    for (words, code, part) in [
        (vec!["--image", plain(&layout)], 125, "name one of them: \"1.0\", \"2.0\", \"3.0\""),
        (vec!["--image", &format!("{}:2.0", layout.display())], 125, "the image names no program"),
        (vec!["--image", &first, "--user", "me"], 125, "the image's /etc/passwd has no user \"me\""),
        (vec!["--image", &first, "--ro", "/srv", "--", "x"], 125, "use --bind"),
        (vec!["--image", "/no/such"], 125, "there is no such folder"),
        (vec!["--image", "/etc/passwd"], 125, "tar -C DIR"),
        (vec!["--image", "oci:a b"], 125, "oci:NAME with a name such as"),
        (vec!["--image", "/etc", "--files", "all", "--", "x"], 125, "cannot be used with"),
        (vec!["--image", plain(here.files.path())], 125, "give one after --"),
    ] {
        let output = here.run(&words);
        assert_code(&output, code);
        assert!(complaint(&output).contains(part), "{words:?}: {}", complaint(&output));
    }
    image_fixture::forget(&bulkhead::cli::cache_folder(), here.files.path());
}

#[test]
fn an_image_of_a_normal_user_has_its_owners_all_the_same() {
    if !guests_start() {
        return;
    }
    if !geteuid().is_root() {
        return skip(Need::Root, "only root can be somebody else");
    }
    let here = Here::new();
    let user = NormalUser::new(&here);
    let layout = here.path("layout");
    let who = Who { user: 70, group: 71, mode: 0o4711 };
    let layer = system_layer(&["sh", "id", "stat"]).entry(EntryType::Regular, b"tool", b"", who, b"x");
    let config = json!({ "Cmd": ["/bin/sh", "-c", "id -u; stat -c '%a %u %g' /tool /bin/sh; : > /new; stat -c %u /new"] });
    index(&layout, &[image(&layout, &config, &[layer.archive()])]);
    let output = finish(user.exec(&[], &["--image", plain(&layout)]).spawn().expect("it starts"));
    assert_code(&output, 0);
    assert_eq!(text(&output), "0\n4711 70 71\n755 0 0\n0\n");
    here.assert_nothing_left();
}

#[test]
fn an_image_is_unpacked_once_and_a_broken_one_anew() {
    let here = Here::new();
    let (cache, layout) = (here.path("cache"), here.path("layout"));
    fs::create_dir(&cache).expect("the test's own files");
    index(&layout, &[shell_image(&layout)]);
    let name = plain(&layout);
    let tells: Vec<_> = std::thread::scope(|scope| {
        let at_once = [0; 4].map(|_| scope.spawn(|| made(&cache, name).expect("ready")));
        at_once.map(|one| one.join().expect("no panic")).to_vec()
    });
    let unpacked = tells.iter().flat_map(|(_, told)| told).filter(|text| text.starts_with("unpacking"));
    assert_eq!(unpacked.count(), 1, "{tells:?}");
    let root = tells[0].0.clone();
    assert!(tells.iter().all(|(other, _)| *other == root));
    let place = root.parent().expect("a folder").to_owned();
    assert_eq!(fs::metadata(&place).expect("there").permissions().mode() & 0o777, 0o700);

    // Broken: its config is gone, is another, its root is a link; a crash left half of it.
    let config = place.join("config.json");
    let breaks: [&dyn Fn(); 3] =
        [&|| fs::remove_file(&config).expect("there"), &|| fs::write(&config, "{}").expect("there"), &|| {
            fs::rename(&root, place.join("aside")).expect("there");
            symlink("/etc", &root).expect("the test's own files");
        }];
    for break_it in breaks {
        fs::write(root.join("junk"), "").expect("ours");
        fs::create_dir_all(place.with_extension("new").join("root/half")).expect("the test's own files");
        break_it();
        let (again, told) = made(&cache, name).expect("ready");
        assert!(again == root && told.iter().any(|text| text.starts_with("unpacking")), "{told:?}");
        assert!(!root.join("junk").exists() && root.join("bin/sh").exists());
        assert!(!place.with_extension("new").exists());
        assert_eq!(made(&cache, name).expect("ready").1, Vec::<String>::new());
    }

    // What fails leaves nothing that could be taken for an image.
    let other = here.path("other");
    let bad = Layer::default().file("bin/sh", 0o755, "x").file("../up", 0o644, "");
    index(&other, &[image(&other, &json!({ "Cmd": ["/bin/sh"] }), &[bad.archive()])]);
    let told = made(&cache, plain(&other)).expect_err("it leads out");
    assert!(told.contains("leads out of the image"), "{told}");
    let left = fs::read_dir(cache.join("images/trees")).expect("ours").flatten();
    let left: Vec<_> = left
        .map(|entry| entry.file_name().display().to_string())
        .filter(|name| Path::new(name).extension().is_none())
        .collect();
    assert_eq!(left, [place.file_name().expect("a name").display().to_string()]);
}

/// The stand-in copies a layout, as skopeo writes one; what it is called with is what skopeo takes.
#[test]
fn a_name_of_a_registry_is_fetched_once_by_skopeo() {
    let here = Here::new();
    let (layout, tools, log) = (here.path("layout"), here.path("tools"), here.path("log"));
    index(&layout, &[shell_image(&layout)]);
    fs::create_dir(&tools).expect("the test's own files");
    fs::create_dir(here.path("bulkhead")).expect("the test's own files");
    let fetch = |path: &str| {
        let mut command = here.command(&["--image", "oci:docker.io/library/x:1", "--user", "nobody-here"]);
        command.env("PATH", path).env("BULKHEAD_CACHE", here.path("bulkhead"));
        finish(command.spawn().expect("it starts"))
    };
    // The fixture starts it with a program of the system's.
    symlink("/usr/bin/env", tools.join("env")).expect("the test's own files");
    let without = fetch(plain(&tools));
    assert_code(&without, 125);
    assert!(complaint(&without).contains("apt install skopeo"), "{}", complaint(&without));
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {log}\n[ -e {log}.fail ] && {{ echo no such image >&2; exit 1; }}\nfor last; do :; done\n\
         dest=${{last#oci:}}\nexec cp -r {layout} \"${{dest%:image}}\"\n",
        log = log.display(),
        layout = layout.display()
    );
    fs::write(tools.join("skopeo"), script).expect("the test's own files");
    fs::set_permissions(tools.join("skopeo"), fs::Permissions::from_mode(0o755))
        .expect("the test's own files");
    let path = format!("{}:/usr/bin:/bin", tools.display());
    fs::write(here.path("log.fail"), "").expect("the test's own files");
    let failed = fetch(&path);
    assert!(complaint(&failed).contains("no such image") && complaint(&failed).contains("exit status 1"));
    fs::remove_file(here.path("log.fail")).expect("there");
    for _ in 0..2 {
        // What is fetched has no such user: nothing needs to boot.
        let output = fetch(&path);
        assert_code(&output, 125);
        assert!(complaint(&output).contains("has no user"), "{}", complaint(&output));
        assert_eq!(text(&output), "", "what it says is no output of the program");
    }
    let called = fs::read_to_string(&log).expect("it was called");
    let lines: Vec<&str> = called.lines().collect();
    assert_eq!(lines.len(), 2, "once in vain, once: {called}");
    assert!(
        lines[1].starts_with("--command-timeout 2h copy docker://docker.io/library/x:1 oci:"),
        "{called}"
    );
}

/// A registry on a port of this host for as long as it lives, with settings for skopeo that know it.
struct Registry {
    server: Child,
    place: String,
    home: PathBuf,
}

impl Registry {
    fn start(here: &Here) -> Option<Self> {
        let server = bulkhead::cli::cache_folder().join("registry/usr/bin/docker-registry");
        let (place, home) = (format!("localhost:{}", free_port()), here.path("home"));
        let settings = home.join(".config/containers");
        fs::create_dir_all(&settings).expect("the test's own files");
        let write = |path: PathBuf, text: String| fs::write(path, text).expect("the test's own files");
        write(settings.join("policy.json"), r#"{"default":[{"type":"insecureAcceptAnything"}]}"#.to_owned());
        let known = format!("[[registry]]\nlocation = \"{place}\"\ninsecure = true\n");
        write(settings.join("registries.conf"), known);
        let said = format!(
            "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: {place}}}\n",
            here.path("stored").display()
        );
        write(here.path("registry.yml"), said);
        let mut command = Command::new(server);
        command.arg("serve").arg(here.path("registry.yml"));
        let server = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(&place).is_err() {
            assert!(Instant::now() < until, "nobody listens at {place}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Self { server, place, home })
    }

    fn skopeo(&self, words: &[&str]) -> Option<Output> {
        Command::new("skopeo").args(words).env("HOME", &self.home).stdin(Stdio::null()).output().ok()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// With skopeo itself and a registry: by a name with a tag, and by one with a digest.
#[test]
fn an_image_of_a_registry_runs() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let Some(registry) = Registry::start(&here) else {
        return skip(Need::Registry, "no docker-registry in the cache folder");
    };
    let (layout, cache) = (here.path("layout"), here.path("bulkhead"));
    let script = "id -u; pwd; echo $A";
    let config =
        json!({ "User": "12", "WorkingDir": "/w", "Env": ["A=b"], "Cmd": ["/bin/sh", "-c", script] });
    let layer = system_layer(&["sh", "id"]).archive();
    let sum = images::Digest::of(&layer);
    index(&layout, &[named(image_of(&layout, &config, &[layer], &[sum]), "x")]);
    let name = format!("{}/team/box", registry.place);
    let [from, to] = [format!("oci:{}:x", plain(&layout)), format!("docker://{name}:1")];
    let Some(pushed) = registry.skopeo(&["copy", &from, &to]) else {
        return skip(Need::Registry, "skopeo is not installed");
    };
    assert!(pushed.status.success(), "{}", complaint(&pushed));
    let digest = registry.skopeo(&["inspect", "--format", "{{.Digest}}", &to]).expect("it is installed");
    let words = [format!("oci:{name}:1"), format!("oci:{name}@{}", text(&digest).trim())];
    fs::create_dir(&cache).expect("the test's own files");
    let kernel = fetched_kernel();
    for (image, times) in words.iter().zip([2, 1]) {
        for time in 0..times {
            let mut command = here.command(&["--image", image]);
            command.args(kernel.iter().flat_map(|path| ["--kernel", plain(path)]));
            command.env("HOME", &registry.home).env("BULKHEAD_CACHE", &cache);
            let output = finish(command.spawn().expect("it starts"));
            assert_code(&output, 0);
            assert_eq!(text(&output), "12\n/w\nb\n", "{}", complaint(&output));
            assert_eq!(complaint(&output).contains("with skopeo, once"), time == 0, "{}", complaint(&output));
        }
    }
    let unknown = here.command(&["--image", &format!("oci:{name}:2")]).env("HOME", &registry.home).output();
    let unknown = unknown.expect("it runs");
    assert_code(&unknown, 125);
    assert!(complaint(&unknown).contains("manifest unknown"), "{}", complaint(&unknown));
}

/// What `docker save` writes is an OCI layout since Docker 25.
#[test]
fn what_docker_saves_is_an_image() {
    if !guests_start() {
        return;
    }
    let docker = |words: &[&str]| Command::new("docker").args(words).stdin(Stdio::null()).output();
    if !docker(&["info"]).is_ok_and(|output| output.status.success()) {
        return skip(Need::Docker, "no Docker daemon answers");
    }
    let here = Here::new();
    let name = format!("bulkhead-test-{}:7", std::process::id());
    let archive = here.path("rootfs.tar");
    fs::write(&archive, system_layer(&["sh", "id"]).archive()).expect("the test's own files");
    let change = [
        "--change",
        "CMD [\"/bin/sh\", \"-c\", \"id -u; echo $A\"]",
        "--change",
        "ENV A=docker",
        "--change",
        "USER 12:13",
    ];
    let imported =
        docker(&[&["import"], &change[..], &[plain(&archive), &name]].concat()).expect("docker runs");
    assert!(imported.status.success(), "{imported:?}");
    let saved = here.path("saved.tar");
    let output = docker(&["save", "-o", plain(&saved), &name]).expect("docker runs");
    let _ = docker(&["rmi", &name]);
    assert!(output.status.success(), "{output:?}");
    let folder = here.path("saved");
    fs::create_dir(&folder).expect("the test's own files");
    let unpacked = Command::new("tar").args(["-C", plain(&folder), "-xf", plain(&saved)]).status();
    assert!(unpacked.expect("tar runs").success());
    let output = run(&here, &["--image", plain(&folder)]);
    assert_code(&output, 0);
    assert_eq!(text(&output), "12\ndocker\n");
}

/// Regression: one that was named before what lies above it was hidden by that, which took what was written to it.
#[test]
fn what_lies_within_another_is_there_whichever_is_named_first() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let data = here.path("data");
    for (first, second) in [("in:/a/b", "above:/a"), ("above:/a", "in:/a/b")] {
        let volumes = ["--volume", first, "--volume", second];
        let mut command =
            here.command(&[&volumes[..], &["--", "sh", "-c", "echo x >>/a/b/f; echo y >/a/g"]].concat());
        let output = finish(command.env("XDG_DATA_HOME", &data).spawn().expect("it starts"));
        assert_code(&output, 0);
    }
    let read =
        |name: &str| std::fs::read_to_string(data.join("bulkhead/volumes").join(name)).unwrap_or_default();
    assert_eq!(
        (read("in/files/f"), read("above/files/g"), read("above/files/b/f")),
        ("x\nx\n".into(), "y\n".into(), String::new())
    );
    for bad in ["db:/data:ro", "db:/proc", "db:/dev/shm"] {
        assert_code(&here.run(&["--volume", bad, "--", "true"]), 125);
    }
    here.assert_nothing_left();
}

#[test]
fn a_volume_lasts_and_partitions_share_it() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let data = here.path("data");
    let exec = |words: &[&str]| {
        let mut command = here.command(&[&["--volume", "db:/var/lib/db"], words].concat());
        command.env("XDG_DATA_HOME", &data);
        command
    };
    let volume = |words: &[&str]| {
        let mut command = Command::new(exec_fixture::binary());
        command
            .arg("volume")
            .args(words)
            .env("XDG_DATA_HOME", &data)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish(command.spawn().expect("it starts"))
    };
    assert_eq!(text(&volume(&["ls"])), "there are no volumes\n");
    let script = "cd /var/lib/db && id -u > who && stat -c '%a %u' . && exec 9> lock && flock -n 9 && echo there && read line; cat from";
    let mut first = exec(&["--user", "12:13", "--", "sh", "-c", script]);
    let mut first = first.stdin(Stdio::piped()).spawn().expect("it starts");
    wait_for(&mut first, "755 12\nthere");
    let said = text(&volume(&["ls", "--json"]));
    assert!(said.contains("\"db\"") && said.contains("\"in_use\": true"), "{said}");
    let refused = volume(&["rm", "db"]);
    assert_code(&refused, 2);
    assert!(complaint(&refused).contains("in use"), "{}", complaint(&refused));
    // The other one has the same files, and the same locks.
    let script = "cd /var/lib/db && cat who; flock -n lock true || echo locked; echo hello > from; ls -n who | cut -d' ' -f3";
    let second = finish(exec(&["--user", "0", "--", "sh", "-c", script]).spawn().expect("it starts"));
    assert_code(&second, 0);
    assert_eq!(text(&second), "12\nlocked\n12\n");
    first.stdin.take().expect("a pipe").write_all(b"\n").expect("written");
    wait_for(&mut first, "hello");
    assert_eq!(end_of(&mut first).code(), Some(0));
    let again = finish(exec(&["--", "cat", "/var/lib/db/from"]).spawn().expect("it starts"));
    assert_eq!(text(&again), "hello\n");
    assert_code(&volume(&["rm", "db"]), 0);
    assert!(!data.join("bulkhead/volumes/db").exists());
    assert_code(&volume(&["rm", "db"]), 2);
    for bad in ["db", "../x:/y", "db:/", "db:relative"] {
        let output = here.run(&["--volume", bad, "--", "true"]);
        assert_code(&output, 125);
        assert!(complaint(&output).contains("NAME:/PATH"), "{}", complaint(&output));
    }
    here.assert_nothing_left();
}
