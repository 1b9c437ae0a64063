//! The documents of an image: index, manifest, config. Bytes in, checked values out; nothing here touches a file.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::digest::Digest;
use crate::{ImageError, shown};

/// Longest document.
pub const MOST_JSON_BYTES: u64 = 4 << 20;
/// Most layers of an image: container engines make 127 at most.
const MOST_LAYERS: usize = 512;
/// Most manifests of an index.
const MOST_MANIFESTS: usize = 4096;
/// Most bytes of words and variables of a config: a program can be given no more.
const MOST_WORD_BYTES: usize = 1 << 20;

/// A blob: what it is, which, how long.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Descriptor {
    /// What it is.
    #[serde(rename = "mediaType", default)]
    pub media_type: Option<String>,
    /// Which.
    pub digest: Digest,
    /// How long, in bytes.
    pub size: u64,
    /// For which machine.
    #[serde(default)]
    pub platform: Option<Platform>,
    /// Said of it: its name.
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// A kind of machine.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Platform {
    /// By the names of the Go language: `amd64`, `arm64`.
    pub architecture: String,
    /// `linux`.
    pub os: String,
}

impl Platform {
    /// This machine's.
    pub fn own() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self { architecture: architecture.to_owned(), os: "linux".to_owned() }
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os.escape_debug(), self.architecture.escape_debug())
    }
}

/// An index, or a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// Manifests, of several names or machines.
    Index(Vec<Descriptor>),
    /// One image.
    Manifest(Manifest),
}

/// One image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Its config.
    pub config: Descriptor,
    /// Its layers, the lowest first.
    pub layers: Vec<Descriptor>,
}

/// Both, as they stand there: a document that is both means something else to everybody who reads it, and is refused.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Either {
    schema_version: u32,
    #[serde(default)]
    manifests: Option<Vec<Descriptor>>,
    #[serde(default)]
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Option<Vec<Descriptor>>,
}

/// Reads an index or a manifest.
///
/// # Errors
/// It is neither, both, or too long.
pub fn read_document(bytes: &[u8]) -> Result<Document, ImageError> {
    let what = "an index or manifest";
    let either: Either = from_json(what, bytes)?;
    if either.schema_version != 2 {
        let got = either.schema_version;
        return Err(malformed(format!("{what} of schemaVersion 2 was wanted, this has {got}")));
    }
    match (either.manifests, either.config, either.layers) {
        (Some(manifests), None, None) if manifests.len() <= MOST_MANIFESTS => Ok(Document::Index(manifests)),
        (None, Some(config), Some(layers)) if layers.len() <= MOST_LAYERS => {
            layers.iter().try_for_each(check_layer)?;
            Ok(Document::Manifest(Manifest { config, layers }))
        }
        (Some(manifests), None, None) => {
            let got = manifests.len();
            Err(ImageError::TooMuch(format!(
                "an index may name {MOST_MANIFESTS} manifests, this names {got}"
            )))
        }
        (None, Some(_), Some(layers)) => {
            let got = layers.len();
            Err(ImageError::TooMuch(format!("an image may have {MOST_LAYERS} layers, this has {got}")))
        }
        _ => Err(malformed(format!("{what} was wanted, this is neither, or both"))),
    }
}

/// What a layer is packed with its first bytes say; what is no archive, or nobody can read, is told by its type.
fn check_layer(layer: &Descriptor) -> Result<(), ImageError> {
    let Some(kind) = &layer.media_type else { return Ok(()) };
    let is_archive = [".tar", "+gzip", "+zstd", ".gzip", ".zstd"].iter().any(|end| kind.ends_with(end));
    if is_archive && !kind.contains("encrypted") && !kind.contains("foreign") {
        return Ok(());
    }
    Err(malformed(format!("a layer is of type {}, which cannot be unpacked", shown(kind.as_bytes()))))
}

/// What an image says of its program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Config {
    /// For which machine.
    #[serde(flatten)]
    pub platform: Platform,
    #[serde(default, rename = "config")]
    execution: Option<Execution>,
    #[serde(default)]
    rootfs: Option<RootFs>,
}

/// What it says of its layers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
struct RootFs {
    diff_ids: Option<Vec<Digest>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Execution {
    user: Option<String>,
    env: Option<Vec<String>>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    working_dir: Option<String>,
}

/// Reads a config.
///
/// # Errors
/// It is none, or holds more than a program can be given.
pub fn read_config(bytes: &[u8]) -> Result<Config, ImageError> {
    let config: Config = from_json("a config", bytes)?;
    if config.said().any(|text| text.contains('\0')) {
        return Err(malformed("the config holds a zero byte, which no program can be given".to_owned()));
    }
    let bytes: usize = config.said().map(str::len).sum();
    if bytes > MOST_WORD_BYTES {
        let text =
            format!("the config holds {bytes} bytes of words and variables; allowed are {MOST_WORD_BYTES}");
        return Err(ImageError::TooMuch(text));
    }
    Ok(config)
}

impl Config {
    /// What each of these layers must be once it is unpacked from its packing (`diff_ids` of the specification); none where the config says
    /// nothing of them.
    ///
    /// # Errors
    /// It speaks of more layers, or of fewer.
    pub fn diff_ids(&self, layers: &[Descriptor]) -> Result<Vec<Option<&Digest>>, ImageError> {
        let said = self.rootfs.as_ref().and_then(|root| root.diff_ids.as_deref()).unwrap_or_default();
        match said.len() {
            0 => Ok(vec![None; layers.len()]),
            count if count == layers.len() => Ok(said.iter().map(Some).collect()),
            count => Err(malformed(format!(
                "the config speaks of {count} layers (diff_ids), the manifest of {}",
                layers.len()
            ))),
        }
    }

