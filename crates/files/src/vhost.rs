//! The device's half that is outside of QEMU: it says over a socket where the guest's memory and queues are (vhost-user), and the
//! server reads requests out of them and writes answers into them.
//!
//! ```text
//!  QEMU ─ socket: memory, queues, eventfds ─► this ◄─ memory shared with the guest: requests, answers
//! ```
//! Two queues: one for what the guest forgets, one for everything else.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost_user_backend::{Error, VhostUserBackendMut, VhostUserDaemon, VringMutex, VringT};
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use virtio_queue::{DescriptorChain, QueueOwnedT};
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryLoadGuard, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier};

use crate::fullness::Fullness;
use crate::message::{HEADER_BYTES, MOST_DATA};
use crate::server::{Answer, Files, Job, Tree};

/// Queues.
const QUEUES: usize = 2;
/// Longest of them.
const QUEUE_SIZE: usize = 1024;
/// Longest request: data and what stands before it.
const MOST_REQUEST: usize = MOST_DATA + HEADER_BYTES + 4096;
/// The server looks for the next request so long before it sleeps, as long as requests keep coming in that time. To be woken takes
/// longer than most requests do, and so does waking: the guest leaves that out meanwhile. As KVM does it when a guest's CPU rests (the kernel's
/// `Documentation/virt/kvm/halt-polling.rst`).
const LINGER: Duration = Duration::from_micros(200);
/// And no longer than this before it looks at the other queue.
const LINGER_AT_MOST: Duration = Duration::from_millis(10);
/// Who gave way for longer had somebody to give way to: the CPU is not the server's to rest on.
const WANTED_BY_OTHERS: Duration = Duration::from_micros(100);
/// It sleeps at once for so long then.
const BACK_OFF: Duration = Duration::from_millis(100);
/// Stack of such a thread: jobs are few calls deep.
const STACK_BYTES: usize = 128 << 10;

type Memory = GuestMemoryAtomic<GuestMemoryMmap>;
type Chain = DescriptorChain<GuestMemoryLoadGuard<GuestMemoryMmap>>;

/// A request that is done later, and where its answer goes.
struct Late {
    job: Job,
    chain: Chain,
    ring: VringMutex,
}

struct Device {
    files: Files,
    memory: Option<Memory>,
    has_event_index: bool,
    late: Sender<Late>,
    /// When a queue was last found empty.
    rested: Option<Instant>,
    /// When somebody else last wanted the CPU on which it lingered.
    wanted: Option<Instant>,
}

impl VhostUserBackendMut for Device {
    type Bitmap = ();
    type Vring = VringMutex;

    fn num_queues(&self) -> usize {
        QUEUES
    }

    fn max_queue_size(&self) -> usize {
        QUEUE_SIZE
    }

    fn features(&self) -> u64 {
        let bits = [VIRTIO_F_VERSION_1, VIRTIO_RING_F_INDIRECT_DESC, VIRTIO_RING_F_EVENT_IDX];
        bits.iter().fold(VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits(), |all, bit| all | 1 << bit)
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK
    }

    fn set_event_idx(&mut self, enabled: bool) {
        self.has_event_index = enabled;
    }

    fn update_memory(&mut self, memory: Memory) -> io::Result<()> {
        self.memory = Some(memory);
        Ok(())
    }

    fn exit_event(&self, _: usize) -> Option<(EventConsumer, EventNotifier)> {
        // Without one the thread that empties the queues would outlive QEMU, and this process with it.
        new_event_consumer_and_notifier(EventFlag::NONBLOCK | EventFlag::CLOEXEC).ok()
    }

    fn handle_event(&mut self, event: u16, _: EventSet, rings: &[VringMutex], _: usize) -> io::Result<()> {
        let Some(ring) = rings.get(usize::from(event)) else { return Ok(()) };
        let lingers = self.rested.is_some_and(|since| since.elapsed() < LINGER)
            && self.wanted.is_none_or(|since| since.elapsed() > BACK_OFF);
        loop {
            if self.has_event_index {
                ring.disable_notification().map_err(io::Error::other)?;
            }
            self.empty(ring)?;
            if lingers {
                self.linger(ring)?;
            }
            self.rested = Some(Instant::now());
            // What came in meanwhile has woken nobody.
            if !self.has_event_index || !ring.enable_notification().map_err(io::Error::other)? {
                return Ok(());
            }
        }
    }
}

