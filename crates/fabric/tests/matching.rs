//! Every message goes where MPI says it goes: the engine beside a model that looks at everything each time.

mod common;

use std::collections::BTreeMap;

use bulkhead_fi::engine::completion::Completion;
use bulkhead_fi::engine::matching::Wanted;
use bulkhead_fi::engine::{Engine, Look};
use bulkhead_fi::transport::Transport;
use common::{Pipe, Room, outgoing};
use proptest::prelude::*;

const CANCELED: i32 = 125;
const NO_MESSAGE: i32 = 42;
const TRUNCATED: i32 = 265;

/// Who receives is rank 0; ranks 1 and 2, and rank 0 itself, send to it.
#[derive(Debug, Clone)]
enum Step {
    Send { from: u32, tag: u64, long: usize, inject: bool },
    Receive { wanted: Asked, room: usize },
    Look { wanted: Asked, discard: bool },
    Claim { wanted: Asked, room: Option<usize> },
    Cancel { which: usize },
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    source: Option<u32>,
    tag: u64,
    any_tag: bool,
}

impl Asked {
    fn wanted(self) -> Wanted {
        Wanted { source: self.source, tag: self.tag, ignore: if self.any_tag { u64::MAX } else { 0 } }
    }

    fn fits(self, message: &Sent) -> bool {
        self.source.is_none_or(|source| source == message.from) && (self.any_tag || self.tag == message.tag)
    }
}

/// Eager ones, announced ones, and one that needs several pieces.
const LENGTHS: [usize; 6] = [0, 1, 100, 16 << 10, (16 << 10) + 1, 600_000];

fn asked() -> impl Strategy<Value = Asked> {
    (prop::option::weighted(0.6, 0..3_u32), 0..3_u64, prop::bool::weighted(0.3))
        .prop_map(|(source, tag, any_tag)| Asked { source, tag, any_tag })
}

fn length() -> impl Strategy<Value = usize> {
    prop::sample::select(LENGTHS.to_vec())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3_u32, 0..3_u64, length(), any::<bool>())
            .prop_map(|(from, tag, long, inject)| Step::Send { from, tag, long, inject: inject && long <= 16 << 10 }),
        3 => (asked(), length()).prop_map(|(wanted, room)| Step::Receive { wanted, room }),
        1 => (asked(), any::<bool>()).prop_map(|(wanted, discard)| Step::Look { wanted, discard }),
        1 => (asked(), prop::option::of(length())).prop_map(|(wanted, room)| Step::Claim { wanted, room }),
        1 => (0..8_usize).prop_map(|which| Step::Cancel { which }),
    ]
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    number: usize,
    from: u32,
    tag: u64,
    long: usize,
}

/// What the program sees: by its name for the operation, the error, length and number of the message.
type Seen = BTreeMap<usize, (i32, usize, u64)>;

#[derive(Default)]
struct Model {
    arrived: Vec<Sent>,
    posted: Vec<(usize, Asked, usize)>,
    seen: Seen,
    /// Which message lies in which room.
    filled: Vec<(usize, Sent)>,
}

impl Model {
    fn deliver(&mut self, context: usize, message: Sent, room: usize) {
        let error = if message.long > room { TRUNCATED } else { 0 };
        self.seen.insert(context, (error, message.long.min(room), message.number as u64));
        self.filled.push((context, message));
    }

    fn send(&mut self, message: Sent) {
        match self.posted.iter().position(|(_, asked, _)| asked.fits(&message)) {
            Some(at) => {
                let (context, _, room) = self.posted.remove(at);
                self.deliver(context, message, room);
            }
            None => self.arrived.push(message),
        }
    }

    fn find(&self, asked: Asked) -> Option<usize> {
        self.arrived.iter().position(|message| asked.fits(message))
    }
}

/// The engines, and what they were lent.
struct Scene {
    engines: Vec<Engine>,
    rooms: BTreeMap<usize, Room>,
    seen: Seen,
}

impl Scene {
    fn new() -> Self {
        let ([a, b], [c, d]) = (Pipe::pair(), Pipe::pair());
        let way = |pipe: Pipe| Some(Box::new(pipe) as Box<dyn Transport>);
        let ways = [vec![None, way(a), way(c)], vec![way(b), None, None], vec![way(d), None, None]];
        let complain = |words: &str| panic!("{words}");
        let engines = (0..).zip(ways).map(|(rank, ways)| {
            let mut engine = Engine::new(rank, 7, ways, complain);
            engine.open_queue();
            engine
        });
        Self { engines: engines.collect(), rooms: BTreeMap::new(), seen: Seen::new() }
    }

