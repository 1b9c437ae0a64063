//! A folder for a saved layer, and `bulkhead exec --save` with it.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::exec_fixture::{Here, assert_code, complaint, text};

pub fn plain(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

/// A folder for a layer, and what runs with it.
pub struct Saved {
    pub here: Here,
    pub state: PathBuf,
}

impl Saved {
    pub fn new() -> Self {
        let here = Here::new();
        let state = here.path("state");
        Self { here, state }
    }

    pub fn run(&self, words: &[&str]) -> Output {
        self.here.run(&[&["--save", plain(&self.state)], words].concat())
    }

    /// A script that ends with 0; what it says.
    #[track_caller]
    pub fn says(&self, front: &[&str], script: &str) -> String {
        let output = self.run(&[front, &["--", "sh", "-c", script]].concat());
        assert_code(&output, 0);
        text(&output)
    }

    pub fn image(&self) -> PathBuf {
        self.state.join("layer/layer.img")
    }

    /// Refused before anything is made, or by the guest, with these words.
    #[track_caller]
    pub fn refuses(&self, words: &[&str], part: &str) -> String {
        let output = self.run(words);
        assert_code(&output, 125);
        let said = complaint(&output);
        assert!(said.contains(part), "{part}: {said}");
        self.here.assert_nothing_left();
        said
    }
}
