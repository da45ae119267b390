//! Quick scenarios.
