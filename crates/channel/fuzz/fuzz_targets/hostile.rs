//! A hostile peer of a channel, which writes what the fuzzer chooses between any two steps of ours; the scene and its
//! rules are those of the crate's own test.

#![no_main]

#[path = "../../tests/common/hostile.rs"]
mod hostile;

use hostile::Scene;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut scene = Scene::new();
    let mut words = data.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
    let mut step = 0;
    while words.len() > 0 {
        scene.step(&mut || words.next().unwrap_or(0));
        step += 1;
    }
    scene.check_friends(step);
});
