//! What multiplies: matrices that stay quantised and mapped, rotations, attention.

mod attention;
mod mapped;
mod matrix;
mod product;
#[cfg(target_arch = "x86_64")]
mod q4_1;
mod rope;

pub(crate) use attention::{Heads, attend};
pub(crate) use mapped::map_range;
pub(crate) use matrix::{Matrix, rows_of};
pub(crate) use rope::{Rope, Rotations};
