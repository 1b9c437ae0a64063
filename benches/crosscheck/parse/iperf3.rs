//! `iperf3 -c … --json`: what the receiver got.

use serde_json::Value;

/// Bytes per second that arrived.
pub fn parse(text: &str) -> Result<f64, String> {
    let root: Value = serde_json::from_str(text).map_err(|error| format!("iperf3's JSON: {error}"))?;
    if let Some(error) = root.get("error").and_then(Value::as_str) {
        return Err(format!("iperf3: {error}"));
    }
    let bits = root.pointer("/end/sum_received/bits_per_second").and_then(Value::as_f64);
    bits.map(|bits| bits / 8.0).ok_or_else(|| "iperf3's JSON has no sum_received".to_owned())
}
