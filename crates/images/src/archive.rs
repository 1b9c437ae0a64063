//! Walks the archive of a layer: headers of strangers in, checked entries out, with what is in each of them.
//!
//! ```text
//!  header, 512 bytes ─┬─ x  pax: path, linkpath, size, uid, gid, mtime ─┐ kept for
//!                     ├─ L, K  GNU: long names ─────────────────────────┤ the next
//!                     └─ file, folder, link … ◄─────────────────────────┘ ─► tell(entry, its bytes)
//! ```
//! Fields are parsed by the crate `tar`; which entries there are and how much of them is read is bounded here, before anything
//! is kept.

use std::io::{self, Read};

use tar::{EntryType, Header};

use crate::{ImageError, shown};

const BLOCK: usize = 512;
/// Longest path, as Linux has it.
const MOST_PATH: usize = 4096;
/// Longest list of attributes of an entry.
const MOST_PAX: u64 = 1 << 20;
/// Most entries of all layers, headers that speak of others included.
const MOST_ENTRIES: u64 = 4_000_000;
/// Most bytes of all files of all layers.
const MOST_BYTES: u64 = 64 << 30;
/// How the names of extended attributes begin in archives.
const ATTRIBUTE: &[u8] = b"SCHILY.xattr.";
/// An attribute in which archives carry capabilities of files.
const CAPABILITIES: &[u8] = b"SCHILY.xattr.security.capability";

/// What may still come, and whether anybody wants it.
pub struct Budget<'a> {
    entries: u64,
    bytes: u64,
    is_wanted: &'a dyn Fn() -> bool,
}

impl<'a> Budget<'a> {
    /// What is usual of an image.
    pub fn usual(is_wanted: &'a dyn Fn() -> bool) -> Self {
        Self::of(MOST_ENTRIES, MOST_BYTES, is_wanted)
    }

    /// So many entries and bytes.
    pub fn of(entries: u64, bytes: u64, is_wanted: &'a dyn Fn() -> bool) -> Self {
        Self { entries, bytes, is_wanted }
    }

    /// An entry.
    fn spend(&mut self, bytes: u64) -> Result<(), ImageError> {
        if !(self.is_wanted)() {
            return Err(ImageError::Interrupted);
        }
        let too_many =
            || ImageError::TooMuch(format!("an image may have {MOST_ENTRIES} entries, this has more"));
        self.entries = self.entries.checked_sub(1).ok_or_else(too_many)?;
        self.take(bytes)
    }

    /// What follows the last entry.
    pub(crate) fn rest(&mut self, bytes: u64) -> Result<(), ImageError> {
        if !(self.is_wanted)() {
            return Err(ImageError::Interrupted);
        }
        self.take(bytes)
    }

    /// What is in it.
    fn take(&mut self, bytes: u64) -> Result<(), ImageError> {
        let most = MOST_BYTES >> 30;
        let too_much =
            || ImageError::TooMuch(format!("an image may have {most} GiB in its files, this has more"));
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(too_much)?;
        Ok(())
    }
}

/// What something in an archive is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A file; its bytes come with it.
    File,
    /// A folder.
    Folder,
    /// A symbolic link to this.
    Link(Vec<u8>),
    /// A further name of this.
    HardLink(Vec<u8>),
    /// A pipe with a name.
    Fifo,
    /// A device.
    Device,
}

/// Something in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path as it stands there: 1 … 4096 bytes, none of them zero.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Permission bits, set-ID bits, sticky bit.
    pub mode: u32,
    /// Owner.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Seconds since 1970.
    pub modified_s: i64,
    /// Whether it carries capabilities.
    pub has_capabilities: bool,
    /// Whether it carries other extended attributes.
    pub has_attributes: bool,
}

/// What earlier headers said of the next entry.
#[derive(Default)]
struct Said {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    user: Option<u64>,
    group: Option<u64>,
    modified_s: Option<i64>,
    has_capabilities: bool,
    has_attributes: bool,
}

