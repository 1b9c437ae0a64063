//! Writes OCI layouts for tests, those that nobody honest would write included.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::fs;
use std::path::Path;

use images::Digest;
use tar::{EntryType, Header};

/// An archive that is written entry by entry.
#[derive(Debug, Clone, Default)]
pub struct Layer {
    bytes: Vec<u8>,
}

/// Who has an entry.
#[derive(Debug, Clone, Copy)]
pub struct Who {
    pub user: u64,
    pub group: u64,
    pub mode: u32,
}

pub const ROOTS: Who = Who { user: 0, group: 0, mode: 0o755 };

impl Layer {
    /// Any entry, as it is said.
    pub fn entry(mut self, kind: EntryType, path: &[u8], link: &[u8], who: Who, body: &[u8]) -> Self {
        for (long, letter) in [(path, EntryType::GNULongName), (link, EntryType::GNULongLink)] {
            if long.len() > 100 {
                self.push(letter, b"././@LongLink", b"", ROOTS, &[long, b"\0"].concat());
            }
        }
        self.push(kind, path.get(..100).unwrap_or(path), link.get(..100).unwrap_or(link), who, body);
        self
    }

    fn push(&mut self, kind: EntryType, path: &[u8], link: &[u8], who: Who, body: &[u8]) {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path);
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
        header.set_entry_type(kind);
        header.set_size(body.len() as u64);
        header.set_uid(who.user);
        header.set_gid(who.group);
        header.set_mode(who.mode);
        header.set_mtime(1_000_000_000);
        header.set_cksum();
        self.bytes.extend(header.as_bytes());
        self.bytes.extend(body);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
    }

    pub fn file(self, path: &str, mode: u32, body: impl AsRef<[u8]>) -> Self {
        self.entry(EntryType::Regular, path.as_bytes(), b"", Who { mode, ..ROOTS }, body.as_ref())
    }

    pub fn folder(self, path: &str) -> Self {
        self.entry(EntryType::Directory, path.as_bytes(), b"", ROOTS, b"")
    }

    pub fn link(self, path: &str, target: &str) -> Self {
        self.entry(EntryType::Symlink, path.as_bytes(), target.as_bytes(), ROOTS, b"")
    }

    pub fn name(self, path: &str, target: &str) -> Self {
        self.entry(EntryType::Link, path.as_bytes(), target.as_bytes(), ROOTS, b"")
    }

    /// An attribute of the next entry.
    pub fn pax(mut self, key: &str, value: &str) -> Self {
        let rest = format!(" {key}={value}\n");
        let mut length = rest.len() + 1;
        while length != rest.len() + length.to_string().len() {
            length = rest.len() + length.to_string().len();
        }
        self.push(EntryType::XHeader, b"x", b"", ROOTS, format!("{length}{rest}").as_bytes());
        self
    }

    /// The archive, with its end.
    pub fn archive(mut self) -> Vec<u8> {
        self.bytes.extend([0; 1024]);
        self.bytes
    }
}

/// Writes a blob; its descriptor.
pub fn blob(layout: &Path, kind: &str, bytes: &[u8]) -> serde_json::Value {
    let folder = layout.join("blobs/sha256");
    fs::create_dir_all(&folder).expect("the test's own files");
    let digest = Digest::of(bytes);
    fs::write(folder.join(digest.digits()), bytes).expect("the test's own files");
    serde_json::json!({ "mediaType": kind, "digest": digest.to_string(), "size": bytes.len() })
}

/// Writes an image of packed layers; the descriptor of its manifest. `config` is what it says of its program.
pub fn image(layout: &Path, config: &serde_json::Value, layers: &[Vec<u8>]) -> serde_json::Value {
    let machine = images::Platform::own();
    let whole = serde_json::json!({
        "architecture": machine.architecture, "os": machine.os, "config": config,
        "rootfs": { "type": "layers", "diff_ids": [] },
    });
    let config = blob(layout, "application/vnd.oci.image.config.v1+json", whole.to_string().as_bytes());
    let layer = |bytes: &Vec<u8>| blob(layout, "application/vnd.oci.image.layer.v1.tar", bytes);
    let layers: Vec<_> = layers.iter().map(layer).collect();
    let manifest = serde_json::json!({ "schemaVersion": 2, "config": config, "layers": layers });
    blob(layout, "application/vnd.oci.image.manifest.v1+json", manifest.to_string().as_bytes())
}

/// Makes the folder a layout of these images.
pub fn index(layout: &Path, manifests: &[serde_json::Value]) {
    fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).expect("the test's own files");
    let index = serde_json::json!({ "schemaVersion": 2, "manifests": manifests });
    fs::write(layout.join("index.json"), index.to_string()).expect("the test's own files");
}

/// The same descriptor with a name.
pub fn named(mut descriptor: serde_json::Value, name: &str) -> serde_json::Value {
    descriptor["annotations"] = serde_json::json!({ "org.opencontainers.image.ref.name": name });
    descriptor
}
