//! Measures: see the folder.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::child::{self, Spent};
use super::folder::Folder;
use super::source::Sources;
use crate::clock::monotonic_facts;
use crate::context::Context;
use crate::detail::{BuildDetail, Detail};
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::params::BuildParams;
use crate::pin::granted_cpus;
use crate::workers;
use units::facts::OwnCost;
use units::{Bytes, Nanos};

/// Room a function takes on the disk as source, object and image, generously.
const ROOM_PER_FUNCTION: u64 = 4 * 1024;
/// The same for a file.
const ROOM_PER_FILE: u64 = 16 * 1024;

/// Measures one whole job.
///
/// # Errors
/// There is no room for it, a compiler failed, or the job was to end.
pub fn measure(params: &BuildParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let jobs = params.jobs.unwrap_or_else(granted_cpus).clamp(1, params.files.max(1));
    let folder = Folder::make(context.surroundings.scratch.as_deref(), room(params))?;
    let source_bytes = write_sources(params, context, &folder)?;
    let work = Work {
        folder: &folder,
        exe: &context.surroundings.exe,
        next: AtomicU32::new(0),
        files: params.files,
        context,
    };
    let begin = Instant::now();
    let outcome = workers::run(jobs, context.bounds, |_, muster| {
        muster.wait()?;
        work.compile_files(begin)
    })?;
    let (link_ns, linking) = work.link()?;
    let wall_ns = Nanos::from_duration(begin.elapsed());
    let mut compiled: Vec<Compiled> = outcome.results.into_iter().flatten().collect();
    compiled.sort_by_key(|compiled| compiled.end);
    let spent = || compiled.iter().map(|compiled| compiled.spent).chain([linking]);
    let image =
        fs::read(folder.image()).map_err(|error| WorkError::system("read the linked image", error))?;
    let detail = BuildDetail {
        files: params.files,
        functions: params.functions,
        source_bytes,
        object_bytes: object_bytes(&folder, params.files)?,
        image_bytes: Bytes::from_bytes(image.len() as u64),
        image_crc32: crc32fast::hash(&image),
        jobs,
        wall_ns,
        link_ns,
        user_ns: spent().fold(Nanos::ZERO, |sum, spent| sum.saturating_add(spent.user)),
        system_ns: spent().fold(Nanos::ZERO, |sum, spent| sum.saturating_add(spent.system)),
        file_ns: compiled.iter().map(|compiled| compiled.took).collect(),
    };
    let clock = monotonic_facts();
    let largest = spent().map(|spent| spent.memory.get()).max().unwrap_or(0);
    let cost = OwnCost {
        per_sample_ns: clock.read_ns,
        cpu_time_ns: outcome.cpu_time.saturating_add(detail.user_ns).saturating_add(detail.system_ns),
        memory_bytes: Bytes::from_bytes(largest.saturating_mul(jobs.into())),
    };
    let notes = vec![folder.note().to_owned()];
    Ok(ProbeReport::new(clock, cost, Detail::Build(detail), notes))
}

/// What all files of a job take, generously.
pub fn room(params: &BuildParams) -> Bytes {
    let per_file = ROOM_PER_FILE + u64::from(params.functions) * ROOM_PER_FUNCTION;
    Bytes::from_bytes(per_file.saturating_mul(params.files.into()))
}

fn write_sources(params: &BuildParams, context: &Context<'_>, folder: &Folder) -> Result<Bytes, WorkError> {
    let sources = Sources { files: params.files, functions: params.functions, seed: context.seed };
    let mut bytes = 0;
    for number in 0..params.files {
        context.bounds.check()?;
        let text = sources.file(number);
        folder.write_source(number, &text)?;
        bytes += text.len() as u64;
    }
    Ok(Bytes::from_bytes(bytes))
}