    /// Until nothing moves any more, and a little longer: connecting is tried only now and then.
    fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 40 {
            let mut moved = false;
            for engine in &mut self.engines {
                moved |= engine.progress();
            }
            quiet = if moved { 0 } else { quiet + 1 };
        }
        let queue = self.engines[0].queue(0).expect("opened");
        let all = std::iter::from_fn(|| queue.pop().or_else(|| queue.pop_failed()));
        for Completion { context, error, length, data, flags, .. } in all {
            // Sends have names of their own.
            if flags & 1 << 10 != 0 {
                assert!(
                    self.seen.insert(context, (error, length, data)).is_none(),
                    "{context} completed twice"
                );
            }
        }
    }
}

/// Bytes of a message: each depends on its number and place.
fn content(number: usize, long: usize) -> &'static [u8] {
    Box::leak((0..long).map(|at| (number * 31 + at * 7 + at / 251).to_le_bytes()[0]).collect())
}

fn act(scene: &mut Scene, model: &mut Model, number: usize, step: &Step) {
    let context = number + 1;
    match *step {
        Step::Send { from, tag, long, inject } => {
            let bytes = content(number, long);
            let name = (!inject).then_some(context);
            let send = outgoing(bytes, tag, Some(number as u64), name);
            scene.engines[from as usize].send(0, send).expect("taken");
            scene.settle();
            model.send(Sent { number, from, tag, long });
        }
        Step::Receive { wanted, room } => {
            let lent = scene.rooms.entry(context).or_insert_with(|| Room::new(room));
            scene.engines[0].receive(wanted.wanted(), lent.receive(context));
            match model.find(wanted) {
                Some(at) => {
                    let message = model.arrived.remove(at);
                    model.deliver(context, message, room);
                }
                None => model.posted.push((context, wanted, room)),
            }
        }
        Step::Look { wanted, discard } => {
            let look = if discard { Look::Discard } else { Look::Only };
            scene.engines[0].look(&wanted.wanted(), context, look);
            let found = model.find(wanted);
            let seen = found.map_or((NO_MESSAGE, 0, 0), |at| {
                let Sent { long, number, .. } = model.arrived[at];
                (0, long, number as u64)
            });
            model.seen.insert(context, seen);
            if let Some(at) = found.filter(|_| discard) {
                model.arrived.remove(at);
            }
        }
        Step::Claim { wanted, room } => claim(scene, model, context, wanted, room),
        Step::Cancel { which } => {
            let posted = model.posted.get(which).map(|(context, _, _)| *context);
            let cancelled = scene.engines[0].cancel(posted.unwrap_or(usize::MAX));
            assert_eq!(cancelled.is_ok(), posted.is_some());
            if let Some(context) = posted {
                model.posted.remove(which);
                model.seen.insert(context, (CANCELED, 0, 0));
            }
        }
    }
}

fn claim(scene: &mut Scene, model: &mut Model, context: usize, wanted: Asked, room: Option<usize>) {
    scene.engines[0].look(&wanted.wanted(), context, Look::Claim);
    scene.settle();
    let Some(at) = model.find(wanted) else {
        model.seen.insert(context, (NO_MESSAGE, 0, 0));
        assert!(scene.engines[0].claim(context, None).is_err(), "nothing was found");
        return;
    };
    let message = model.arrived.remove(at);
    assert_eq!(scene.seen.remove(&context), Some((0, message.long, message.number as u64)));
    let lent =
        room.map(|room| scene.rooms.entry(context).or_insert_with(|| Room::new(room)).receive(context));
    scene.engines[0].claim(context, lent).expect("claimed before");
    match room {
        Some(room) => model.deliver(context, message, room),
        None => drop(model.seen.insert(context, (0, message.long, message.number as u64))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn the_engine_does_what_the_model_says(steps in prop::collection::vec(step(), 1..60)) {
        let (mut scene, mut model) = (Scene::new(), Model::default());
        scene.settle();
        for (number, step) in steps.iter().enumerate() {
            act(&mut scene, &mut model, number, step);
            scene.settle();
            prop_assert_eq!(&scene.seen, &model.seen, "after step {}", number);
        }
        for (context, message) in &model.filled {
            let room = scene.rooms[context].bytes();
            let came = message.long.min(room.len());
            prop_assert!(room[..came] == content(message.number, message.long)[..came], "content of {}", context);
        }
        prop_assert_eq!(scene.engines[0].waiting(), (model.posted.len(), model.arrived.len()));
    }
}
