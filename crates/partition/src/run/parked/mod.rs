//! The short way to a guest: one that was booted before, saved while it waited to be told what it is, and is told now.
//!
//! ```text
//!  shape ─┬─ kept ─► memory, state ─► QEMU ─┐                        ┌─► late devices ─► Wake ─► Awake ─► the main session
//!         └─ not ──► boot ─► Parked ─► stop, keep ───────────────────┘
//!         any failure: what was kept goes, unless QEMU did not even start, and the usual way is taken
//! ```
//! The first guest of a shape is saved on its own way to its program, which costs it a tenth of a second: nobody makes machines in
//! the background. A shape is everything that a saved machine depends on; what a program is given is no part of it.

mod shape;
mod wake;

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use self::shape::shape;
use self::wake::Heard;
use super::assemble::{Assembled, assemble};
use super::making::{Created, Making, TOLD_MUCH, is_told_much};
use super::{Event, Failed};
use model::partition::{Content, Files, FromGuest};
use platforms::Cancel;
use platforms::vm::guest::GuestConfig;
use platforms::vm::initramfs::in_memory;
use platforms::vm::qemu::{FileDevice, ParkArgument};
use platforms::vm::saved::image::Image;
use platforms::vm::saved::{self, Store};
use platforms::vm::{migration, payload};
use units::Reason;

/// How long a guest that was woken may take to say so; usual are 0.1 s.
const AWAKE: Duration = Duration::from_secs(15);
/// How long QEMU may take to stop a guest.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(10);
/// A first file system that nobody reads: the guest has booted.
const NO_FILES: [u8; 4096] = [0; 4096];

/// A guest that was told what it is, if there is a short way; else none, and the usual one is left.
///
/// # Errors
/// A guest did not come up that would not do so the usual way either.
pub fn begin(
    making: &Making<'_>,
    boot: Duration,
    cancel: &Cancel,
    tell: &mut dyn FnMut(Event),
) -> Result<Option<Created>, Failed> {
    let way = match Way::find(making, cancel) {
        Ok(way) => way,
        Err(why) => {
            tell(Event::NotRestored { why: why.into() });
            return Ok(None);
        }
    };
    match way.restore(tell) {
        Ok(Some(created)) => {
            tell(Event::Restored);
            return Ok(Some(created));
        }
        Ok(None) => tell(Event::NotRestored { why: "none of this shape was saved".to_owned() }),
        // That is no fault of what was saved.
        Err(_) if cancel.is_cancelled() => {}
        Err(Lost::NotTried(why)) => {
            tell(Event::NotRestored { why: why.into() });
            return Ok(None);
        }
        Err(Lost::Broken(why)) => way.give_up(why.into(), tell),
    }
    if cancel.is_cancelled() {
        return Ok(None);
    }
    match way.boot(boot, tell) {
        Ok(created) => Ok(Some(created)),
        Err(_) if cancel.is_cancelled() => Ok(None),
        Err(Not::Possible(why)) => {
            tell(Event::NotRestored { why: why.into() });
            Ok(None)
        }
        Err(Not::Usable(why)) => {
            // Nobody is to boot twice each time.
            let _ = way.store.refuse(&way.shape, &why.to_string());
            way.give_up(why.into(), tell);
            Ok(None)
        }
        Err(Not::Booted(failed)) => Err(failed),
    }
}

/// Why there is no guest from what was saved.
enum Lost {
    /// It could not be tried: for a limit of the caller's, say. The usual way says more of it.
    NotTried(Reason),
    /// What was saved is no such guest.
    Broken(Reason),
}

impl<E: Into<Reason>> From<E> for Lost {
    fn from(why: E) -> Self {
        Self::Broken(why.into())
    }
}

/// Why a guest that parks is none.
enum Not {
    /// It cannot even be tried; a limit of the caller's, say.
    Possible(Reason),
    /// It does not come up.
    Booted(Failed),
    /// It came up, but not where it should.
    Usable(Reason),
}

struct Way<'a> {
    making: &'a Making<'a>,
    cancel: &'a Cancel,
    store: Store,
    shape: String,
}

