//! Nodes that talk to each other over real sockets on this machine's loopback interface.

#![allow(clippy::wildcard_enum_match_arm, reason = "a test waits for one event and drops all others, also new ones")]

mod discovery;
mod ends;
mod pairing;
mod probe;
mod secure;
