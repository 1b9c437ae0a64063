//! The innermost work: `C −= A·B` and the elimination of single columns, for columns that lie one after the other.
//!
//! Nearly all operations of a factorisation are such products; they go to `matrixmultiply`, which packs its operands and
//! has code for AVX-512, AVX2 with FMA and NEON, chosen when the program runs.

#![expect(
    unsafe_code,
    reason = "the product takes pointers, and code for newer instructions may only run where they exist"
)]

use std::ops::Range;

/// Columns one after the other, each of `rows` numbers.
#[derive(Debug, Clone, Copy)]
pub struct ProductShape {
    /// From one column to the next: the rows of the matrix and what pads them.
    pub stride: usize,
    /// Rows of the matrix.
    pub rows: usize,
}

impl ProductShape {
    /// A shape whose columns do not all begin in the same set of the caches.
    pub fn of_order(n: usize) -> Self {
        let lines = n.div_ceil(8);
        let stride = if lines.is_multiple_of(8) { lines * 8 + 8 } else { lines * 8 };
        Self { stride, rows: n }
    }
}

/// `right[below] −= left[below] · right[top..top + columns of left]`, for all columns of both.
///
/// Does nothing when there is nothing to do; rows beyond the matrix are cut off.
pub fn subtract_product(
    shape: ProductShape,
    left: &[f64],
    right: &mut [f64],
    top: usize,
    below: Range<usize>,
) {
    let (inner, columns) = (left.len() / shape.stride, right.len() / shape.stride);
    let below = below.start..below.end.min(shape.rows);
    if inner == 0 || columns == 0 || below.is_empty() || top + inner > below.start {
        return;
    }
    let column = isize::try_from(shape.stride).unwrap_or(isize::MAX);
    let (a, b) = (left.as_ptr(), right.as_mut_ptr());
    // SAFETY: `left` holds `inner` and `right` `columns` whole columns of `stride` numbers, and `top + inner <= below.start
    // < below.end <= rows <= stride`: all three blocks lie inside them. The block of `right` that is read ends above the
    // one that is written, so they do not overlap; the pointers into `right` come from one mutable borrow.
    unsafe {
        matrixmultiply::dgemm(
            below.len(),
            inner,
            columns,
            -1.0,
            a.wrapping_add(below.start),
            1,
            column,
            b.wrapping_add(top).cast_const(),
            1,
            column,
            1.0,
            b.wrapping_add(below.start),
            1,
            column,
        );
    }
}

/// Code for short vectors, compiled for the instructions this CPU has.
#[derive(Debug, Clone, Copy)]
pub struct Lanes(Instructions);

#[derive(Debug, Clone, Copy)]
enum Instructions {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Fma,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Lanes {
    /// The widest this CPU has.
    pub fn widest() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                return Self(Instructions::Avx512);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return Self(Instructions::Fma);
            }
        }
        Self(Instructions::Baseline)
    }

    /// Its name, for the notes of a report.
    pub const fn name(self) -> &'static str {
        match self.0 {
            Instructions::Baseline => "baseline",
            #[cfg(target_arch = "x86_64")]
            Instructions::Fma => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => "AVX-512",
        }
    }

    /// `target −= factor · source`.
    pub fn subtract(self, target: &mut [f64], factor: f64, source: &[f64]) {
        match self.0 {
            Instructions::Baseline => subtract(target, factor, source),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: chosen only where the CPU has AVX2 and FMA.
            Instructions::Fma => unsafe { subtract_fma(target, factor, source) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: chosen only where the CPU has AVX-512F.
            Instructions::Avx512 => unsafe { subtract_avx512(target, factor, source) },
        }
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "must be compiled anew inside each of its callers")]
fn subtract(target: &mut [f64], factor: f64, source: &[f64]) {
    for (target, source) in target.iter_mut().zip(source) {
        *target -= factor * source;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn subtract_fma(target: &mut [f64], factor: f64, source: &[f64]) {
    for (target, source) in target.iter_mut().zip(source) {
        *target = (-factor).mul_add(*source, *target);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn subtract_avx512(target: &mut [f64], factor: f64, source: &[f64]) {
    for (target, source) in target.iter_mut().zip(source) {
        *target = (-factor).mul_add(*source, *target);
    }
}
