//! What a node has measured about its own machine.

use serde::{Deserialize, Serialize};

use crate::{Bytes, Fact, LinkFacts};

/// A machine's facts. Only the node that runs on it writes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// What people call it: the computer's name unless they chose another.
    pub name: String,
    /// Version of Macramé.
    pub version: String,
    pub os: Fact<OperatingSystem>,
    pub chip: Fact<Chip>,
    pub memory: Fact<Memory>,
    pub disk_free: Fact<Bytes>,
    pub rdma: Fact<RdmaFacts>,
    /// One entry for each node it has measured a path to, ordered by node.
    pub links: Vec<LinkFacts>,
}

impl NodeFacts {
    /// A machine of which only the name is known.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: String::new(),
            os: Fact::Unknown,
            chip: Fact::Unknown,
            memory: Fact::Unknown,
            disk_free: Fact::Unknown,
            rdma: Fact::Unknown,
            links: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatingSystem {
    /// `macOS`, `Debian GNU/Linux`, …
    pub name: String,
    pub version: String,
    /// `25C56` on macOS, the kernel's release on Linux.
    pub build: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chip {
    /// `Apple M3 Ultra`, `AMD EPYC`, …
    pub name: String,
    pub n_cores: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    pub total: Bytes,
    /// Held by other programs at the time.
    pub used_by_others: Bytes,
    /// What Macramé may hold in all, its deployments of now included: the wired limit on a Mac, and nowhere more
    /// than is free or already ours.
    pub usable: Bytes,
}

/// What is known of RDMA on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RdmaFacts {
    /// The verbs library is not on this machine.
    NoLibrary,
    /// The library's devices, by name; none if no adapter or cable offers one.
    Devices(Vec<String>),
}
