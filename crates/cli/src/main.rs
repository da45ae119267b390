//! The headless binary `macrame`.
fn main() {}
