//! Who calls whom over a new link, and the reasons to turn a caller away.

use std::fmt;

use domain::{DeploymentId, Epoch, Rank};

/// The first frame each way: the connecting rank says what it is and whom it wants, the listening one
/// repeats it as its consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    pub deployment: DeploymentId,
    pub epoch: Epoch,
    pub from: Rank,
    pub to: Rank,
}

impl Hello {
    /// Its length on the wire: id (8), epoch (4), from (2), to (2), all little endian.
    pub(crate) const BYTES: usize = 16;

    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..8].copy_from_slice(&self.deployment.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.epoch.0.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.from.0.to_le_bytes());
        bytes[14..16].copy_from_slice(&self.to.0.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let (id, rest) = bytes.split_first_chunk::<8>()?;
        let (epoch, rest) = rest.split_first_chunk::<4>()?;
        let (from, rest) = rest.split_first_chunk::<2>()?;
        let (to, _) = rest.split_first_chunk::<2>()?;
        Some(Self {
            deployment: DeploymentId(u64::from_le_bytes(*id)),
            epoch: Epoch(u32::from_le_bytes(*epoch)),
            from: Rank(u16::from_le_bytes(*from)),
            to: Rank(u16::from_le_bytes(*to)),
        })
    }
}

/// Why a listening rank turned a caller away. It tells only nodes whose key it trusts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It does not trust the caller's key. (TLS says this one; there is no frame for it.)
    Key,
    /// It serves another deployment.
    Deployment,
    /// It serves another epoch of the deployment.
    Epoch,
    /// The caller is not the rank it claims to be, or called the wrong rank.
    Rank,
    /// The first frame was not a hello, or one of another version.
    Protocol,
}

impl Refusal {
    pub(crate) const fn encode(self) -> u8 {
        match self {
            Self::Key => 0,
            Self::Deployment => 1,
            Self::Epoch => 2,
            Self::Rank => 3,
            Self::Protocol => 4,
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0] => Some(Self::Key),
            [1] => Some(Self::Deployment),
            [2] => Some(Self::Epoch),
            [3] => Some(Self::Rank),
            [4] => Some(Self::Protocol),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "it does not trust this node's key",
            Self::Deployment => "it serves another deployment",
            Self::Epoch => "it serves another epoch of this deployment",
            Self::Rank => "it does not expect this rank",
            Self::Protocol => "it did not understand the greeting",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_survive_the_wire() {
        let hello = Hello { deployment: DeploymentId(u64::MAX - 1), epoch: Epoch(7), from: Rank(0), to: Rank(513) };
        assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        assert_eq!(Hello::decode(&hello.encode()[1..]), None);
        for why in [Refusal::Key, Refusal::Deployment, Refusal::Epoch, Refusal::Rank, Refusal::Protocol] {
            assert_eq!(Refusal::decode(&[why.encode()]), Some(why));
        }
        assert_eq!(Refusal::decode(&[99]), None);
    }
}
