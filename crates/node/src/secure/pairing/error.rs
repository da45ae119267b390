//! Why two nodes could not be paired.

use std::net::SocketAddr;
use std::time::Duration;

use domain::{Hint, Hints, NodeId};
use quinn::{Connection, ConnectionError};

use super::desk::Refusal;
use crate::home::HomeError;
use crate::secure::close::{CloseCode, describe};
use crate::secure::frame::FrameError;

#[derive(Debug, thiserror::Error)]
pub enum PairError {
    #[error("a pairing code is six digits")]
    BadCode,
    #[error("wrong code; {tries_left} of its tries are left")]
    WrongCode { tries_left: u8 },
    #[error("too many wrong codes: nothing can be paired there for {} s", remaining.as_secs().max(1))]
    Locked { remaining: Duration },
    #[error("the other machine shows no pairing code")]
    NotShowing,
    #[error("the other machine is in the middle of other pairings")]
    Busy,
    #[error("the other machine could not be reached ({})", list(tried))]
    Unreachable { tried: Vec<(SocketAddr, String)> },
    #[error("the other machine speaks another version of the pairing protocol: {why}")]
    Version { why: String },
    #[error("`{addr}` is node `{}`, not `{}`", found.short(), expected.short())]
    OtherNode { addr: SocketAddr, expected: NodeId, found: NodeId },
    #[error("`{addr}` is this machine itself")]
    Itself { addr: SocketAddr },
    #[error("the other machine could not prove that it shows the code; another one may be answering in its place")]
    NotProven,
    #[error("the pairing broke off: {why}")]
    BrokenOff { why: String },
    #[error("the other machine did not answer within {} s", within.as_secs())]
    TooSlow { within: Duration },
    #[error("the paired node could not be stored")]
    NotStored(#[source] HomeError),
}

impl Hint for PairError {
    fn hints(&self) -> Hints {
        let hint = match self {
            Self::BadCode => "type the digits that the other machine shows, `123 456` say",
            Self::WrongCode { .. } => "look at the code again; it changes each time it is shown",
            Self::Locked { .. } => "wait, then type the new code that the other machine shows",
            Self::NotShowing => "open “Pair a machine” on it, or run `macrame pair` there, and type its code here",
            Self::Busy => "try again in a few seconds",
            Self::Unreachable { .. } => {
                "see that both machines are on one network and Macramé runs there; on a Mac, that it is switched on \
                 under System Settings › Privacy & Security › Local Network, on both"
            }
            Self::Version { .. } => "update Macramé on the machine with the older version",
            Self::OtherNode { .. } => "choose the machine again from the list, or check the address",
            Self::Itself { .. } => "type the address of the other machine",
            Self::NotProven => "show a new code and try again; do not go on if it happens twice",
            Self::BrokenOff { .. } | Self::TooSlow { .. } => "show a new code and try again",
            Self::NotStored(error) => return error.hints(),
        };
        vec![hint.to_owned()]
    }
}

impl From<Refusal> for PairError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotShowing => Self::NotShowing,
            Refusal::Locked { remaining } => Self::Locked { remaining },
            Refusal::WrongCode { tries_left } => Self::WrongCode { tries_left },
            Refusal::Busy => Self::Busy,
        }
    }
}

impl PairError {
    /// What the end of the connection, or of a stream on it, says about the pairing.
    pub(super) fn from_end(connection: &Connection, fault: &FrameError) -> Self {
        match connection.close_reason() {
            Some(ended) => refusal_in(&ended).map_or_else(|| Self::BrokenOff { why: describe(&ended) }, Self::from),
            None => Self::BrokenOff { why: fault.to_string() },
        }
    }
}

impl Refusal {
    /// Says it to the other end and closes.
    pub(super) fn close(self, connection: &Connection) {
        match self {
            Self::NotShowing => CloseCode::NotShowing.close(connection, "no code is shown"),
            Self::Locked { remaining } => {
                CloseCode::Locked.close(connection, &remaining.as_secs().max(1).to_string());
            }
            Self::WrongCode { tries_left } => CloseCode::WrongCode.close(connection, &tries_left.to_string()),
            Self::Busy => CloseCode::Busy.close(connection, "all tries are taken"),
        }
    }
}

/// The refusal with which the other end closed.
fn refusal_in(ended: &ConnectionError) -> Option<Refusal> {
    let (code, reason) = CloseCode::by_other_end(ended)?;
    match code {
        CloseCode::NotShowing => Some(Refusal::NotShowing),
        CloseCode::Locked => Some(Refusal::Locked { remaining: Duration::from_secs(reason.parse().ok()?) }),
        CloseCode::WrongCode => Some(Refusal::WrongCode { tries_left: reason.parse().ok()? }),
        CloseCode::Busy => Some(Refusal::Busy),
        CloseCode::Done
        | CloseCode::NotPaired
        | CloseCode::Duplicate
        | CloseCode::ShuttingDown
        | CloseCode::Protocol
        | CloseCode::Stalled => None,
    }
}

fn list(tried: &[(SocketAddr, String)]) -> String {
    let tried: Vec<_> = tried.iter().map(|(addr, why)| format!("{addr}: {why}")).collect();
    tried.join("; ")
}