impl<'a> Way<'a> {
    /// Or why there is none for this partition.
    fn find(making: &'a Making<'a>, cancel: &'a Cancel) -> Result<Self, Reason> {
        why_not(making).map_or(Ok(()), |why| Err(why.to_owned()))?;
        let store = Store::open(&making.around.cache)
            .map_err(|error| format!("the folder of saved machines: {error}"))?;
        let shape = shape(making);
        match store.refused(&shape) {
            Some(why) => Err(format!("it did not work before: {why}").into()),
            None => Ok(Self { making, cancel, store, shape }),
        }
    }

    fn give_up(&self, why: String, tell: &mut dyn FnMut(Event)) {
        // What cannot be removed is found damaged again the next time.
        let _ = self.store.remove(&self.shape);
        tell(Event::NotRestored { why });
    }

    /// A machine with this memory, and what it is to be told.
    fn assembled(&self, memory: OwnedFd, is_restored: bool) -> Result<(Assembled, GuestConfig), Reason> {
        let Making { spec, around, tools, takes_sessions, .. } = self.making;
        let made = assemble(spec, &around.names, tools.modules.files, *takes_sessions);
        let mut made = made.map_err(|failed| failed.reason)?;
        let config = std::mem::take(&mut made.config);
        made.extras.park = Some(ParkArgument { memory: memory.as_raw_fd(), is_restored });
        made.inherited.push(memory);
        Ok((made, config))
    }

    /// From what was saved; none where nothing was.
    fn restore(&self, tell: &mut dyn FnMut(Event)) -> Result<Option<Created>, Lost> {
        let Some(image) = self.store.find(&self.shape)? else { return Ok(None) };
        let not_tried = |error: std::io::Error| Lost::NotTried(format!("a saved machine: {error}").into());
        let state = saved::state(image.state()).map_err(not_tried)?;
        let number = state.as_raw_fd();
        let wanted = self.making.spec.resources.memory.to_bytes().get();
        if image.memory_bytes() != wanted {
            return Err("a saved machine: it has another size of memory".into());
        }
        let (memory, filling) =
            saved::memory(wanted).and_then(|memory| filled(image, memory)).map_err(not_tried)?;
        let (mut made, config) = self.assembled(memory, true).map_err(Lost::NotTried)?;
        made.inherited.push(state);
        let nothing = in_memory("bulkhead-nothing", &NO_FILES).map_err(not_tried)?;
        let created = self.making.create(made, &nothing);
        // QEMU reads in it what its devices have to do.
        filling.join().map_err(|_| "filling in a guest's memory panicked".to_owned())??;
        let mut created = created.map_err(|failed| Lost::NotTried(failed.reason.into()))?;
        tell(created.event(self.making.engine.as_str()));
        migration::restore(created.machine.control(), number)?;
        created.place(self.making.spec, tell).map_err(|failed| failed.reason)?;
        self.tell_what_it_is(&mut created, config)?;
        Ok(Some(created))
    }

    /// Boots one, and keeps it.
    fn boot(&self, boot: Duration, tell: &mut dyn FnMut(Event)) -> Result<Created, Not> {
        let Making { spec, tools, engine, .. } = self.making;
        let failed =
            |error: std::io::Error| Not::Booted(Failed::own(format!("qemu could not be started: {error}")));
        let impossible =
            |error: std::io::Error| Not::Possible(format!("memory that can be saved: {error}").into());
        let memory = saved::memory(spec.resources.memory.to_bytes().get()).map_err(impossible)?;
        let copy = memory.try_clone().map_err(impossible)?;
        let (made, config) = self.assembled(copy.into(), false).map_err(Not::Usable)?;
        let parks = GuestConfig { parks: true, ..GuestConfig::default() };
        let initramfs = payload::build_with(&tools.program, &tools.modules, parks, None).map_err(failed)?;
        let mut created = self.making.create(made, &initramfs).map_err(Not::Booted)?;
        tell(created.event(engine.as_str()));
        let deadline = Instant::now() + boot;
        created.deadline = Some(deadline);
        let up = created.place(spec, tell).and_then(|()| created.let_go());
        up.and_then(|()| self.until_parked(&mut created, deadline, boot))
            .map_err(|failed| Not::Booted(created.explain(failed, spec)))?;
        let kept = created.machine.control().stop(CONTROL_TIMEOUT).map_err(Not::Usable).map(|()| {
            let state = migration::save(created.machine.control())?;
            self.store.keep(&self.shape, &state, &memory).map_err(|error| error.to_string())
        })?;
        if let Err(why) = kept {
            // Nobody is to write in vain each time.
            let _ = self.store.refuse(&self.shape, &why);
            tell(Event::NotRestored { why: format!("not saved: {why}") });
        }
        drop(memory);
        self.tell_what_it_is(&mut created, config).map_err(Not::Usable)?;
        Ok(created)
    }

