//! The frame: what one slot holds, and how it is checked before any of it is believed.
//!
//! ```text
//!  0  magic    "MCRM"
//!  4  version  1; where it stands never changes
//!  5  kind     see `Kind`
//!  6  zero     2 bytes
//!  8  seq      u64: frames sent before this one in this direction
//! 16  granted  u64: data frames the sender of this frame is ready to take, counted from the link's start
//! 24  len      u32: bytes of payload
//! 28  crc      u32: CRC-32C of bytes 0..28 and of the payload
//! 32  payload  `len` bytes
//! ```
//! All numbers are little endian.
//!
//! A frame never exceeds [`SLOT_BYTES`]. A carrier with slots (RDMA) moves whole slots, for its receives are posted
//! before it is known what comes, and both ends must agree on their size. A carrier with a byte stream (TCP) sends
//! the used part only: a token is some 50 bytes, and padding it to a slot would cost 300 times its bandwidth.

/// The largest frame, header included: a 16 KiB page of Apple's machines, four of RDMA's 4 KiB packets and exactly the
/// plain text of one full TLS record. The hidden state of one token (8 KiB at 4096 in f16) fits in one.
pub(crate) const SLOT_BYTES: usize = 16 << 10;

pub(crate) const HEADER_BYTES: usize = 32;

pub(crate) const PAYLOAD_MAX: usize = SLOT_BYTES - HEADER_BYTES;

pub(crate) const VERSION: u8 = 1;

const MAGIC: [u8; 4] = *b"MCRM";
pub(crate) const VERSION_AT: usize = 4;
const KIND_AT: usize = 5;
const LEN_AT: usize = 24;
const CRC_AT: usize = 28;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The payload is a [`crate::hello::Hello`].
    Hello,
    /// The payload is a [`crate::hello::Refusal`]; nothing follows.
    Refuse,
    /// Some of a message, and not its end.
    Part,
    /// The end of a message, or all of it. May be empty.
    Last,
    /// Carries a new `granted` and nothing else.
    Credit,
    /// Nothing follows.
    Close,
}

impl Kind {
    const fn encode(self) -> u8 {
        match self {
            Self::Hello => 1,
            Self::Refuse => 2,
            Self::Part => 3,
            Self::Last => 4,
            Self::Credit => 5,
            Self::Close => 6,
        }
    }

    const fn decode(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Hello),
            2 => Some(Self::Refuse),
            3 => Some(Self::Part),
            4 => Some(Self::Last),
            5 => Some(Self::Credit),
            6 => Some(Self::Close),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) seq: u64,
    pub(crate) granted: u64,
}

/// Writes the used part of a frame to `frame`, whose old contents go. `payload` is at most [`PAYLOAD_MAX`] bytes.
pub(crate) fn encode(header: Header, payload: &[u8], frame: &mut Vec<u8>) {
    debug_assert!(payload.len() <= PAYLOAD_MAX);
    frame.clear();
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&[VERSION, header.kind.encode(), 0, 0]);
    frame.extend_from_slice(&header.seq.to_le_bytes());
    frame.extend_from_slice(&header.granted.to_le_bytes());
    frame.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(frame), payload);
    frame.extend_from_slice(&crc.to_le_bytes());
    frame.extend_from_slice(payload);
}

/// How long the frame is that `stream` starts with, or `None` while too little of it is there to tell.
///
/// Looks at each field as soon as it is there, so that a stranger's first bytes are enough to be rid of it.
pub(crate) fn used_len(stream: &[u8]) -> Result<Option<usize>, FrameError> {
    let shared = stream.len().min(MAGIC.len());
    if stream[..shared] != MAGIC[..shared] {
        return Err(Corruption::Magic.into());
    }
    if let Some(&theirs) = stream.get(VERSION_AT)
        && theirs != VERSION
    {
        return Err(FrameError::OtherVersion { theirs });
    }
    if stream.len() < HEADER_BYTES {
        return Ok(None);
    }
    let len = u32_at(stream, LEN_AT);
    match usize::try_from(len) {
        Ok(payload) if payload <= PAYLOAD_MAX => Ok(Some(HEADER_BYTES + payload)),
        Ok(_) | Err(_) => Err(Corruption::Length { len }.into()),
    }
}

