//! A histogram in a file or message: three numbers for each filled bucket, in one list, so that thousands of them stay small.
//!
//! ```text
//!  filled      bucket 40 (40)       bucket 41 (41)      bucket 278 (300 and 301)
//!              2 values, sum 80     1 value, sum 41     2 values, sum 601
//!  written     40, 2, 0,            1, 1, 0,            237, 2, 1
//!              │   │  └─ their sum, less the count times the lower edge
//!              │   └─ count
//!              └─ index; after the first the step from the one before
//! ```
//! Most values are short and have a bucket each, so most third numbers are 0. Until 2026-11-29 each bucket was a list of its own,
//! `[index, count, sum]`; that is read as well.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{BUCKETS, Bucket, lower_edge};

/// What [`super::Histogram`] says of it.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Written(#[cfg_attr(feature = "schema", schemars(with = "Vec<u64>"))] pub Vec<Bucket>);

/// The least that the sum of so many values in a bucket can be. Whoever forged a histogram may have made it wrap: what is written is
/// read again all the same, and judged then.
fn least_sum(index: u16, count: u64) -> u64 {
    let index = usize::from(index);
    if index < BUCKETS { lower_edge(index).wrapping_mul(count) } else { 0 }
}

impl Serialize for Written {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let before = std::iter::once(0).chain(self.0.iter().map(|bucket| bucket.index));
        serializer.collect_seq(self.0.iter().zip(before).flat_map(|(bucket, before)| {
            let above = bucket.sum.wrapping_sub(least_sum(bucket.index, bucket.count));
            [bucket.index.wrapping_sub(before).into(), bucket.count, above]
        }))
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Buckets).map(Self)
    }
}

struct Buckets;

impl<'de> Visitor<'de> for Buckets {
    type Value = Vec<Bucket>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a histogram: three numbers for each filled bucket")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Bucket>, A::Error> {
        let mut buckets: Vec<Bucket> = Vec::new();
        while let Some(next) = list.next_element()? {
            let before = buckets.last().map_or(0, |bucket| bucket.index);
            buckets.push(match next {
                Part::Bucket((index, count, sum)) => Bucket { index, count, sum },
                Part::Number(step) => {
                    let (Some(count), Some(above)) = (list.next_element()?, list.next_element()?) else {
                        return Err(A::Error::custom(
                            "a histogram ends within a bucket: three numbers are wanted for each",
                        ));
                    };
                    let step = u16::try_from(step).map_err(A::Error::custom)?;
                    let index = before.wrapping_add(step);
                    Bucket { index, count, sum: least_sum(index, count).wrapping_add(above) }
                }
            });
        }
        Ok(buckets)
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Part {
    Number(u64),
    Bucket((u16, u64, u64)),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::histogram::Histogram;

    #[test]
    fn three_numbers_a_bucket_and_what_was_written_before() {
        let histogram = Histogram::from_values([40, 40, 41, 300, 301]);
        let written = serde_json::to_string(&histogram).unwrap();
        assert_eq!(written, "[40,2,0,1,1,0,237,2,1]");
        assert_eq!(serde_json::from_str::<Histogram>(&written).unwrap(), histogram);
        assert_eq!(
            serde_json::from_str::<Histogram>("[[40,2,80],[41,1,41],[278,2,601]]").unwrap(),
            histogram
        );
        assert_eq!(serde_json::from_str::<Histogram>("[]").unwrap(), Histogram::default());
    }

    #[test]
    fn what_is_no_histogram_is_refused() {
        for text in [
            "[1]",
            "[1,2]",
            "[1,2,3,4]",
            "[70000,1,1]",
            "[-1,1,1]",
            "[1.5,1,1]",
            "[1,[2,3,4]]",
            "[[1,2]]",
            "{}",
        ] {
            assert!(serde_json::from_str::<Histogram>(text).is_err(), "{text}");
        }
    }

    proptest! {
        /// Forged ones too: whether they are well-formed is judged of what was sent.
        #[test]
        fn whatever_is_written_is_read_again(buckets in prop::collection::vec(any::<(u16, u64, u64)>(), 0..20)) {
            let buckets = buckets.into_iter().map(|(index, count, sum)| Bucket { index, count, sum });
            let wanted: Vec<Bucket> = buckets.collect();
            let text = serde_json::to_string(&Written(wanted.clone())).unwrap();
            let Written(read) = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read, wanted);
        }
    }
}