/// Walks an archive to its end.
///
/// # Errors
/// It is no archive, damaged, or too much; or what `tell` says.
pub fn walk(
    archive: &mut dyn Read,
    budget: &mut Budget<'_>,
    tell: &mut dyn FnMut(&Entry, &mut dyn Read) -> Result<(), ImageError>,
) -> Result<(), ImageError> {
    let mut said = Said::default();
    while let Some(block) = next_block(archive)? {
        let header = Header::from_byte_slice(&block);
        check_sum(&block, header)?;
        let kind = header.entry_type();
        let size = header
            .entry_size()
            .map_err(|error| malformed(format!("the size of an entry: {}", said_by(&error))))?;
        let is_header = matches!(
            kind,
            EntryType::XHeader | EntryType::XGlobalHeader | EntryType::GNULongName | EntryType::GNULongLink
        );
        // Without entries behind them, headers would be read for ever.
        budget.spend(if is_header { size } else { 0 })?;
        match kind {
            EntryType::XHeader => note_pax(&mut said, &read_all(archive, size, MOST_PAX)?)?,
            EntryType::GNULongName => said.path = Some(long_name(archive, size)?),
            EntryType::GNULongLink => said.link = Some(long_name(archive, size)?),
            // Says something of the whole archive: a remark.
            EntryType::XGlobalHeader => drop(read_all(archive, size, MOST_PAX)?),
            _ => {
                let said = std::mem::take(&mut said);
                let size = said.size.unwrap_or(size);
                let entry = entry_of(header, kind, said)?;
                // What is no file has no bytes, whatever it says.
                let size = if entry.kind == Kind::File { size } else { 0 };
                budget.take(size)?;
                let mut body = Body { from: archive, left: size };
                tell(&entry, &mut body)?;
                io::copy(&mut body, &mut io::sink()).map_err(ImageError::io("an archive"))?;
                skip_padding(archive, size)?;
            }
        }
    }
    Ok(())
}

/// The next header; none at the end, which may be marked by empty blocks or not at all.
fn next_block(archive: &mut dyn Read) -> Result<Option<[u8; BLOCK]>, ImageError> {
    let mut block = [0; BLOCK];
    let mut filled = 0;
    while let Some(rest) = block.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match archive.read(rest) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(malformed("the archive is cut off within a header".to_owned())),
            Ok(got) => filled += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ImageError::io("an archive")(error)),
        }
    }
    Ok(Some(block).filter(|block| block.iter().any(|byte| *byte != 0)))
}

fn check_sum(block: &[u8; BLOCK], header: &Header) -> Result<(), ImageError> {
    const FIELD: std::ops::Range<usize> = 148..156;
    let byte =
        |(place, byte): (usize, &u8)| if FIELD.contains(&place) { u32::from(b' ') } else { u32::from(*byte) };
    let sum: u32 = block.iter().enumerate().map(byte).sum();
    if header.cksum().is_ok_and(|stands| stands == sum) {
        return Ok(());
    }
    Err(malformed("this is no tar archive, or a damaged one: a header's sum is wrong".to_owned()))
}

fn entry_of(header: &Header, kind: EntryType, said: Said) -> Result<Entry, ImageError> {
    let path = said.path.unwrap_or_else(|| header.path_bytes().into_owned());
    let link = || {
        said.link.or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned)).unwrap_or_default()
    };
    if path.is_empty() || path.len() > MOST_PATH || path.contains(&0) {
        return Err(malformed(format!("{} is no path of 1 to {MOST_PATH} bytes", shown(&path))));
    }
    let kind = match kind {
        // As archives were before there was a letter for folders.
        EntryType::Regular if path.ends_with(b"/") => Kind::Folder,
        EntryType::Regular | EntryType::Continuous => Kind::File,
        EntryType::Directory => Kind::Folder,
        EntryType::Symlink => Kind::Link(target(&path, link())?),
        EntryType::Link => Kind::HardLink(target(&path, link())?),
        EntryType::Fifo => Kind::Fifo,
        EntryType::Char | EntryType::Block => Kind::Device,
        other => {
            let letter = other.as_byte().escape_ascii().to_string();
            return Err(malformed(format!(
                "{} is an entry of type '{letter}', which is not taken",
                shown(&path)
            )));
        }
    };
    let field = |what: &'static str, number: io::Result<u64>| {
        let number =
            number.map_err(|error| malformed(format!("{}: {what}: {}", shown(&path), said_by(&error))))?;
        u32::try_from(number).map_err(|_| malformed(format!("{}: {what} {number} is none", shown(&path))))
    };
    let user = said.user.map_or_else(|| header.uid(), Ok);
    let group = said.group.map_or_else(|| header.gid(), Ok);
    Ok(Entry {
        mode: field("mode", header.mode().map(u64::from))? & 0o7777,
        user: field("user", user)?,
        group: field("group", group)?,
        modified_s: said
            .modified_s
            .unwrap_or_else(|| header.mtime().ok().and_then(|s| s.try_into().ok()).unwrap_or(0)),
        has_capabilities: said.has_capabilities,
        has_attributes: said.has_attributes,
        kind,
        path,
    })
}

