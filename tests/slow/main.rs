//! Slow scenarios.
