//! A number that may be missing, in four bytes: an `Option<u32>` takes eight, and a big host has many of them.

/// A number below `u32::MAX`, or none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Packed(u32);

impl Packed {
    /// No number.
    pub const NONE: Self = Self(u32::MAX);

    /// This number; `u32::MAX`, which nothing that is counted here reaches, is none.
    pub const fn some(number: u32) -> Self {
        Self(number)
    }

    /// The number, if there is one.
    pub fn get(self) -> Option<u32> {
        (self != Self::NONE).then_some(self.0)
    }

    /// Takes the number out.
    pub fn take(&mut self) -> Option<u32> {
        std::mem::take(self).get()
    }
}

impl Default for Packed {
    fn default() -> Self {
        Self::NONE
    }
}

impl From<Option<u32>> for Packed {
    fn from(number: Option<u32>) -> Self {
        number.map_or(Self::NONE, Self::some)
    }
}

impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_out_as_it_went_in_and_takes_four_bytes() {
        for number in [None, Some(0), Some(7), Some(u32::MAX - 1)] {
            let mut packed = Packed::from(number);
            assert_eq!((packed.get(), format!("{packed:?}")), (number, format!("{number:?}")));
            assert_eq!((packed.take(), packed), (number, Packed::NONE));
        }
        assert_eq!(size_of::<Packed>(), 4);
    }
}
