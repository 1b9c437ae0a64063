//! House rules as tests: ARCHITECTURE.md's table of rooms is what their manifests say, every file says what it is for, files and
//! functions stay small.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const MAX_FILE_LINES: usize = 500;
const MAX_FUNCTION_LINES: usize = 70;
/// Files of a probe that touch nothing.
const PURE: [&str; 6] = ["params.rs", "detail.rs", "check.rs", "cost.rs", "metrics.rs", "pretend.rs"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for path in entries.map(|entry| entry.expect("readable entry").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn all_sources() -> Vec<PathBuf> {
    let all =
        ["src", "tests", "benches", "crates"].iter().flat_map(|folder| rust_files(&root().join(folder)));
    all.filter(|file| !file.components().any(|part| part.as_os_str() == "target")).collect()
}

/// Room → rooms it may import, read from the table in ARCHITECTURE.md.
fn allowed_imports() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    text.lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, room, _question, world, imports, state, _] = cells.as_slice() else { return None };
            let is_row = matches!(*world, "yes" | "no") && *state == "here";
            let imports =
                imports.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
            is_row.then(|| (room.trim_matches('`').to_owned(), imports.collect()))
        })
        .collect()
}

/// Rooms that a crate depends on, by its manifest, those of its tests left out.
fn dependencies(manifest: &Path, rooms: &BTreeSet<String>) -> BTreeSet<String> {
    let text = fs::read_to_string(manifest).unwrap_or_else(|error| panic!("{}: {error}", manifest.display()));
    let table: toml::Table = text.parse().unwrap_or_else(|error| panic!("{}: {error}", manifest.display()));
    let named = table.get("dependencies").and_then(toml::Value::as_table);
    named.into_iter().flat_map(toml::Table::keys).filter(|name| rooms.contains(*name)).cloned().collect()
}

/// Cargo is the wall; the page is where it is read. `cli` is the package at the root.
#[test]
fn the_table_says_what_the_manifests_say() {
    let table = allowed_imports();
    let rooms: BTreeSet<String> = table.keys().cloned().collect();
    for (room, allowed) in table {
        let folder = if room == "cli" { root() } else { root().join("crates").join(&room) };
        let found = dependencies(&folder.join("Cargo.toml"), &rooms);
        assert_eq!(found, allowed, "{room}: Cargo.toml against ARCHITECTURE.md's table");
    }
    let crates = fs::read_dir(root().join("crates")).expect("crates is there");
    let crates: BTreeSet<String> = crates
        .map(|entry| entry.expect("readable entry").file_name().to_string_lossy().into_owned())
        .collect();
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let untold: Vec<&String> = crates
        .iter()
        .filter(|name| !rooms.contains(*name) && !text.contains(&format!("`crates/{name}`")))
        .collect();
    assert!(untold.is_empty(), "crates that ARCHITECTURE.md does not tell of: {untold:?}");
}