/// Reads a frame: its used part, which may have anything behind it (a slot's rest).
pub(crate) fn decode(slot: &[u8]) -> Result<(Header, &[u8]), FrameError> {
    let frame = match used_len(slot)? {
        Some(used) if used <= slot.len() => &slot[..used],
        Some(_) | None => return Err(Corruption::Short { n_bytes: slot.len() }.into()),
    };
    let (head, payload) = frame.split_at(HEADER_BYTES);
    let said = u32_at(head, CRC_AT);
    let counted = crc32c::crc32c_append(crc32c::crc32c(&head[..CRC_AT]), payload);
    if said != counted {
        return Err(Corruption::Checksum { said, counted }.into());
    }
    let kind = match head[KIND_AT..KIND_AT + 3] {
        [kind, 0, 0] => Kind::decode(kind).ok_or(Corruption::Kind { kind })?,
        [kind, ..] => return Err(Corruption::Kind { kind }.into()),
        [] => return Err(Corruption::Short { n_bytes: slot.len() }.into()),
    };
    Ok((Header { kind, seq: u64_at(head, 8), granted: u64_at(head, 16) }, payload))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |field| u32::from_le_bytes(*field))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |field| u64::from_le_bytes(*field))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameError {
    OtherVersion { theirs: u8 },
    Corrupt(Corruption),
}

impl From<Corruption> for FrameError {
    fn from(cause: Corruption) -> Self {
        Self::Corrupt(cause)
    }
}

/// What gave a corrupt frame, or a lost or repeated one, away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Corruption {
    #[error("not a frame of Macramé")]
    Magic,
    #[error("a frame of unknown kind {kind}")]
    Kind { kind: u8 },
    #[error("a frame of {len} bytes, of which {PAYLOAD_MAX} fit")]
    Length { len: u32 },
    #[error("a frame that ends after {n_bytes} bytes")]
    Short { n_bytes: usize },
    #[error("checksum {counted:08x} where {said:08x} was sent")]
    Checksum { said: u32, counted: u32 },
    #[error("frame {found} where {expected} was due")]
    Sequence { expected: u64, found: u64 },
    #[error("a {frame} frame where none may come")]
    Unexpected { frame: &'static str },
    #[error("more data than this node made room for ({granted} frames)")]
    Unasked { granted: u64 },
    #[error("room for {granted} frames, after {before}")]
    Credit { granted: u64, before: u64 },
    #[error("a message of more than {max} bytes")]
    MessageTooLong { max: usize },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kinds() -> impl Strategy<Value = Kind> {
        prop_oneof![
            Just(Kind::Hello),
            Just(Kind::Refuse),
            Just(Kind::Part),
            Just(Kind::Last),
            Just(Kind::Credit),
            Just(Kind::Close)
        ]
    }

    prop_compose! {
        fn headers()(kind in kinds(), seq in any::<u64>(), granted in any::<u64>()) -> Header {
            Header { kind, seq, granted }
        }
    }

    proptest! {
        #[test]
        fn a_frame_reads_as_it_was_written(
            header in headers(),
            payload in prop::collection::vec(any::<u8>(), 0..=PAYLOAD_MAX),
            rest in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut slot = Vec::new();
            encode(header, &payload, &mut slot);
            prop_assert_eq!(used_len(&slot), Ok(Some(slot.len())));
            slot.extend_from_slice(&rest);
            prop_assert_eq!(decode(&slot), Ok((header, &payload[..])));
        }

        #[test]
        fn any_bytes_are_refused_or_read_but_never_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            keep in 0..=32_usize,
        ) {
            let mut frame = Vec::new();
            encode(Header { kind: Kind::Part, seq: 1, granted: 2 }, b"abc", &mut frame);
            frame.truncate(keep);
            frame.extend_from_slice(&bytes);
            let _ = used_len(&frame);
            let _ = decode(&frame);
            prop_assert!(decode(&bytes).is_err(), "a random checksum does not fit");
        }

        #[test]
        fn one_wrong_bit_is_always_noticed(
            header in headers(),
            payload in prop::collection::vec(any::<u8>(), 0..300),
            at in any::<prop::sample::Index>(),
            bit in 0..8_u8,
        ) {
            let mut frame = Vec::new();
            encode(header, &payload, &mut frame);
            let at = at.index(frame.len());
            frame[at] ^= 1_u8 << bit;
            prop_assert!(decode(&frame).is_err());
        }
    }

    #[test]
    fn the_layout_is_this_one_for_ever() {
        let mut frame = Vec::new();
        encode(Header { kind: Kind::Last, seq: 0x0102, granted: 64 }, b"hi", &mut frame);
        let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        let crc = crc32c::crc32c_append(crc32c::crc32c(&frame[..28]), b"hi");
        let fields = "4d43524d010400000201000000000000400000000000000002000000";
        assert!(hex.starts_with(fields), "{hex}");
        assert_eq!(frame[28..32], crc.to_le_bytes());
        assert_eq!(&frame[32..], b"hi");
    }

    #[test]
    fn another_version_is_told_from_noise_by_its_first_bytes() {
        assert_eq!(used_len(b"MCRM\x02"), Err(FrameError::OtherVersion { theirs: 2 }));
        assert_eq!(used_len(b"GET /"), Err(Corruption::Magic.into()));
        assert_eq!(used_len(b"MC"), Ok(None));
        assert_eq!(used_len(b""), Ok(None));
    }
}
