//! Millions of steps against a hostile peer: no panic, nothing written that should not be, friends undisturbed.

#[path = "common/mod.rs"]
mod common;
#[path = "common/hostile.rs"]
mod hostile;

use common::Random;
use hostile::Scene;

/// Ten million in release, a part of them where the compiler checks every sum.
const STEPS: u64 = if cfg!(debug_assertions) { 60_000 } else { 10_000_000 };

#[test]
fn a_hostile_peer_can_delay_or_garble_its_own_messages_and_nothing_else() {
    let mut random = Random(20_261_121);
    let mut scene = Scene::new();
    for step in 0..STEPS {
        scene.step(&mut || random.next());
        if step % 64 == 0 {
            scene.check_friends(step);
        }
    }
    println!(
        "{STEPS} steps: {} links, {} messages received, {} refusals",
        scene.links, scene.received, scene.refused
    );
    // Otherwise the hostile peer was kept out at the door, and nothing was tried.
    assert!(scene.links > STEPS / 200, "{} links", scene.links);
    assert!(scene.received > STEPS / 100, "{} messages", scene.received);
    assert!(scene.refused > STEPS / 100, "{} refusals", scene.refused);
}
