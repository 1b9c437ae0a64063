//! What the build probe brings home: raw enough that every figure can be computed again.

use serde::{Deserialize, Serialize};
use units::{Bytes, Nanos};

/// Outcome of the compile job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BuildDetail {
    /// Source files that were compiled.
    pub files: u32,
    /// Functions in each of them.
    pub functions: u32,
    /// Bytes of source.
    pub source_bytes: Bytes,
    /// Bytes of all object files.
    pub object_bytes: Bytes,
    /// Bytes of the image they were linked to.
    pub image_bytes: Bytes,
    /// CRC-32 of that image: the same wherever the same seed is compiled.
    pub image_crc32: u32,
    /// Compilers at once.
    pub jobs: u32,
    /// From the first start of a compiler until everything is linked.
    pub wall_ns: Nanos,
    /// Of which the linking, which runs alone.
    pub link_ns: Nanos,
    /// CPU time in user mode of all compilers and the linker.
    pub user_ns: Nanos,
    /// CPU time in the kernel of all compilers and the linker.
    pub system_ns: Nanos,
    /// For each file, in order of its end: from the start of its compiler until the end.
    pub file_ns: Vec<Nanos>,
}
