//! Bytes from a guest: frames, messages, reports. Refused or understood, in bounded memory, never a panic.
#![no_main]

use bulkhead::model::wire::{ToAgent, ToHost};
use bulkhead::platforms::link::{Decoder, TO_HOST_LIMIT, check_message, decode};
use bulkhead::probes::metrics_of;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut decoder = Decoder::new(TO_HOST_LIMIT);
    for chunk in bytes.chunks(61) {
        decoder.push(chunk);
        while let Ok(Some(payload)) = decoder.next_frame() {
            understand(&payload);
        }
    }
    // The checksum keeps a fuzzer out of what lies behind it, so that is tried directly as well.
    understand(bytes);
    let _ = decode::<ToAgent>(bytes);
});

fn understand(payload: &[u8]) {
    let Ok(message) = decode::<ToHost>(payload) else { return };
    if check_message(&message).is_err() {
        return;
    }
    if let ToHost::Done { reply, .. } = message
        && let Some(Ok(report)) = reply.report
    {
        metrics_of(&report.detail, &report.clock);
    }
}
