//! A recorded trace of noise, whoever wrote it: read or refused, never a panic; what is read ascends and leaves free time.
#![no_main]

use bulkhead::sim::nodes::NoiseTrace;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(trace) = NoiseTrace::parse(text) {
        assert!(trace.interruptions().windows(2).all(|pair| pair[0].end() < pair[1].start));
        assert!(trace.lost() < trace.length());
    }
});