#[test]
fn pure_rooms_touch_no_clock_file_or_environment() {
    let banned = [
        "std::fs",
        "std::env",
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "ToSocketAddrs",
        "std::process",
        "Instant::now",
        "SystemTime::now",
        "std::thread",
    ];
    let mut broken = Vec::new();
    for room in ["units", "model", "stats", "analysis", "audit", "bounds", "sim", "report", "probes"] {
        for file in rust_files(&root().join("crates").join(room).join("src")) {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if room == "probes" && !PURE.contains(&name) {
                continue;
            }
            let text = fs::read_to_string(&file).expect("readable source");
            // A file of tests is no part of the program.
            let is_tests = file.file_name().is_some_and(|name| name == "tests.rs");
            let code = text.split("#[cfg(test)]").next().filter(|_| !is_tests).unwrap_or_default();
            broken.extend(
                banned
                    .iter()
                    .filter(|word| code.contains(**word))
                    .map(|word| format!("{}: {word}", file.display())),
            );
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

/// Programs of tests at the root, by its manifest: each names its files.
fn programs_of_tests() -> Vec<String> {
    let text = fs::read_to_string(root().join("Cargo.toml")).expect("it is there");
    let table: toml::Table = text.parse().expect("a manifest");
    let tests = table.get("test").and_then(toml::Value::as_array).expect("tests are listed").iter();
    tests.filter_map(|test| Some(test.get("name")?.as_str()?.to_owned())).collect()
}

/// What no program names is never run; what is run by the end of its name is run with others.
#[test]
fn every_file_of_tests_is_run_by_one_program_and_alone() {
    let text = |name: &str| {
        fs::read_to_string(root().join("tests").join(format!("{name}.rs"))).expect("it is there")
    };
    let named = |text: &str| -> Vec<String> {
        let modules = text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        modules
            .map(str::to_owned)
            .filter(|name| root().join("tests").join(format!("{name}.rs")).exists())
            .collect()
    };
    let roots = programs_of_tests();
    let programs: Vec<Vec<String>> = roots.iter().map(|program| named(&text(program))).collect();
    let mut files: Vec<String> = programs.iter().flatten().chain(&roots).cloned().collect();
    files.sort();
    let there = fs::read_dir(root().join("tests")).expect("it is there");
    let there = there.map(|entry| entry.expect("readable entry").file_name().to_string_lossy().into_owned());
    let mut there: Vec<String> =
        there.filter_map(|name| name.strip_suffix(".rs").map(str::to_owned)).collect();
    there.sort();
    assert_eq!(files, there);
    for program in &programs {
        for name in program {
            let with = program.iter().filter(|other| other.ends_with(name.as_str())).count();
            assert_eq!(with, 1, "`{name}::` chooses tests of other files, too");
        }
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent: Vec<String> = all_sources()
        .iter()
        .filter(|file| !fs::read_to_string(file).expect("readable source").starts_with("//! "))
        .map(|file| file.display().to_string())
        .collect();
    assert!(silent.is_empty(), "no //! at the top of:\n{}", silent.join("\n"));
}

#[test]
fn files_stay_small() {
    let long: Vec<String> = all_sources()
        .iter()
        .map(|file| (file, fs::read_to_string(file).expect("readable source").lines().count()))
        .filter(|(_, lines)| *lines > MAX_FILE_LINES)
        .map(|(file, lines)| format!("{}: {lines} lines, at most {MAX_FILE_LINES}", file.display()))
        .collect();
    assert!(long.is_empty(), "split by subject:\n{}", long.join("\n"));
}

#[test]
fn functions_stay_small() {
    let mut long = Vec::new();
    for file in all_sources() {
        let text = fs::read_to_string(&file).expect("readable source");
        let mut open: Option<(usize, String, usize)> = None;
        for (number, line) in text.lines().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let is_fn = line.split_whitespace().take(5).any(|word| word == "fn");
            if open.is_none()
                && is_fn
                && !line.trim_start().starts_with("//")
                && !line.trim_end().ends_with('}')
            {
                open = Some((number, line.trim().to_owned(), indent));
            } else if let Some((start, name, at)) = &open
                && indent == *at
                && line.trim() == "}"
            {
                if number - start > MAX_FUNCTION_LINES {
                    long.push(format!("{}:{}: {} lines: {name}", file.display(), start + 1, number - start));
                }
                open = None;
            }
        }
    }
    assert!(long.is_empty(), "at most {MAX_FUNCTION_LINES} lines:\n{}", long.join("\n"));
}

#[test]
fn unsafe_code_stays_in_few_modules() {
    let users: BTreeSet<String> = ["src", "crates"]
        .iter()
        .flat_map(|folder| rust_files(&root().join(folder)))
        .filter(|file| fs::read_to_string(file).expect("readable source").contains("unsafe_code"))
        .map(|file| file.strip_prefix(root()).expect("below it").display().to_string())
        .collect();
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let unlisted: Vec<&String> = users.iter().filter(|user| !text.contains(&format!("`{user}`"))).collect();
    assert!(unlisted.is_empty(), "not in ARCHITECTURE.md's list of modules with unsafe code: {unlisted:?}");
}

/// Every `file::test` that a line of docs/security.md promises something by.
#[test]
fn promises_have_tests_that_exist() {
    let text = fs::read_to_string(root().join("docs/security.md")).expect("docs/security.md is there");
    let words =
        text.lines().filter(|line| line.starts_with('|')).flat_map(|line| line.split('`').skip(1).step_by(2));
    // Names of tests say what they show: several words.
    let is_test = |word: &&str| {
        let plain =
            word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | ':'));
        plain && word.matches('_').count() >= 3
    };
    let named: BTreeSet<&str> = words.filter(is_test).collect();
    assert!(named.len() >= 10, "{named:?}");
    let sources: Vec<(PathBuf, String)> = all_sources()
        .into_iter()
        .map(|path| (path.clone(), fs::read_to_string(&path).expect("readable")))
        .collect();
    for name in named {
        let (place, case) = name.rsplit_once("::").unwrap_or(("", name));
        let file = place.split("::").find(|part| !part.is_empty() && *part != "tests");
        let is_there = |(path, text): &(PathBuf, String)| {
            let mut parts = path.components().filter_map(|part| Path::new(part.as_os_str()).file_stem());
            file.is_none_or(|file| parts.any(|part| part == file)) && text.contains(&format!("fn {case}("))
        };
        assert!(sources.iter().any(is_there), "{name}: no such test");
    }
}

/// Where a row says where to begin: each file and folder in it, whole, or beside or above the one before it.
#[test]
fn files_that_the_architecture_names_are_there() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let mut count = 0;
    for row in text.lines().filter(|line| line.starts_with("| ")) {
        let mut last = root();
        let words = row.split('`').skip(1).step_by(2);
        for word in words
            .filter(|word| word.ends_with('/') || Path::new(word).extension().is_some_and(|end| end == "rs"))
        {
            let found = std::iter::once(root()).chain(last.ancestors().map(Path::to_owned));
            let found = found.map(|folder| folder.join(word)).find(|path| path.exists());
            last = found.unwrap_or_else(|| panic!("{word} is not there: {row}"));
            count += 1;
        }
    }
    assert!(count >= 80, "{count}");
}

