//! Whose name a frame that left a switch stands in, by a parser of its own: it shares nothing with the switch's.

/// The hardware address of the plug that is held to one.
pub const HARDWARE: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// What goes with it: its last four bytes, and `fe80::ff:fe00:1` (RFC 4291, appendix A).
const IPV4: [u8; 4] = [0, 0, 0, 1];
const IPV6: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1];

/// The frames of a stream, each with its length before it.
pub fn frames(mut stream: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while !stream.is_empty() {
        let length = u32::from_be_bytes(stream[..4].try_into().expect("four bytes")) as usize;
        frames.push(&stream[4..4 + length]);
        stream = &stream[4 + length..];
    }
    frames
}

/// Panics when a frame stands in the name of anybody but the plug that is held to [`HARDWARE`].
pub fn assert_own(frame: &[u8]) {
    assert_eq!(frame[6..12], HARDWARE, "the hardware's source: {frame:02x?}");
    // Nobody's address is for those who ask everybody for one.
    let to_all = frame[0] & 1 == 1;
    let mut at = 12;
    while [[0x81, 0x00], [0x88, 0xa8], [0x91, 0x00]].iter().any(|tag| frame[at..].starts_with(tag)) {
        at += 4;
    }
    let (kind, packet) = frame[at..].split_at(2);
    match kind {
        [0x08, 0x00] => {
            let source = &packet[12..16];
            assert!(source == IPV4 || (to_all && source == [0; 4]), "IPv4's source: {frame:02x?}");
        }
        [0x08, 0x06] | [0x80, 0x35] => {
            assert_eq!(packet[8..14], HARDWARE, "the hardware address of ARP's sender: {frame:02x?}");
            let sender = &packet[14..18];
            assert!(sender == IPV4 || sender == [0; 4], "ARP's sender: {frame:02x?}");
        }
        [0x86, 0xdd] => {
            let source = &packet[8..24];
            assert!(source == IPV6 || (to_all && source == [0; 16]), "IPv6's source: {frame:02x?}");
            // A neighbour's word about an address, right behind the header.
            if packet[6] == 58 && packet[40] == 136 {
                assert_eq!(packet[48..64], IPV6, "whose address a neighbour says is its own: {frame:02x?}");
            }
        }
        [high, _] => assert!(*high >= 6, "a length, behind which some systems find IP: {frame:02x?}"),
        _ => unreachable!("two bytes"),
    }
}
