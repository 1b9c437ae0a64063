//! The matrix in strips of columns, and the workers that factorise them.
//!
//! ```text
//!  step k:  strips   … k │ k+1 │ k+2 │ k+3 …     strip k is done; whoever is free takes the next one to its right,
//!                        └─►apply──►factorise    applies k to it, and factorises it if it is k+1
//!  muster, then step k+1
//! ```
//!
//! So nobody waits for the factorisation of a strip as long as there are others to bring up to date (a look-ahead of
//! one, as in HPL).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::factor::Factor;
use super::system::System;
use crate::arena::Arena;
use crate::bounds::Bounds;
use crate::error::WorkError;
use crate::workers::Muster;
use units::Bytes;

/// Narrower strips would spend their time on packing.
const NARROWEST: usize = 32;
/// Wider ones would leave no time to look at the deadline.
const WIDEST: usize = 512;
/// Strips each thread should find.
const STRIPS_PER_THREAD: usize = 4;

/// Columns next to each other.
#[derive(Debug)]
struct Strip {
    first: usize,
    columns: Arena,
    pivots: Vec<usize>,
}

impl Strip {
    fn new(first: usize, width: usize, factor: Factor) -> Result<Self, WorkError> {
        let bytes = (width * factor.shape.stride).saturating_mul(size_of::<f64>());
        let columns = Arena::new(Bytes::from_bytes(bytes as u64))?;
        Ok(Self { first, columns, pivots: vec![0; width] })
    }

    fn fill(&mut self, factor: Factor, system: System) {
        for (number, column) in
            (self.first..).zip(self.columns.floats_mut().chunks_exact_mut(factor.shape.stride))
        {
            system.column(number, column);
        }
    }

    fn factorise(&mut self, factor: Factor) {
        factor.factorise(self.columns.floats_mut(), self.first, &mut self.pivots);
    }
}

/// The matrix.
#[derive(Debug)]
pub struct Strips {
    factor: Factor,
    all: Vec<RwLock<Strip>>,
    /// Per step, the next strip that nobody has taken.
    next: Vec<AtomicUsize>,
}

impl Strips {
    /// Maps and touches the memory for a matrix that so many threads will factorise.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(factor: Factor, threads: u32) -> Result<Self, WorkError> {
        let n = factor.shape.rows;
        let share = n.div_ceil(STRIPS_PER_THREAD * threads as usize).next_multiple_of(8);
        let width = share.clamp(NARROWEST, WIDEST);
        let all = (0..n)
            .step_by(width)
            .map(|first| Strip::new(first, width.min(n - first), factor).map(RwLock::new))
            .collect::<Result<Vec<_>, WorkError>>()?;
        let next = all.iter().map(|_| AtomicUsize::new(0)).collect();
        Ok(Self { factor, all, next })
    }

    /// Bytes of the matrix.
    pub fn size(&self) -> Bytes {
        Bytes::from_bytes(self.all.iter().map(|strip| read(strip).columns.size().get()).sum())
    }

    /// Writes the part of the matrix that falls to this thread.
    pub fn fill(&self, system: System, number: u32, threads: u32) {
        for (index, strip) in self.all.iter().enumerate() {
            if index % threads as usize == number as usize {
                write(strip).fill(self.factor, system);
            }
            if let Some(next) = self.next.get(index).filter(|_| number == 0) {
                next.store(index + 1, Ordering::Relaxed);
            }
        }
    }

    /// Factorises the strips of this thread each for itself: what is used for the first time is fetched, and the code that
    /// packs has its memory.
    pub fn warm_up(&self, number: u32, threads: u32) {
        for strip in self.all.iter().skip(number as usize).step_by(threads as usize) {
            write(strip).factorise(self.factor);
        }
    }

    /// Factorises the matrix, together with the other threads of the workers.
    ///
    /// # Errors
    /// The job is to end, or another thread gave up.
    pub fn factorise(&self, number: u32, muster: &Muster<'_>, bounds: Bounds<'_>) -> Result<(), WorkError> {
        if let Some(first) = self.all.first().filter(|_| number == 0) {
            write(first).factorise(self.factor);
        }
        for (step, (left, next)) in self.all.iter().zip(&self.next).enumerate() {
            muster.wait()?;
            let left = read(left);
            loop {
                let taken = next.fetch_add(1, Ordering::Relaxed);
                let Some(right) = self.all.get(taken) else { break };
                let mut right = write(right);
                self.factor.apply(
                    left.columns.floats(),
                    left.first,
                    &left.pivots,
                    right.columns.floats_mut(),
                );
                if taken == step + 1 {
                    right.factorise(self.factor);
                }
                bounds.check()?;
            }
        }
        Ok(())
    }

    /// Turns b into x, once the matrix is factorised. Alone: it is a hundredth of the work and waits for memory.
    pub fn solve(&self, side: &mut [f64]) {
        let (stride, rows) = (self.factor.shape.stride, self.factor.shape.rows);
        for strip in self.all.iter().map(read) {
            // A strip's swaps come first: within it they were carried to all its columns.
            for (row, pivot) in (strip.first..).zip(&strip.pivots) {
                side.swap(row, *pivot);
            }
            for (row, column) in (strip.first..).zip(strip.columns.floats().chunks_exact(stride)) {
                let (above, below) = side.split_at_mut(row + 1);
                if let (Some(value), Some(lower)) = (above.last(), column.get(row + 1..rows)) {
                    self.factor.lanes.subtract(below, *value, lower);
                }
            }
        }
        for strip in self.all.iter().rev().map(read) {
            let columns = strip.columns.floats().chunks_exact(stride).enumerate();
            for (index, column) in columns.rev() {
                let row = strip.first + index;
                let (above, below) = side.split_at_mut(row);
                if let (Some(value), Some(diagonal), Some(upper)) =
                    (below.first_mut(), column.get(row), column.get(..row))
                {
                    *value /= diagonal;
                    self.factor.lanes.subtract(above, *value, upper);
                }
            }
        }
    }
}

fn read(strip: &RwLock<Strip>) -> RwLockReadGuard<'_, Strip> {
    strip.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(strip: &RwLock<Strip>) -> RwLockWriteGuard<'_, Strip> {
    strip.write().unwrap_or_else(PoisonError::into_inner)
}
