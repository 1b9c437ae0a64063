//! Creates, places, checks, lets go.

use super::{Event, Failed, Orders, Outcome, Streams, Surroundings};
use crate::model::partition::PartitionSpec;

/// Runs a partition until its program ends or it breaks; nothing of it is left when this returns.
pub fn run(
    _spec: &PartitionSpec,
    _streams: Streams,
    _surroundings: &Surroundings,
    _orders: Orders,
    _tell: &mut dyn FnMut(Event),
) -> Outcome {
    Outcome::Failed(Failed::own("not built yet"))
}

/// See [`super::check`].
pub fn check(_spec: &PartitionSpec) -> Result<(), Failed> {
    Ok(())
}
