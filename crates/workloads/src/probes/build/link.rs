//! From many object files to one image: code laid out one after the other, every call bound to what it calls.

use std::collections::HashMap;

use object::read::elf::ElfFile64;
use object::write::StandardSection;
use object::{
    Endianness, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SymbolIndex, elf,
};

use super::compile::{empty_object, function_symbol};

/// Where the code of each file begins.
const ALIGNMENT: usize = 16;

/// Links objects.
///
/// # Errors
/// Which object is none, or what is called and in none of them.
pub fn link(objects: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    let mut image = Image::default();
    for (number, bytes) in objects.iter().enumerate() {
        image.add(bytes).map_err(|error| format!("object {number}: {error}"))?;
    }
    image.bind()?;
    image.write()
}

/// A place in the code that names something by its symbol.
struct Call {
    place: usize,
    callee: Vec<u8>,
    addend: i64,
    kind: elf::RelocationType,
}

#[derive(Default)]
struct Image {
    code: Vec<u8>,
    /// Name, place and length of each function, in order.
    functions: Vec<(Vec<u8>, u64, u64)>,
    places: HashMap<Vec<u8>, usize>,
    calls: Vec<Call>,
}

impl Image {
    fn add(&mut self, bytes: &[u8]) -> Result<(), String> {
        let failed = |error: object::Error| error.to_string();
        let file = ElfFile64::<Endianness>::parse(bytes).map_err(failed)?;
        let section = file.section_by_name(".text").ok_or("there is no code in it")?;
        let base = self.code.len().next_multiple_of(ALIGNMENT);
        self.code.resize(base, 0);
        self.code.extend_from_slice(section.data().map_err(failed)?);
        for symbol in file.symbols().filter(|symbol| symbol.section_index() == Some(section.index())) {
            let name = symbol.name_bytes().map_err(failed)?;
            if name.is_empty() {
                continue;
            }
            let place = base + usize::try_from(symbol.address()).map_err(|error| error.to_string())?;
            if self.places.insert(name.to_vec(), place).is_some() {
                return Err(format!("{} is there twice", String::from_utf8_lossy(name)));
            }
            self.functions.push((name.to_vec(), place as u64, symbol.size()));
        }
        for (offset, relocation) in section.relocations() {
            let (RelocationTarget::Symbol(index), RelocationFlags::Elf { r_type }) =
                (relocation.target(), relocation.flags())
            else {
                return Err("a relocation without a symbol".to_owned());
            };
            let place = base + usize::try_from(offset).map_err(|error| error.to_string())?;
            let callee = name_of(&file, index)?;
            self.calls.push(Call { place, callee, addend: relocation.addend(), kind: r_type });
        }
        Ok(())
    }

    /// Writes distances into the code.
    fn bind(&mut self) -> Result<(), String> {
        for call in &self.calls {
            let name = || String::from_utf8_lossy(&call.callee).into_owned();
            let target =
                self.places.get(&call.callee).ok_or_else(|| format!("{} is in no object", name()))?;
            let distance = i64::try_from(*target).unwrap_or(i64::MAX) + call.addend
                - i64::try_from(call.place).unwrap_or(i64::MAX);
            let slot = self
                .code
                .get_mut(call.place..call.place + 4)
                .and_then(|bytes| bytes.first_chunk_mut::<4>())
                .ok_or_else(|| format!("the call of {} lies outside the code", name()))?;
            let word = word(call.kind, distance, u32::from_le_bytes(*slot))
                .ok_or_else(|| format!("{} is too far away from a call of it", name()))?;
            *slot = word.to_le_bytes();
        }
        Ok(())
    }

    fn write(self) -> Result<Vec<u8>, String> {
        let mut object = empty_object()?;
        let section = object.section_id(StandardSection::Text);
        let at = object.append_section_data(section, &self.code, ALIGNMENT as u64);
        for (name, place, size) in self.functions {
            let symbol = object.add_symbol(function_symbol(name));
            object.set_symbol_data(symbol, section, at + place, size);
        }
        object.write().map_err(|error| format!("the image cannot be written: {error}"))
    }
}

fn name_of(file: &ElfFile64<'_, Endianness>, index: SymbolIndex) -> Result<Vec<u8>, String> {
    let symbol = file.symbol_by_index(index).map_err(|error| error.to_string())?;
    symbol.name_bytes().map(<[u8]>::to_vec).map_err(|error| error.to_string())
}

/// The word with the distance in it; none when it does not fit, or the kind is not one that the compiler makes.
fn word(kind: elf::RelocationType, distance: i64, before: u32) -> Option<u32> {
    match kind {
        elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => i32::try_from(distance).ok().map(i32::cast_unsigned),
        elf::R_AARCH64_CALL26 => {
            let words = i32::try_from(distance >> 2).ok()?;
            let fits = distance % 4 == 0 && (-(1 << 25)..1 << 25).contains(&words);
            fits.then(|| before & 0xfc00_0000 | words.cast_unsigned() & 0x03ff_ffff)
        }
        _ => None,
    }
}