/// Lines by which a test is left out in another way than by [`skips::skip`], which counts them.
fn unseen_skips(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let says = |line: &str| {
        let line = line.to_lowercase();
        let prints =
            ["println!(", "eprint!(", "print!(", "writeln!("].iter().any(|print| line.contains(print));
        prints && ["skip", "left out", "not checked", "nothing to do"].iter().any(|word| line.contains(word))
    };
    // The last resort of those who want their tests green.
    let returns = |at: usize| {
        let asks =
            ["geteuid()", "is_root()", ".exists()", "env::var"].iter().any(|ask| lines[at].contains(ask));
        let leaves =
            lines.get(at + 1).is_some_and(|next| *next == "return;") || lines[at].ends_with("{ return };");
        asks && leaves && (lines[at].starts_with("if ") || lines[at].contains("else { return }"))
    };
    let is_other = |at: usize| {
        let line = lines[at];
        let is_ignored = line.starts_with("#[ignore") && !line.contains("\"started by the test");
        says(line) || is_ignored || line.contains("BULKHEAD_REQUIRE") || returns(at)
    };
    (0..lines.len()).filter(|at| !lines[*at].starts_with("//") && is_other(*at)).map(|at| at + 1).collect()
}

#[test]
fn tests_are_skipped_in_one_way() {
    let mut found = Vec::new();
    let files = ["tests", "crates", "src"].iter().flat_map(|folder| rust_files(&root().join(folder)));
    let own =
        |file: &Path| file.starts_with(root().join("crates/skips")) || file.ends_with("architecture.rs");
    for file in files.filter(|file| !own(file)) {
        let text = fs::read_to_string(&file).expect("readable source");
        let is_test =
            !file.starts_with(root().join("src")) && !file.components().any(|part| part.as_os_str() == "src");
        let is_test = is_test || file.ends_with("tests.rs");
        let from = if is_test { 0 } else { text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len()) };
        let above = text[..from].lines().count();
        let lines = unseen_skips(&text[from..]);
        found.extend(lines.into_iter().map(|line| format!("{}:{}", file.display(), above + line)));
    }
    assert!(found.is_empty(), "skips::skip is how a test is left out:\n{}", found.join("\n"));
}

