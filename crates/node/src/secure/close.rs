//! Why one node ends a connection to another, as it is said on the wire.

use quinn::{Connection, ConnectionError, VarInt};

/// The code of a close. The numbers are the protocol: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseCode {
    /// Nothing is wrong: the exchange is over.
    Done = 0,
    /// The key that was proven is not in the peer book.
    NotPaired = 1,
    /// The two nodes have a connection already, and that one stays.
    Duplicate = 2,
    ShuttingDown = 3,
    /// It did not keep to the protocol.
    Protocol = 4,
    /// It has not read for too long.
    Stalled = 5,
    /// No pairing code is shown.
    NotShowing = 16,
    /// Too many wrong codes; the reason is the number of seconds until the next try.
    Locked = 17,
    /// The code was wrong; the reason is the number of tries left.
    WrongCode = 18,
    /// All tries of this code are taken by pairings under way.
    Busy = 19,
}

impl CloseCode {
    const ALL: [Self; 10] = [
        Self::Done,
        Self::NotPaired,
        Self::Duplicate,
        Self::ShuttingDown,
        Self::Protocol,
        Self::Stalled,
        Self::NotShowing,
        Self::Locked,
        Self::WrongCode,
        Self::Busy,
    ];

    pub(super) fn varint(self) -> VarInt {
        VarInt::from_u32(self as u32)
    }

    pub(super) fn close(self, connection: &Connection, reason: &str) {
        connection.close(self.varint(), reason.as_bytes());
    }

    /// The code and the reason with which the other end closed; `None` if the connection ended otherwise, or with a
    /// code that a later version knows.
    pub(super) fn by_other_end(error: &ConnectionError) -> Option<(Self, String)> {
        let ConnectionError::ApplicationClosed(close) = error else { return None };
        let code = Self::ALL.into_iter().find(|code| code.varint() == close.error_code)?;
        Some((code, printable(&close.reason)))
    }
}

/// The end of a connection in words for people.
pub(super) fn describe(error: &ConnectionError) -> String {
    match error {
        ConnectionError::ApplicationClosed(close) => match CloseCode::by_other_end(error) {
            Some((CloseCode::Done, _)) => "it ended the connection".to_owned(),
            Some((CloseCode::NotPaired, _)) => {
                "it is not paired with this node, or not any more: pair them again".to_owned()
            }
            Some((CloseCode::Duplicate, _)) => "there is another connection to it".to_owned(),
            Some((CloseCode::ShuttingDown, _)) => "it is shutting down".to_owned(),
            Some((CloseCode::Stalled, _)) => "it waited too long for this node to read".to_owned(),
            Some((
                CloseCode::Protocol
                | CloseCode::NotShowing
                | CloseCode::Locked
                | CloseCode::WrongCode
                | CloseCode::Busy,
                reason,
            )) => format!("it refused: {reason}"),
            None => format!("it ended the connection with the unknown code {}", close.error_code),
        },
        ConnectionError::TimedOut => "it stopped answering".to_owned(),
        ConnectionError::LocallyClosed => "this node ended the connection".to_owned(),
        ConnectionError::Reset => "it was started again".to_owned(),
        ConnectionError::ConnectionClosed(close) if speaks_otherwise(error) => {
            format!("it speaks another version of the protocol ({})", printable(&close.reason))
        }
        ConnectionError::VersionMismatch => "it speaks another version of QUIC".to_owned(),
        ConnectionError::TransportError(_) | ConnectionError::ConnectionClosed(_) | ConnectionError::CidsExhausted => {
            error.to_string()
        }
    }
}

/// Whether the other end shares none of the protocols offered (TLS alert 120, `no_application_protocol`).
pub(super) fn speaks_otherwise(error: &ConnectionError) -> bool {
    /// QUIC carries a TLS alert as `0x100 + alert` (RFC 9001, section 4.8).
    const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;
    let code = match error {
        ConnectionError::ConnectionClosed(close) => u64::from(close.error_code),
        ConnectionError::TransportError(error) => u64::from(error.code),
        ConnectionError::VersionMismatch
        | ConnectionError::ApplicationClosed(_)
        | ConnectionError::Reset
        | ConnectionError::TimedOut
        | ConnectionError::LocallyClosed
        | ConnectionError::CidsExhausted => return false,
    };
    code == NO_APPLICATION_PROTOCOL
}

/// What another machine wrote, short and without anything that could move a terminal's cursor.
fn printable(reason: &[u8]) -> String {
    const LEN_MAX: usize = 120;
    String::from_utf8_lossy(reason).chars().filter(|c| !c.is_control()).take(LEN_MAX).collect()
}
