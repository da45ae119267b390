//! Typed ids. Text appears only where an id is shown or read.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A node's identity: its ed25519 public key. Shown and read as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId([u8; 32]);

impl NodeId {
    pub const fn from_bytes(public_key: [u8; 32]) -> Self {
        Self(public_key)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first eight digits: enough to tell nodes of one home apart where people read them.
    pub fn short(&self) -> String {
        self.to_string()[..8].to_owned()
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; 64];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 0xf)];
        }
        f.write_str(std::str::from_utf8(&hex).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeId({})", self.short())
    }
}

impl FromStr for NodeId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || BadId { kind: "node id", expected: "64 hexadecimal digits", got: text.chars().take(80).collect() };
        if text.len() != 64 || !text.is_ascii() {
            return Err(bad());
        }
        let mut key = [0; 32];
        for (byte, pair) in key.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| bad())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| bad())?;
        }
        Ok(Self(key))
    }
}

/// One deployment. Random where it is made; shown and read as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeploymentId(pub u64);

impl fmt::Display for DeploymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for DeploymentId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad =
            || BadId { kind: "deployment id", expected: "16 hexadecimal digits", got: text.chars().take(80).collect() };
        if text.len() != 16 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad());
        }
        u64::from_str_radix(text, 16).map(Self).map_err(|_| bad())
    }
}

/// Text that is not an id of the kind asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a {kind} (expected {expected}): `{got}`")]
pub struct BadId {
    pub kind: &'static str,
    pub expected: &'static str,
    pub got: String,
}

/// Ids travel as their text, also as keys of maps.
macro_rules! serde_as_text {
    ($($id:ident)*) => { $(
        impl Serialize for $id {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $id {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )* };
}
serde_as_text! { NodeId DeploymentId }

/// The version of a deployment's plan. A higher one, by whichever owner, replaces a lower one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u32);

/// A node's place in one deployment; rank 0 is the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rank(pub u16);

impl Rank {
    pub const HEAD: Self = Self(0);

    pub fn idx(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One request running through a deployment, numbered by the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GenerationId(pub u64);

impl fmt::Display for GenerationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A model by the name people use: `org/name` on the hub, with `:file.gguf` after it where the repository
/// holds several files, or the stem of a local file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ModelId(String);

impl ModelId {
    /// Longer names are not names; the hub's own limit is 96 for each half.
    pub const LEN_MAX: usize = 256;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ModelId {
    type Err = BadId;

    /// Refuses what could be read as a path out of the store: `..`, an absolute path, a back slash, control characters.
    fn from_str(text: &str) -> Result<Self, BadId> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_./:+".contains(c);
        let safe = !text.is_empty()
            && text.len() <= Self::LEN_MAX
            && text.chars().all(allowed)
            && text.split(['/', ':']).all(|part| !part.is_empty() && part != "." && part != "..");
        if safe {
            Ok(Self(text.to_owned()))
        } else {
            let got = text.chars().filter(|c| !c.is_control()).take(80).collect();
            Err(BadId { kind: "model id", expected: "`org/name`, `org/name:file.gguf` or a file's stem", got })
        }
    }
}

impl<'de> Deserialize<'de> for ModelId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_their_text() {
        let node = NodeId::from_bytes([0xab; 32]);
        assert_eq!(node.to_string().parse(), Ok(node));
        assert_eq!(node.short(), "abababab");
        let deployment = DeploymentId(0x1f);
        assert_eq!(deployment.to_string(), "000000000000001f");
        assert_eq!(deployment.to_string().parse(), Ok(deployment));
    }

    #[test]
    fn bad_text_is_named() {
        assert!("xyz".parse::<NodeId>().is_err());
        assert!("é".repeat(32).parse::<NodeId>().is_err());
        assert!("+00000000000001f".parse::<DeploymentId>().is_err());
        let error = "nope".parse::<DeploymentId>().expect_err("four letters");
        assert_eq!(error.to_string(), "not a deployment id (expected 16 hexadecimal digits): `nope`");
    }

    #[test]
    fn a_model_id_is_never_a_way_out_of_the_store() {
        for good in ["HuggingFaceTB/SmolLM2-135M-Instruct", "a/b:c-Q4_K_M.gguf", "SmolLM2-135M-Instruct-Q4_1"] {
            assert_eq!(good.parse::<ModelId>().map(|id| id.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "..", "../x", "a/../b", "/etc/passwd", "a//b", "a\\b", "a\0b", "a b", &"x".repeat(257)] {
            assert!(bad.parse::<ModelId>().is_err(), "{bad:?}");
        }
    }
}