#[test]
fn the_check_of_skips_sees_them() {
    let seen = |text: &str| unseen_skips(text).len();
    assert_eq!(seen("eprintln!(\"skipped: no QEMU\");\nprintln!(\"left out: {why}\");"), 2);
    assert_eq!(seen("if !geteuid().is_root() {\n    return;\n}\n#[ignore = \"slow\"]"), 2);
    assert_eq!(seen("let Ok(word) = std::env::var(\"X\") else { return };"), 1);
    assert_eq!(seen("if !is_root() {\n    return skip(Need::Root, \"x\");\n}\nprintln!(\"{seed}\");"), 0);
}

#[test]
fn every_need_is_explained() {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md is there");
    let unexplained: Vec<&str> = skips::Need::ALL
        .iter()
        .map(|need| need.name())
        .filter(|name| !text.contains(&format!("| `{name}` |")))
        .collect();
    assert!(unexplained.is_empty(), "not in CONTRIBUTING.md: {unexplained:?}");
}

#[test]
fn the_changelog_begins_with_unreleased_or_this_version() {
    let text = fs::read_to_string(root().join("CHANGELOG.md")).expect("CHANGELOG.md is there");
    let first = text.lines().find(|line| line.starts_with("## ")).expect("a heading");
    let version = env!("CARGO_PKG_VERSION");
    assert!(first.contains("Unreleased") || first.contains(version), "{first}");
}

/// It is to make one want to try it; the rest stands in docs/, each page readable alone.
#[test]
fn the_readme_is_short() {
    let length = fs::read_to_string(root().join("README.md")).expect("README.md is there").len();
    assert!(length <= 6_000, "README.md has {length} bytes, at most 6000");
}

/// Outside the binary errors are types, so nothing is decided by reading what they say.
#[test]
fn no_error_is_a_bare_text() {
    for file in rust_files(&root().join("crates")) {
        let text = fs::read_to_string(&file).expect("a source file");
        for after in text.split("Result<").skip(1) {
            let mut depth = 0;
            let is_end = |sign: char| {
                depth += i32::from(sign == '<') - i32::from(sign == '>');
                depth < 0
            };
            let types = after.split(is_end).next().unwrap_or_default().trim_end_matches([',', ' ', '\n']);
            assert!(!types.ends_with(", String"), "{}: {types}", file.display());
        }
    }
}

/// A file's place in its crate: its folders and itself, without `mod`, `lib` and `main`.
fn module_of(source: &Path, file: &Path) -> Vec<String> {
    let within = file.strip_prefix(source).expect("below it").with_extension("");
    let parts = within.iter().map(|part| part.to_string_lossy().into_owned());
    parts.filter(|part| !matches!(part.as_str(), "mod" | "lib" | "main")).collect()
}

/// Paths that begin in the crate, as they are written in its code: `crate::a::b`, `super::c`.
fn paths_in(code: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    // A list of names is a path for each; deeper lists lead to the same files.
    let flat = code.replace("::{", " {").replace("self::", "");
    for (start, _) in flat.match_indices("crate::").chain(flat.match_indices("super::")) {
        let is_begun_before = flat[..start].ends_with("::")
            || flat[..start].ends_with(|c: char| c == '_' || c.is_alphanumeric());
        if is_begun_before {
            continue;
        }
        let end = flat[start..]
            .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
            .map_or(flat.len(), |n| start + n);
        let path: Vec<String> =
            flat[start..end].split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let listed =
            flat[end..].strip_prefix(" {").and_then(|rest| rest.split_once('}')).map(|(list, _)| list);
        let names = listed.unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty());
        let with = |name: &str| {
            let further = name.split([' ', ':']).next().unwrap_or_default().to_owned();
            [path.clone(), vec![further]].concat()
        };
        paths.extend(names.map(with));
        paths.push(path);
    }
    paths
}