impl Device {
    /// Does what comes in one after the other, until nothing has for a while.
    fn linger(&mut self, ring: &VringMutex) -> io::Result<()> {
        let begun = Instant::now();
        let mut since = begun;
        while since.elapsed() < LINGER && begun.elapsed() < LINGER_AT_MOST {
            if self.empty(ring)? > 0 {
                since = Instant::now();
            }
            let yielded = Instant::now();
            thread::yield_now();
            if yielded.elapsed() > WANTED_BY_OTHERS {
                self.wanted = Some(Instant::now());
                break;
            }
        }
        Ok(())
    }

    /// Does everything that stands in a queue, and says how much it was.
    fn empty(&mut self, ring: &VringMutex) -> io::Result<usize> {
        let Some(memory) = self.memory.clone() else { return Ok(0) };
        for done in 0.. {
            let mut state = ring.get_mut();
            let chain = state.get_queue_mut().iter(memory.memory()).map_err(io::Error::other)?.next();
            drop(state);
            let Some(chain) = chain else { return Ok(done) };
            match self.answer(&chain) {
                Answer::None => give_back(ring, &chain, &[]),
                Answer::Now(answer) => give_back(ring, &chain, &answer),
                Answer::Later(job) => {
                    let ring = ring.clone();
                    // Its threads live as long as this.
                    let _ = self.late.send(Late { job, chain, ring });
                    Ok(())
                }
            }?;
        }
        Ok(0)
    }

    fn answer(&mut self, chain: &Chain) -> Answer {
        let Ok(reader) = chain.clone().reader::<()>(chain.memory()) else { return Answer::None };
        let Ok(writer) = chain.clone().writer::<()>(chain.memory()) else { return Answer::None };
        let length = reader.available_bytes();
        if length > MOST_REQUEST {
            return Answer::None;
        }
        let mut request = Vec::with_capacity(length);
        let limit = u64::try_from(MOST_REQUEST).unwrap_or(u64::MAX);
        if reader.take(limit).read_to_end(&mut request).is_err() {
            return Answer::None;
        }
        self.files.handle(&request, writer.available_bytes())
    }
}

/// Writes an answer, and tells the guest.
fn give_back(ring: &VringMutex, chain: &Chain, answer: &[u8]) -> io::Result<()> {
    let mut written = 0;
    if let Ok(mut writer) = chain.clone().writer::<()>(chain.memory())
        && writer.available_bytes() >= answer.len()
        && writer.write_all(answer).is_ok()
    {
        written = u32::try_from(answer.len()).unwrap_or_default();
    }
    let mut state = ring.get_mut();
    state.add_used(chain.head_index(), written).map_err(io::Error::other)?;
    if state.needs_notification().map_err(io::Error::other)? {
        state.signal_used_queue()?;
    }
    Ok(())
}

/// Serves the trees of `folder` to the QEMU that dials `listener`, until it hangs up; they are full when `fullness` says so.
///
/// # Errors
/// A thread cannot be started, or what comes over the socket is not understood.
pub fn serve(
    listener: UnixListener,
    folder: OwnedFd,
    trees: Vec<Tree>,
    fullness: Fullness,
) -> io::Result<()> {
    // The guest's kernel takes away what its programs' own masks say; the caller's is none of theirs.
    rustix::process::umask(Mode::empty());
    let (late, jobs) = channel();
    work(jobs)?;
    let device = Device {
        files: Files::new(folder, trees).full_when(fullness),
        memory: None,
        has_event_index: false,
        late,
        rested: None,
        wanted: None,
    };
    let memory = GuestMemoryAtomic::new(GuestMemoryMmap::<()>::new());
    let device = Arc::new(Mutex::new(device));
    let other = |error: Error| io::Error::other(error.to_string());
    let mut daemon = VhostUserDaemon::new("files".to_owned(), device, memory).map_err(other)?;
    daemon.start(&mut listener.into()).map_err(other)?;
    match daemon.wait() {
        // QEMU has ended.
        Ok(()) | Err(Error::HandleRequest(_)) => Ok(()),
        Err(error) => Err(other(error)),
    }
}

/// Does what waits, each on a thread of its own: there are no more of them than processes that wait in the guest, of which
/// [`crate::waits`] lets so many wait for locks and the queue holds so many in all.
fn work(jobs: Receiver<Late>) -> io::Result<()> {
    let start = |late: Late| {
        let run = move || {
            let Late { job, chain, ring } = late;
            // The guest is gone when this fails.
            let _ = give_back(&ring, &chain, &job());
        };
        thread::Builder::new().stack_size(STACK_BYTES).spawn(run)
    };
    // One that cannot be started leaves its process waiting, as a full machine does.
    let all = move || jobs.into_iter().for_each(|late| drop(start(late)));
    thread::Builder::new().name("jobs".to_owned()).stack_size(STACK_BYTES).spawn(all).map(drop)
}
