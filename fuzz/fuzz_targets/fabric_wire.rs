//! Headers of a peer of MPI: understood or refused, never a panic; what is understood is written the same.
#![no_main]

use bulkhead_fi::wire::{HEADER, Message};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((header, payload)) = bytes.split_first_chunk::<HEADER>() else { return };
    let message = Message::decode(header, payload.len());
    if let Ok(message) = &message {
        assert_eq!(Message::decode(&message.encode(), payload.len()).as_ref(), Ok(message));
    }
    // The short way says what the long one does.
    if let Some((tag, data)) = Message::eager(header, payload.len()) {
        assert_eq!(message, Ok(Message::Eager { tag, data }));
    }
});