/// Files that a file's code names, by the longest beginning of each path that is one.
fn named_by(module: &[String], code: &str, all: &BTreeSet<Vec<String>>) -> BTreeSet<Vec<String>> {
    let mut named = BTreeSet::new();
    for path in paths_in(code) {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let from = if path.first().is_some_and(|part| part == "crate") {
            0
        } else {
            module.len().saturating_sub(ups)
        };
        let rest = path.iter().skip(ups.max(1));
        let whole: Vec<String> = module.iter().take(from).chain(rest).cloned().collect();
        let found =
            (0..=whole.len()).rev().map(|length| whole[..length].to_vec()).find(|part| all.contains(part));
        named.extend(found.filter(|found| found != module));
    }
    named
}

/// What reaches itself over others, with them.
fn circles(uses: &BTreeMap<Vec<String>, BTreeSet<Vec<String>>>) -> BTreeSet<BTreeSet<Vec<String>>> {
    let reach = |from: &Vec<String>| {
        let mut seen = BTreeSet::new();
        let mut next: Vec<&Vec<String>> = uses[from].iter().collect();
        while let Some(at) = next.pop() {
            if seen.insert(at.clone()) {
                next.extend(uses.get(at).into_iter().flatten());
            }
        }
        seen
    };
    let reached: BTreeMap<&Vec<String>, BTreeSet<Vec<String>>> =
        uses.keys().map(|from| (from, reach(from))).collect();
    let with = |from: &Vec<String>| -> BTreeSet<Vec<String>> {
        reached[from]
            .iter()
            .filter(|to| reached.get(to).is_some_and(|back| back.contains(from)))
            .cloned()
            .collect()
    };
    uses.keys().map(with).filter(|circle| circle.len() > 1).collect()
}

/// Between crates Cargo forbids them. Within a folder files may know each other, and a folder its own.
#[test]
fn no_circle_leads_through_files_of_several_folders() {
    let rooms = fs::read_dir(root().join("crates")).expect("crates is there");
    let mut sources: Vec<PathBuf> =
        rooms.map(|room| room.expect("readable entry").path().join("src")).collect();
    sources.push(root().join("src"));
    let mut broken = Vec::new();
    for source in sources {
        let files: BTreeMap<Vec<String>, PathBuf> =
            rust_files(&source).into_iter().map(|file| (module_of(&source, &file), file)).collect();
        let all: BTreeSet<Vec<String>> = files.keys().cloned().collect();
        let uses = files.iter().filter(|(_, file)| !file.ends_with("tests.rs")).map(|(module, file)| {
            let text = fs::read_to_string(file).expect("readable source");
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            (module.clone(), named_by(module, &code.join("\n"), &all))
        });
        for circle in circles(&uses.collect()) {
            let folders: BTreeSet<&Path> =
                circle.iter().filter_map(|module| files[module].parent()).collect();
            if folders.len() > 1 {
                broken.push(format!("{}: {:?}", source.display(), circle));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

/// A name means one thing in its crate; between crates the crate's name tells them apart.
#[test]
fn no_public_type_has_the_name_of_another_in_its_crate() {
    let mut broken = Vec::new();
    for room in fs::read_dir(root().join("crates")).expect("crates is there") {
        let source = room.expect("readable entry").path().join("src");
        let mut named: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
        for file in rust_files(&source) {
            let text = fs::read_to_string(&file).expect("readable source");
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            for line in code.lines().map(str::trim_start) {
                let kinds = ["pub struct ", "pub enum ", "pub trait ", "pub type "];
                let Some(rest) = kinds.iter().find_map(|kind| line.strip_prefix(kind)) else { continue };
                let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                // One that a macro names.
                if name.is_empty() {
                    continue;
                }
                named.entry(name.to_owned()).or_default().insert(file.clone());
            }
        }
        broken.extend(named.into_iter().filter(|(_, files)| files.len() > 1));
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
