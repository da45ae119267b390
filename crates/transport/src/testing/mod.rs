//! The contract of a link, as tests.
