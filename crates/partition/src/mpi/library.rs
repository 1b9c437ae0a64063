//! Looks at the library for channels before anything boots: one that cannot be loaded ends an MPI program in a guest with
//! a crash that says little.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol};

use super::found::LIBRARY;
use crate::run::Failed;
use units::Reason;

/// What libfabric calls first (`fi_provider(7)`).
const ENTRY: &str = "fi_prov_ini";
/// Far more than it has.
const MOST_BYTES: u64 = 256 << 20;

/// Checks that the library in this folder can be one: all of it is there, and it has what libfabric calls first.
///
/// # Errors
/// What is wrong with it.
pub fn check(folder: &Path) -> Result<(), Failed> {
    let path = folder.join(LIBRARY);
    let mut content = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut content));
    let checked = read.map_err(|error| Reason::from(error.to_string())).and_then(|_| check_content(&content));
    checked.map_err(|why| {
        let shown = path.display();
        Failed::own(format!("the library for channels, {shown}: {why}; `make fabric` builds it"))
    })
}

fn check_content(content: &[u8]) -> Result<(), Reason> {
    let library = ElfFile64::<Endianness>::parse(content)
        .map_err(|error| format!("this is no library, or not all of it ({error})"))?;
    let endian = library.endian();
    let ends = library
        .elf_program_headers()
        .iter()
        .map(|part| part.p_offset(endian).checked_add(part.p_filesz(endian)));
    if ends.into_iter().any(|end| end.is_none_or(|end| end > content.len() as u64)) {
        return Err("its end is missing".into());
    }
    let mut symbols = library.dynamic_symbols();
    if symbols.any(|symbol| symbol.is_definition() && symbol.name() == Ok(ENTRY)) {
        Ok(())
    } else {
        Err(format!("it has no function {ENTRY}, so it is none for libfabric").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_one_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let said = |content: &[u8]| {
            std::fs::write(folder.path().join(LIBRARY), content).unwrap();
            check(folder.path()).unwrap_err().reason
        };
        let program = std::fs::read("/proc/self/exe").unwrap();
        assert!(said(b"").contains("no library"), "{}", said(b""));
        assert!(said(&program).contains("no function fi_prov_ini"), "{}", said(&program));
        for part in [100, 1000, program.len() / 2] {
            let cut = said(&program[..part]);
            assert!(cut.contains("not all of it") || cut.contains("missing"), "{cut}");
        }
        std::fs::remove_file(folder.path().join(LIBRARY)).unwrap();
        assert!(check(folder.path()).unwrap_err().reason.contains("No such file"));
    }
}
