//! What the children of the compile job do: `compile SOURCE OBJECT` and `link FOLDER FILES IMAGE`.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use super::compile::compile;
use super::folder::object_in;
use super::link::link;

/// Most files of a job.
const FILES_MOST: u32 = 10_000;

/// Compiles one file.
///
/// # Errors
/// What is wrong with the arguments, the source or the system, in words.
pub fn compile_file(arguments: &[OsString]) -> Result<(), String> {
    let [source, object] = arguments else { return Err("wanted: compile SOURCE OBJECT".to_owned()) };
    end_with_the_parent();
    let failed = |path: &OsString, error: std::io::Error| format!("{}: {error}", Path::new(path).display());
    let text = fs::read_to_string(source).map_err(|error| failed(source, error))?;
    let bytes = compile(&text)?;
    fs::write(object, bytes).map_err(|error| failed(object, error))
}

/// Links the objects of a folder.
///
/// # Errors
/// What is wrong with the arguments, the objects or the system, in words.
pub fn link_files(arguments: &[OsString]) -> Result<(), String> {
    let wanted = || "wanted: link FOLDER FILES IMAGE".to_owned();
    let [folder, files, image] = arguments else { return Err(wanted()) };
    let files: u32 = files.to_str().and_then(|files| files.parse().ok()).ok_or_else(wanted)?;
    end_with_the_parent();
    let read = |number: u32| {
        let path = object_in(Path::new(folder), number);
        fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let objects = (0..files.min(FILES_MOST)).map(read).collect::<Result<Vec<_>, String>>()?;
    let linked = link(&objects)?;
    fs::write(image, linked).map_err(|error| format!("{}: {error}", Path::new(image).display()))
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
        assert!(compile_file(&[]).unwrap_err().contains("compile SOURCE OBJECT"));
        assert!(link_files(&["a".into(), "many".into(), "b".into()]).unwrap_err().contains("link FOLDER"));
        assert!(
            compile_file(&["/nonexistent/0.src".into(), "/tmp/0.o".into()]).unwrap_err().contains("0.src")
        );
    }
}
