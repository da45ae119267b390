//! The menu-bar app.
fn main() {}
