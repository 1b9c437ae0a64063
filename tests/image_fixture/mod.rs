//! Images of containers for tests with real guests: layouts, with programs of this host in them.

#![allow(unused_imports, reason = "each test binary uses its own part")]

#[path = "../../crates/images/tests/fixture/mod.rs"]
mod fixture;

use std::fs;
use std::path::Path;
use std::process::Command;

pub use fixture::{Layer, Who, image, image_of, index, named};
use serde_json::{Value, json};

/// Programs of this host with the libraries that they need, each under its own path; the programs in /bin.
pub fn system_layer(programs: &[&str]) -> Layer {
    let mut layer = Layer::default();
    let mut seen = Vec::new();
    for name in programs {
        let path = ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(name));
        let path = path.iter().find(|path| path.is_file()).expect("a program of every host");
        layer = layer.file(&format!("bin/{name}"), 0o755, fs::read(path).expect("readable"));
        let needed = Command::new("ldd").arg(path).output().expect("ldd runs");
        for library in
            String::from_utf8_lossy(&needed.stdout).split_whitespace().filter(|word| word.starts_with('/'))
        {
            if !seen.contains(&library.to_owned()) {
                seen.push(library.to_owned());
                let content = fs::read(library).expect("readable");
                layer = layer.file(library.trim_start_matches('/'), 0o755, content);
            }
        }
    }
    layer
}

/// A small image that names a program; the descriptor of its manifest.
pub fn shell_image(layout: &Path) -> Value {
    let layer = Layer::default().file("bin/sh", 0o755, "no program at all").folder("etc");
    image(layout, &json!({ "Cmd": ["/bin/sh"] }), &[layer.archive()])
}

/// Removes what is unpacked of the layouts in a folder from the cache: a cache of every day is not for images of tests.
pub fn forget(cache: &Path, folder: &Path) {
    let blobs = |layout: std::path::PathBuf| {
        fs::read_dir(layout.join("blobs/sha256")).into_iter().flatten().flatten()
    };
    for layout in fs::read_dir(folder).expect("the test's own files").flatten().map(|entry| entry.path()) {
        for blob in blobs(layout) {
            let tree = cache.join("images/trees").join(blob.file_name());
            let _ = fs::remove_file(tree.with_extension("lock"));
            let _ = fs::remove_dir_all(tree);
        }
    }
}