fn target(path: &[u8], target: Vec<u8>) -> Result<Vec<u8>, ImageError> {
    if target.is_empty() || target.len() >= MOST_PATH || target.contains(&0) {
        return Err(malformed(format!("{} is a link to {}, which is no path", shown(path), shown(&target))));
    }
    Ok(target)
}

/// The first record, `LENGTH KEY=VALUE` and a newline (pax(1)), as its key, its value and what follows. Its length says where it
/// ends: values may hold newlines.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().position(|byte| *byte == b' ')?;
    let length = std::str::from_utf8(bytes.get(..space)?).ok()?.parse().ok()?;
    let record = bytes.get(space + 1..length)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    Some((record.get(..equals)?, record.get(equals + 1..)?, bytes.get(length..)?))
}

fn note_pax(said: &mut Said, bytes: &[u8]) -> Result<(), ImageError> {
    let mut left = bytes;
    while !left.is_empty() {
        let record =
            record(left).ok_or_else(|| malformed("attributes of an entry: no pax record".to_owned()))?;
        let (key, value, rest) = record;
        left = rest;
        let number = || {
            let text = std::str::from_utf8(value).ok();
            let number = text.and_then(|text| text.parse::<u64>().ok());
            number.ok_or_else(|| malformed(format!("a number was wanted, got {}", shown(value))))
        };
        match key {
            b"path" => said.path = Some(value.to_vec()),
            b"linkpath" => said.link = Some(value.to_vec()),
            b"size" => said.size = Some(number()?),
            b"uid" => said.user = Some(number()?),
            b"gid" => said.group = Some(number()?),
            b"mtime" => {
                let whole =
                    value.split(|byte| *byte == b'.').next().and_then(|text| std::str::from_utf8(text).ok());
                said.modified_s = whole.and_then(|text| text.parse().ok());
            }
            CAPABILITIES => said.has_capabilities = true,
            key if key.starts_with(ATTRIBUTE) => said.has_attributes = true,
            // Its bytes are not the file's, and its name may be another.
            key if key.starts_with(b"GNU.sparse.") => {
                return Err(malformed("a sparse file as GNU tar writes it, which is not taken".to_owned()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A name that had no room in its header.
fn long_name(archive: &mut dyn Read, size: u64) -> Result<Vec<u8>, ImageError> {
    let mut name = read_all(archive, size, MOST_PATH as u64 + 1)?;
    // The zero at its end is counted or not.
    if name.last() == Some(&0) {
        name.pop();
    }
    Ok(name)
}

fn read_all(archive: &mut dyn Read, size: u64, most: u64) -> Result<Vec<u8>, ImageError> {
    if size > most {
        return Err(malformed(format!("a header of {size} bytes; allowed are {most}")));
    }
    let mut bytes = Vec::new();
    archive.take(size).read_to_end(&mut bytes).map_err(ImageError::io("an archive"))?;
    if bytes.len() as u64 != size {
        return Err(malformed("the archive is cut off within a name".to_owned()));
    }
    skip_padding(archive, size)?;
    Ok(bytes)
}

/// What fills up the last block of `size` bytes; at the very end of an archive it may be missing.
fn skip_padding(archive: &mut dyn Read, size: u64) -> Result<(), ImageError> {
    let padding = size.next_multiple_of(BLOCK as u64) - size;
    io::copy(&mut archive.take(padding), &mut io::sink()).map(drop).map_err(ImageError::io("an archive"))
}

/// The bytes of a file: all of them, or an error.
struct Body<'a> {
    from: &'a mut dyn Read,
    left: u64,
}

impl Read for Body<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let Some(wanted) = buffer.get_mut(..most).filter(|wanted| !wanted.is_empty()) else { return Ok(0) };
        let got = self.from.read(wanted)?;
        if got == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the archive is cut off within a file"));
        }
        self.left -= got as u64;
        Ok(got)
    }
}

/// What the parser says repeats what stands there.
fn said_by(error: &io::Error) -> String {
    error.to_string().escape_debug().to_string()
}

fn malformed(text: String) -> ImageError {
    ImageError::Malformed(text)
}
