//! Nodes that talk to each other over real sockets on this machine's loopback interface.

mod discovery;
mod ends;
mod pairing;
mod probe;
mod secure;