    fn until_parked(&self, created: &mut Created, deadline: Instant, boot: Duration) -> Result<(), Failed> {
        let link = created.link.as_mut().ok_or_else(|| Failed::own("it has no link"))?;
        match wake::hear(link, deadline, self.cancel) {
            Heard::Said(FromGuest::Parked) => Ok(()),
            Heard::Said(other) => {
                let shown: String = format!("{other:?}").chars().take(100).collect();
                Err(Failed::own(format!("the guest's init is not believed: {shown} while it boots")))
            }
            Heard::Late => Err(Failed::late("boot", boot)),
            Heard::GuestEnded => Err(Failed::guest_ended()),
            Heard::Ended(why) => Err(Failed::own(why)),
        }
    }

    /// Plugs in its files, lets it go on, and tells it what it is.
    fn tell_what_it_is(&self, created: &mut Created, config: GuestConfig) -> Result<(), Reason> {
        migration::plug_files(created.machine.control())?;
        created.let_go().map_err(|failed| failed.reason)?;
        let link = created.link.as_mut().ok_or("it has no link")?;
        wake::say(link, config)?;
        match wake::hear(link, Instant::now() + AWAKE, self.cancel) {
            Heard::Said(FromGuest::Awake) => Ok(()),
            Heard::Said(other) => {
                let shown: String = format!("{other:?}").chars().take(100).collect();
                Err(format!("a guest that was woken said {shown}").into())
            }
            Heard::Late => {
                Err(format!("a guest that was woken said nothing for {} s", AWAKE.as_secs()).into())
            }
            Heard::GuestEnded => Err(Failed::guest_ended().reason.into()),
            Heard::Ended(why) => Err(why.into()),
        }
    }
}

/// A memory that is being filled in while QEMU starts.
fn filled(image: Image, memory: File) -> std::io::Result<(OwnedFd, thread::JoinHandle<Result<(), Reason>>)> {
    let copy = memory.try_clone()?;
    let filling = thread::Builder::new().name("memory".to_owned()).spawn(move || image.fill(&copy))?;
    Ok((memory.into(), filling))
}

/// What no saved machine has, or should not be asked for one.
fn why_not(making: &Making<'_>) -> Option<&'static str> {
    let (spec, modules) = (making.spec, &making.tools.modules);
    let resources = &spec.resources;
    let Content::Program(program) = &spec.content else { return Some("an image is booted") };
    let reasons = [
        (!making.around.restores, "it was not asked for"),
        (program.files == Files::None, "a program without files comes with its guest's first file system"),
        (modules.files != FileDevice::VirtioFs, "this kernel has no virtio-fs"),
        (!spec.disks.is_empty(), "it has disks"),
        (program.layer.is_some(), "it has a saved layer"),
        (!spec.cards.is_empty(), "it has network cards"),
        (!spec.sections.is_empty(), "it has channels"),
        (resources.node.is_some() || resources.guest_nodes > 1, "it has memory nodes"),
        (resources.hugepages, "it has huge pages"),
        (is_told_much(spec), TOLD_MUCH),
    ];
    reasons.into_iter().find_map(|(holds, why)| holds.then_some(why))
}
