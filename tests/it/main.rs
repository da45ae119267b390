//! Quick scenarios.

mod tidy;
