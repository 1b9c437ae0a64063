//! From the text of a source file to an object file: parsed, verified, optimised, registers allocated, machine code
//! emitted. The compiler is Cranelift, which comes as a library, so that the job needs nothing but this binary.
//!
//! The code is for the plain instruction set of the architecture, whatever this CPU has beyond it: the same source
//! gives the same object everywhere.

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{ExternalName, Function, UserFuncName};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{Context, FinalizedMachReloc, FinalizedRelocTarget, isa};
use cranelift_reader::parse_functions;
use object::write::{Object, Relocation, SectionId, StandardSection, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SymbolFlags, SymbolKind, SymbolScope, elf,
};

/// Compiles a source file.
///
/// # Errors
/// Where and why it is not a program, or what the compiler cannot do.
pub fn compile(text: &str) -> Result<Vec<u8>, String> {
    let functions =
        parse_functions(text).map_err(|error| format!("the source is not well-formed: {error}"))?;
    let isa = target()?;
    let mut object = empty_object()?;
    let section = object.section_id(StandardSection::Text);
    for function in functions {
        add(&mut object, section, function, &isa)?;
    }
    object.write().map_err(|error| format!("the object cannot be written: {error}"))
}

fn target() -> Result<OwnedTargetIsa, String> {
    let failed = |error: &dyn std::fmt::Display| format!("no code for {}: {error}", std::env::consts::ARCH);
    let mut flags = settings::builder();
    flags.set("opt_level", "speed").map_err(|error| failed(&error))?;
    isa::lookup_by_name(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH))
        .map_err(|error| failed(&error))?
        .finish(settings::Flags::new(flags))
        .map_err(|error| failed(&error))
}

/// An object for this machine without anything in it.
///
/// # Errors
/// There is no such format for this machine.
pub fn empty_object() -> Result<Object<'static>, String> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => Architecture::X86_64,
        "aarch64" => Architecture::Aarch64,
        other => return Err(format!("no objects for {other}")),
    };
    Ok(Object::new(BinaryFormat::Elf, architecture, Endianness::Little))
}

fn add(
    object: &mut Object<'_>,
    section: SectionId,
    function: Function,
    isa: &OwnedTargetIsa,
) -> Result<(), String> {
    let UserFuncName::User(name) = function.name.clone() else {
        return Err(format!("{} has no number", function.name));
    };
    let mut context = Context::for_function(function);
    let compiled = context
        .compile(&**isa, &mut ControlPlane::default())
        .map_err(|error| format!("function {}: {:?}", name.index, error.inner))?;
    let code = compiled.code_buffer().to_vec();
    let relocations = compiled.buffer.relocs().to_vec();
    let own = symbol(object, name.index);
    let at = object.add_symbol_data(own, section, &code, 16);
    for relocation in &relocations {
        let (target, extra) = match &relocation.target {
            FinalizedRelocTarget::Func(offset) => (own, i64::from(*offset)),
            FinalizedRelocTarget::ExternalName(ExternalName::User(reference)) => {
                let callee = context.func.params.user_named_funcs().get(*reference);
                let callee = callee.ok_or_else(|| format!("function {}: a call of nothing", name.index))?;
                (symbol(object, callee.index), 0)
            }
            FinalizedRelocTarget::ExternalName(other) => {
                return Err(format!("function {}: calls {other:?}, which is in no file", name.index));
            }
        };
        let entry = Relocation {
            offset: at + u64::from(relocation.offset),
            symbol: target,
            addend: relocation.addend + extra,
            flags: RelocationFlags::Elf { r_type: kind(relocation)? },
        };
        object.add_relocation(section, entry).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn kind(relocation: &FinalizedMachReloc) -> Result<elf::RelocationType, String> {
    match relocation.kind {
        Reloc::X86PCRel4 => Ok(elf::R_X86_64_PC32),
        Reloc::X86CallPCRel4 => Ok(elf::R_X86_64_PLT32),
        Reloc::Arm64Call => Ok(elf::R_AARCH64_CALL26),
        other => Err(format!("no relocation for {other}")),
    }
}

/// The symbol of a function: made when it is named for the first time, defined when its code comes.
fn symbol(object: &mut Object<'_>, number: u32) -> SymbolId {
    let name = format!("f{number}").into_bytes();
    object.symbol_id(&name).unwrap_or_else(|| object.add_symbol(function_symbol(name)))
}

/// A function that is known by its name only.
pub fn function_symbol(name: Vec<u8>) -> Symbol {
    Symbol {
        name,
        value: 0,
        size: 0,
        kind: SymbolKind::Text,
        scope: SymbolScope::Linkage,
        weak: false,
        section: SymbolSection::Undefined,
        flags: SymbolFlags::None,
    }
}
