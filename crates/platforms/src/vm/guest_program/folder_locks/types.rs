//! Types of a kernel as it tells them itself: which number a function has, and where a structure has a member
//! (`Documentation/bpf/btf.rst` of Linux).
//!
//! ```text
//!  header │ types: name, kind and count, size │ members … │ … │ names, each up to a zero
//! ```

/// What they begin with.
const MAGIC: u16 = 0xeb9f;
/// Bytes of a type before its members.
const TYPE_BYTES: usize = 12;
/// Bytes of a member of a structure.
const MEMBER_BYTES: usize = 12;

/// The kinds that are looked for.
const STRUCTURE: u32 = 4;
const FUNCTION: u32 = 12;

/// Types and their names.
pub struct Types<'a> {
    types: &'a [u8],
    names: &'a [u8],
}

/// One of them: its number, and where it stands.
struct Type<'a> {
    number: u32,
    kind: u32,
    name: u32,
    /// Whether offsets of members carry a width as well.
    has_widths: bool,
    members: &'a [u8],
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*bytes))
}

/// So many bytes at a place that the header gives in two numbers.
fn part(bytes: &[u8], header: usize, at: usize) -> Option<&[u8]> {
    let (begin, length) = (number(bytes, at)?, number(bytes, at + 4)?);
    let rest = bytes.get(header..)?.get(usize::try_from(begin).ok()?..)?;
    rest.get(..usize::try_from(length).ok()?)
}

/// Bytes that follow a type of that kind with so many members.
const fn following(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        // Whole numbers, variables and tags.
        1 | 14 | 17 => 4,
        // Arrays, structures, unions, sections, wide enumerations.
        3 => 12,
        STRUCTURE | 5 | 15 | 19 => 12 * count,
        // Enumerations and prototypes.
        6 | 13 => 8 * count,
        // Pointers, forwards, aliases, qualifiers, functions, floating point, tags of types.
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

impl<'a> Types<'a> {
    /// None where the bytes are something else.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let magic = u16::from_le_bytes(*bytes.first_chunk()?);
        let header = usize::try_from(number(bytes, 4)?).ok()?;
        let types = Self { types: part(bytes, header, 8)?, names: part(bytes, header, 16)? };
        (magic == MAGIC).then_some(types)
    }

    /// Number of a function.
    pub fn function(&self, name: &str) -> Option<u32> {
        self.all().find(|one| one.kind == FUNCTION && self.is_called(one.name, name)).map(|one| one.number)
    }

    /// Bytes before a member of a structure; of the first one that has it.
    pub fn offset(&self, structure: &str, member: &str) -> Option<u32> {
        let named = self.all().filter(|one| one.kind == STRUCTURE && self.is_called(one.name, structure));
        named.into_iter().find_map(|one| self.member(&one, member))
    }

    fn member(&self, of: &Type<'_>, name: &str) -> Option<u32> {
        let (members, _) = of.members.as_chunks::<MEMBER_BYTES>();
        let found =
            members.iter().find(|member| number(*member, 0).is_some_and(|at| self.is_called(at, name)))?;
        let bits = number(found, 8)? & if of.has_widths { 0x00ff_ffff } else { u32::MAX };
        Some(bits / 8)
    }

    /// Whether the name at that place is this one.
    fn is_called(&self, at: u32, name: &str) -> bool {
        let found = usize::try_from(at).ok().and_then(|at| self.names.get(at..));
        found
            .and_then(|found| found.strip_prefix(name.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    }

    /// Those of a kind that is not known end them: how long it is cannot be said.
    fn all(&self) -> impl Iterator<Item = Type<'a>> {
        let mut rest = self.types;
        let mut last = 0;
        std::iter::from_fn(move || {
            let (name, info) = (number(rest, 0)?, number(rest, 4)?);
            let kind = info >> 24 & 0x1f;
            let length = following(kind, usize::try_from(info & 0xffff).ok()?)?;
            let (members, after) = rest.get(TYPE_BYTES..)?.split_at_checked(length)?;
            rest = after;
            last += 1;
            Some(Type { number: last, kind, name, has_widths: info >> 31 == 1, members })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(values: &[u32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// A whole number, a structure of two members, one of them with a width, and a function.
    fn sample() -> Vec<u8> {
        let names = b"\0int\0file\0f_mode\0f_inode\0asked\0";
        let types = words(
            &[
                [1, 1 << 24, 4, 32].as_slice(),
                &[5, 1 << 31 | 4 << 24 | 2, 16, 10, 1, 3 << 24 | 8, 17, 1, 64],
                &[25, 12 << 24, 1],
            ]
            .concat(),
        );
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
        let header =
            words(&[u32::from(MAGIC) | 1 << 16, 24, 0, length(&types), length(&types), length(names)]);
        [header, types, names.to_vec()].concat()
    }

    #[test]
    fn functions_and_members_are_found() {
        let bytes = sample();
        let types = Types::read(&bytes).unwrap();
        assert_eq!(
            (types.function("asked"), types.function("ask"), types.function("file")),
            (Some(3), None, None)
        );
        assert_eq!((types.offset("file", "f_inode"), types.offset("file", "f_mode")), (Some(8), Some(1)));
        assert_eq!((types.offset("file", "f_ino"), types.offset("int", "f_inode")), (None, None));
    }

    #[test]
    fn what_is_cut_short_or_wrong_gives_nothing_and_never_panics() {
        let whole = sample();
        for length in 0..whole.len() {
            if let Some(types) = Types::read(&whole[..length]) {
                let _ = (types.function("asked"), types.offset("file", "f_inode"));
            }
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut wrong = whole.clone();
                wrong[at] ^= 1 << bit;
                if let Some(types) = Types::read(&wrong) {
                    let _ = (types.function("asked"), types.offset("file", "f_inode"));
                }
            }
        }
    }
}