    /// What is run: its program, or, where the caller names words, those behind the program.
    pub fn command(&self, instead: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let bytes = |words: Option<&Vec<String>>| -> Vec<Vec<u8>> {
            words.into_iter().flatten().map(|word| word.clone().into_bytes()).collect()
        };
        let said = self.execution.as_ref();
        let mut command = bytes(said.and_then(|said| said.entrypoint.as_ref()));
        if instead.is_empty() {
            command.extend(bytes(said.and_then(|said| said.cmd.as_ref())));
        } else {
            command.extend_from_slice(instead);
        }
        command
    }

    /// Variables; what is none is left out, as container engines do.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let env = self.execution.iter().flat_map(|said| said.env.iter().flatten());
        env.filter_map(|text| text.split_once('=')).filter(|(name, _)| !name.is_empty())
    }

    /// The folder its program starts in, where it says one: from the root, with no `..` in it. As container engines take it, `..` is the
    /// folder above in the text, whatever links there are.
    pub fn workdir(&self) -> Option<String> {
        let said = self.execution.as_ref()?.working_dir.as_deref().filter(|folder| !folder.is_empty())?;
        let mut parts: Vec<&str> = Vec::new();
        for part in said.split('/').filter(|part| !matches!(*part, "" | ".")) {
            if part == ".." {
                parts.pop();
            } else {
                parts.push(part);
            }
        }
        Some(format!("/{}", parts.join("/")))
    }

    /// Who runs it, `USER[:GROUP]` by name or number, where it says.
    pub fn user(&self) -> Option<&str> {
        self.execution.as_ref()?.user.as_deref().filter(|user| !user.is_empty())
    }

    /// All texts of it.
    fn said(&self) -> impl Iterator<Item = &str> {
        self.execution.iter().flat_map(|said| {
            let lists = [&said.env, &said.entrypoint, &said.cmd].into_iter().flatten().flatten();
            lists.chain([&said.user, &said.working_dir].into_iter().flatten()).map(String::as_str)
        })
    }
}

fn from_json<'a, T: Deserialize<'a>>(what: &str, bytes: &'a [u8]) -> Result<T, ImageError> {
    if bytes.len() as u64 > MOST_JSON_BYTES {
        let got = bytes.len();
        return Err(ImageError::TooMuch(format!("{what} may have {MOST_JSON_BYTES} bytes, this has {got}")));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let why = error.to_string();
        malformed(format!("{what} was wanted, this is none: {}", why.escape_debug()))
    })
}

fn malformed(text: String) -> ImageError {
    ImageError::Malformed(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_manifest_is_told_from_an_index_and_what_is_both_is_refused() {
        let blob = format!("{{\"mediaType\":\"x.tar\",\"digest\":\"{DIGEST}\",\"size\":0}}");
        let manifests = format!("\"manifests\":[{blob}]");
        let image = format!("\"config\":{blob},\"layers\":[{blob},{blob}]");
        let read = |inner: &str| read_document(format!("{{\"schemaVersion\":2,{inner}}}").as_bytes());
        assert!(matches!(read(&manifests), Ok(Document::Index(list)) if list.len() == 1));
        assert!(matches!(read(&image), Ok(Document::Manifest(image)) if image.layers.len() == 2));
        for bad in [format!("{manifests},{image}"), "\"a\":1".to_owned(), "\"layers\":[]".to_owned()] {
            assert!(read(&bad).is_err(), "{bad}");
        }
        assert!(read_document(format!("{{\"schemaVersion\":1,{image}}}").as_bytes()).is_err());
        let many = vec![blob.as_str(); MOST_LAYERS + 1].join(",");
        let error = read(&format!("\"config\":{blob},\"layers\":[{many}]")).expect_err("too many");
        assert!(matches!(&error, ImageError::TooMuch(text) if text.contains("512 layers")), "{error}");
        let sealed = blob.replace("x.tar", "application/vnd.oci.image.layer.v1.tar+gzip+encrypted");
        assert!(read(&format!("\"config\":{blob},\"layers\":[{sealed}]")).is_err());
    }

    #[test]
    fn the_callers_words_stand_for_cmd_and_nulls_for_nothing() {
        let text = r#"{"architecture":"amd64","os":"linux","config":{"Entrypoint":["/e","a"],"Cmd":["c"],
            "Env":["A=b=c","=x","no"],"WorkingDir":"/w","User":"u:g","Volumes":null},"rootfs":{}}"#;
        let config = read_config(text.as_bytes()).expect("a config");
        assert_eq!(config.command(&[]), [&b"/e"[..], b"a", b"c"]);
        assert_eq!(config.command(&[vec![255]]), [&b"/e"[..], b"a", &[255]]);
        assert_eq!(config.variables().collect::<Vec<_>>(), [("A", "b=c")]);
        assert_eq!((config.workdir().as_deref(), config.user()), (Some("/w"), Some("u:g")));
        let bare = r#"{"architecture":"amd64","os":"linux","config":{"Entrypoint":null,"Cmd":null,"WorkingDir":""}}"#;
        let bare = read_config(bare.as_bytes()).expect("a config");
        assert_eq!((bare.command(&[]).len(), bare.workdir(), bare.user()), (0, None, None));
        assert!(read_config(br#"{"architecture":"a","os":"l","config":{"Cmd":["a\u0000b"]}}"#).is_err());
    }
}