fn object_bytes(folder: &Folder, files: u32) -> Result<Bytes, WorkError> {
    let size = |number: u32| {
        let path = folder.object(number);
        let size = fs::metadata(&path).map(|metadata| metadata.len());
        size.map_err(|error| WorkError::system(format!("look at {}", path.display()), error))
    };
    Ok(Bytes::from_bytes((0..files).map(size).sum::<Result<u64, WorkError>>()?))
}

/// What became of a file.
struct Compiled {
    /// When it was done, counted from the begin of the job.
    end: Nanos,
    took: Nanos,
    spent: Spent,
}

struct Work<'a> {
    folder: &'a Folder,
    exe: &'a Path,
    /// The next file that nobody compiles yet.
    next: AtomicU32,
    files: u32,
    context: &'a Context<'a>,
}

impl Work<'_> {
    /// Compiles files as long as there are any.
    fn compile_files(&self, job_begin: Instant) -> Result<Vec<Compiled>, WorkError> {
        let mut all = Vec::new();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.files {
                return Ok(all);
            }
            let (source, object) = (self.folder.source(number), self.folder.object(number));
            let begin = Instant::now();
            let spent = self.child(&["compile".as_ref(), source.as_os_str(), object.as_os_str()])?;
            all.push(Compiled {
                end: Nanos::from_duration(job_begin.elapsed()),
                took: Nanos::from_duration(begin.elapsed()),
                spent,
            });
        }
    }

    fn link(&self) -> Result<(Nanos, Spent), WorkError> {
        let (files, image) = (self.files.to_string(), self.folder.image());
        let begin = Instant::now();
        let spent = self.child(&[
            "link".as_ref(),
            self.folder.path().as_os_str(),
            files.as_ref(),
            image.as_os_str(),
        ])?;
        Ok((Nanos::from_duration(begin.elapsed()), spent))
    }

    fn child(&self, arguments: &[&OsStr]) -> Result<Spent, WorkError> {
        child::run(self.exe, arguments, self.context.bounds)
    }
}

#[cfg(test)]
mod tests {
    use super::super::compile::compile;
    use super::super::link::link;
    use super::super::object::Object;
    use super::super::source::Sources;

    #[test]
    fn every_source_compiles_and_links_to_the_same_image() {
        for seed in 0..8 {
            let sources = Sources { files: 3, functions: 6, seed };
            let objects =
                || -> Vec<Vec<u8>> { (0..3).map(|number| compile(&sources.file(number)).unwrap()).collect() };
            let image = link(&objects()).unwrap();
            assert_eq!(image, link(&objects()).unwrap(), "seed {seed}");
            assert!(image.len() > 3000, "seed {seed}: {} bytes", image.len());
        }
    }

    #[test]
    fn a_call_reaches_its_own_file_then_any_other_then_a_name() {
        let first = "fn one() { two() }\nfn three() { one(); four() }\n";
        let second = "fn two() { three() }\nfn three() { 3 }\n";
        let objects = [compile(first).unwrap(), compile(second).unwrap()];
        let names = |bytes: &[u8]| Object::of_bytes(bytes).unwrap().defined;
        let full = |object: usize, name: &str| format!("{name}.{:08x}", names(&objects[object])[name]);
        let image = Object::of_bytes(&link(&objects).unwrap()).unwrap();
        assert_eq!(image.defined.len(), 4);
        let mut wanted = vec!["four".to_owned(), full(0, "one"), full(1, "three"), full(1, "two")];
        wanted.sort_unstable();
        assert_eq!(image.called, wanted);
        // What two objects have alike is kept once.
        let twice = link(&[objects[0].clone(), objects[0].clone()]).unwrap();
        assert_eq!(Object::of_bytes(&twice).unwrap().defined.len(), 2);
    }

    #[test]
    fn what_is_no_program_or_no_object_is_refused() {
        assert!(compile("fn f( {").unwrap_err().to_string().contains("not well-formed"));
        let broken = link(&[compile("fn f() {}").unwrap(), vec![1; 100]]).unwrap_err().to_string();
        assert!(broken.starts_with("object 1: ") && broken.contains("broken"), "{broken}");
    }
}
