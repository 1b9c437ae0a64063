//! Who takes part: what the host said of the members, checked once.

use crate::error::WorkError;
use crate::job::{Part, Peer};

/// The members of a layout, as one of them sees them; refuses a part that contradicts itself or has no network.
///
/// # Errors
/// The job has no part, or one that cannot be played.
pub fn members<'a>(part: Option<&'a Part>, probe: &str) -> Result<(&'a Part, &'a [Peer]), WorkError> {
    let part = part.ok_or_else(|| {
        WorkError::Unfit(format!(
            "the {probe} probe is made by several instances together; measure it in a layout such as 1x2 or 2x1"
        ))
    })?;
    if part.rank >= part.ranks {
        return Err(WorkError::Unfit(format!(
            "this instance is number {} of {}: the job contradicts itself",
            part.rank, part.ranks
        )));
    }
    if part.ranks > 1 && part.peers.len() != part.ranks as usize {
        return Err(WorkError::Unfit(format!(
            "the {probe} probe needs a network between its instances: {} of {} have an address",
            part.peers.len(),
            part.ranks
        )));
    }
    Ok((part, &part.peers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_cannot_be_played_are_refused_in_words() {
        let part = |rank, ranks, peers| Part {
            rank,
            ranks,
            peers: vec![Peer { host: 0, address: "127.0.0.1:1".parse().unwrap() }; peers],
        };
        let refusal = |part: &Part| members(Some(part), "net").unwrap_err().to_string();
        assert!(members(None, "net").unwrap_err().to_string().contains("layout such as 1x2"));
        assert!(refusal(&part(2, 2, 2)).contains("contradicts itself"));
        assert!(refusal(&part(0, 2, 0)).contains("0 of 2 have an address"));
        assert!(members(Some(&part(0, 1, 0)), "mpi").is_ok());
        assert!(members(Some(&part(1, 2, 2)), "net").is_ok());
    }
}
