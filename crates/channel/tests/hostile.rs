//! Millions of steps against a hostile peer: no panic, nothing written that should not be, friends undisturbed.

#[path = "common/mod.rs"]
mod common;
#[path = "common/hostile.rs"]
mod hostile;

use std::thread;

use common::Random;
use hostile::Scene;

/// Ten million in release, a part of them where the compiler checks every sum.
const STEPS: u64 = if cfg!(debug_assertions) { 60_000 } else { 10_000_000 };

/// Two scenes at once, with numbers of their own.
const SCENES: u64 = 2;

#[test]
fn a_hostile_peer_can_delay_or_garble_its_own_messages_and_nothing_else() {
    let steps = STEPS / SCENES;
    let playing: Vec<_> = (0..SCENES).map(|seed| thread::spawn(move || play(seed, steps))).collect();
    for scene in playing {
        let Scene { links, received, refused, .. } = scene.join().expect("no panic");
        println!("{steps} steps: {links} links, {received} messages received, {refused} refusals");
        // Otherwise the hostile peer was kept out at the door, and nothing was tried.
        assert!(links > steps / 200, "{links} links");
        assert!(received > steps / 100, "{received} messages");
        assert!(refused > steps / 100, "{refused} refusals");
    }
}

fn play(seed: u64, steps: u64) -> Scene {
    let mut random = Random(20_261_121 + seed);
    let mut scene = Scene::new();
    for step in 0..steps {
        scene.step(&mut || random.next());
        if step % 64 == 0 {
            scene.check_friends(step);
        }
    }
    scene
}
