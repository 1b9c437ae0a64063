//! Which BLAS a process has mapped, from its `/proc/PID/maps`. Debian's `libblas.so.3` is whatever the administrator's
//! alternatives say: only the mapped file tells.

/// A BLAS in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blas {
    /// Its name, with the file that says so.
    pub name: String,
    /// Whether it is netlib's reference, which nobody who wants speed uses: being quicker than it says nothing.
    pub is_reference: bool,
}

/// Optimised ones, as their files are called.
const KNOWN: [(&str, &str); 4] =
    [("openblas", "OpenBLAS"), ("mkl_", "MKL"), ("blis", "BLIS"), ("atlas", "ATLAS")];

/// The BLAS among the mapped files; none where there is none, as in a program that has it built in.
pub fn parse(maps: &str) -> Option<Blas> {
    let files = || maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let found = KNOWN.into_iter().find_map(|(part, name)| {
        // The library's own file says its version; the one called libblas only points to it.
        let own = files().find(|file| base(file).contains(part));
        own.or_else(|| files().find(|file| file.contains(part))).map(|file| (name, file, false))
    });
    let reference = || {
        let file = files().find(|file| base(file).starts_with("libblas.so"))?;
        Some(("netlib's reference BLAS", file, true))
    };
    let (name, file, is_reference) = found.or_else(reference)?;
    Some(Blas { name: format!("{name} ({file})"), is_reference })
}

fn base(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}
