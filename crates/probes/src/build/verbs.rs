//! What the children of the compile job do: `compile SOURCE OBJECT` and `link FOLDER FILES IMAGE`.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::{fs, io};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use super::compile::compile;
use super::folder::object_in;
use super::link::link;
use crate::error::WorkError;

/// Most files of a job.
const FILES_MOST: u32 = 10_000;

/// Compiles one file.
///
/// # Errors
/// What is wrong with the arguments, the source or the system.
pub fn compile_file(arguments: &[OsString]) -> Result<(), WorkError> {
    let [source, object] = arguments else { return Err(wanted("compile SOURCE OBJECT")) };
    end_with_the_parent();
    let text = fs::read_to_string(source).map_err(|error| refused("read", source, error))?;
    fs::write(object, compile(&text)?).map_err(|error| refused("write", object, error))
}

/// Links the objects of a folder.
///
/// # Errors
/// What is wrong with the arguments, the objects or the system.
pub fn link_files(arguments: &[OsString]) -> Result<(), WorkError> {
    let usage = || wanted("link FOLDER FILES IMAGE");
    let [folder, files, image] = arguments else { return Err(usage()) };
    let files: u32 = files.to_str().and_then(|files| files.parse().ok()).ok_or_else(usage)?;
    end_with_the_parent();
    let read = |number: u32| {
        let path = object_in(Path::new(folder), number);
        fs::read(&path).map_err(|error| refused("read", path.as_os_str(), error))
    };
    let objects = (0..files.min(FILES_MOST)).map(read).collect::<Result<Vec<_>, WorkError>>()?;
    fs::write(image, link(&objects)?).map_err(|error| refused("write", image, error))
}

fn wanted(words: &str) -> WorkError {
    WorkError::Unfit(format!("wanted: {words}"))
}

fn refused(what: &str, path: &OsStr, error: io::Error) -> WorkError {
    WorkError::system(format!("{what} {}", Path::new(path).display()), error)
}

/// A compiler whose job was killed works for nobody.
fn end_with_the_parent() {
    // A refusal is harmless: what is compiled ends by itself soon.
    let _ = set_pdeathsig(Signal::SIGKILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_arguments_and_sources_are_refused_in_words() {
        assert!(compile_file(&[]).unwrap_err().to_string().contains("compile SOURCE OBJECT"));
        assert!(
            link_files(&["a".into(), "many".into(), "b".into()])
                .unwrap_err()
                .to_string()
                .contains("link FOLDER")
        );
        assert!(
            compile_file(&["/nonexistent/0.src".into(), "/tmp/0.o".into()])
                .unwrap_err()
                .to_string()
                .contains("0.src")
        );
    }
}
