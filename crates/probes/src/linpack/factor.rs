//! LU factorisation with partial pivoting of a few columns next to each other, and what it means for other columns.
//!
//! ```text
//!        columns            The left half is factorised, then applied to the right one (rows swapped, U solved, product
//!   ┌──────┬──────┐         subtracted), whose lower part is factorised in turn. So nearly all work is products.
//!   │\  U  │  U   │ top
//!   │ L \  │      │         Source: Toledo, Locality of reference in LU decomposition with partial pivoting (1997);
//!   │  L   │ A'   │         Gustavson (1997). Swaps are not carried to columns on the left: a solution applies swaps
//!   └──────┴──────┘         and columns in turn, as LINPACK's dgesl did.
//! ```

use super::product::{Lanes, ProductShape, subtract_product};

/// Columns that are factorised one by one.
const FEW: usize = 8;

/// What stays the same throughout a factorisation.
#[derive(Debug, Clone, Copy)]
pub struct Factor {
    /// How columns lie in memory.
    pub shape: ProductShape,
    /// Instructions for single columns.
    pub lanes: Lanes,
}

impl Factor {
    /// Factorises columns whose diagonal begins in row `top`. `pivots` gets, per column, the row that was swapped with the
    /// diagonal's. A column of zeros leaves numbers that are not finite, which no residual survives.
    pub fn factorise(&self, columns: &mut [f64], top: usize, pivots: &mut [usize]) {
        let width = pivots.len();
        if width <= FEW {
            return self.one_by_one(columns, top, pivots);
        }
        let half = halved(width);
        let (left, right) = columns.split_at_mut(half * self.shape.stride);
        let (first, second) = pivots.split_at_mut(half);
        self.factorise(left, top, first);
        self.apply(left, top, first, right);
        self.factorise(right, top + half, second);
        self.swap_rows(left, top + half, second);
    }

    /// Does to the columns on the right what the factorisation of those on the left did to them: afterwards their rows
    /// from `top` on hold U, and below what is left to factorise.
    pub fn apply(&self, left: &[f64], top: usize, pivots: &[usize], right: &mut [f64]) {
        self.swap_rows(right, top, pivots);
        self.solve_lower(left, top, pivots.len(), right);
        subtract_product(self.shape, left, right, top, top + pivots.len()..self.shape.rows);
    }

    /// Swaps the rows that were chosen.
    pub fn swap_rows(&self, columns: &mut [f64], top: usize, pivots: &[usize]) {
        for column in columns.chunks_exact_mut(self.shape.stride) {
            for (row, pivot) in (top..).zip(pivots) {
                if row != *pivot && row < column.len() && *pivot < column.len() {
                    column.swap(row, *pivot);
                }
            }
        }
    }

    /// Solves L·X = right in rows `top..top + width`, where L is the unit lower triangle of `left`.
    fn solve_lower(&self, left: &[f64], top: usize, width: usize, right: &mut [f64]) {
        if width > FEW {
            let half = halved(width);
            let (first, second) = left.split_at(half * self.shape.stride);
            self.solve_lower(first, top, half, right);
            subtract_product(self.shape, first, right, top, top + half..top + width);
            return self.solve_lower(second, top + half, width - half, right);
        }
        let end = top + width;
        for column in right.chunks_exact_mut(self.shape.stride) {
            for (row, lower) in (top..end).zip(left.chunks_exact(self.shape.stride)) {
                let (above, below) = column.split_at_mut(row + 1);
                let (Some(value), Some(lower)) = (above.last(), lower.get(row + 1..end)) else { continue };
                for (target, factor) in below.iter_mut().zip(lower) {
                    *target -= value * factor;
                }
            }
        }
    }

    fn one_by_one(&self, columns: &mut [f64], top: usize, pivots: &mut [usize]) {
        for (index, chosen) in pivots.iter_mut().enumerate() {
            let row = top + index;
            let at = index * self.shape.stride;
            *chosen = columns.get(at..at + self.shape.rows).map_or(row, |column| largest(column, row));
            for column in columns.chunks_exact_mut(self.shape.stride) {
                column.swap(row, *chosen);
            }
            let (done, rest) = columns.split_at_mut(at + self.shape.stride);
            let Some((diagonal, lower)) =
                done.get_mut(at + row..at + self.shape.rows).and_then(<[f64]>::split_first_mut)
            else {
                continue;
            };
            let inverse = 1.0 / *diagonal;
            for value in &mut *lower {
                *value *= inverse;
            }
            for column in rest.chunks_exact_mut(self.shape.stride) {
                if let Some((factor, below)) =
                    column.get_mut(row..self.shape.rows).and_then(<[f64]>::split_first_mut)
                {
                    self.lanes.subtract(below, *factor, lower);
                }
            }
        }
    }
}

/// Half of some columns, in whole cache lines where there are that many.
const fn halved(width: usize) -> usize {
    let half = width / 2;
    if half > 8 { half - half % 8 } else { half }
}

/// The row from `row` on that holds the largest magnitude.
fn largest(column: &[f64], row: usize) -> usize {
    let Some(values) = column.get(row..) else { return row };
    // Two quick passes instead of one that carries an index along.
    let mut lanes = [0.0_f64; 8];
    let (rows, rest) = values.as_chunks::<8>();
    for values in rows {
        for (most, value) in lanes.iter_mut().zip(values) {
            let size = value.abs();
            *most = if size > *most { size } else { *most };
        }
    }
    let most = lanes.iter().copied().chain(rest.iter().map(|value| value.abs())).fold(0.0, f64::max);
    values.iter().position(|value| value.abs() >= most).map_or(row, |at| row + at)
}
