//! The order of frames, the room for them, and the messages they make up. No I/O.
//!
//! Every frame of a direction is numbered, so a lost, repeated or swapped one is noticed. Data frames also need
//! credit: each end counts how many it is ready to take and says so in every frame it sends ([`Kind::Credit`]
//! when it has no other to send). A carrier with slots keeps `WINDOW_FRAMES` of them posted for data and
//! `CONTROL_FRAMES` more for frames that need no credit.

use std::collections::VecDeque;

use crate::frame::{self, Corruption, FrameError, Header, Kind, PAYLOAD_MAX};
use crate::hello::{Hello, Refusal};
use crate::link::MESSAGE_MAX;

/// Data frames that may be under way when nobody receives: 1 MiB of slots. It covers 80 Gbit/s for 100 µs, which is
/// several round trips of a direct cable, and a hidden state of 128 tokens.
pub(crate) const WINDOW_FRAMES: u64 = 64;

/// The most frames under way that need no credit: a hello or refusal, a close, and the credit frames of one window (they
/// are sent half a window apart).
#[cfg(test)]
pub(crate) const CONTROL_FRAMES: u64 = 4;

/// Frames of whole messages kept for a caller that is sending, so that two ends which send first and receive
/// later both get on: as many as the longest message has.
const INBOX_FRAMES_MAX: u64 = (MESSAGE_MAX.div_ceil(PAYLOAD_MAX)) as u64;

/// What the owner of the flow waits for; it decides how much more the peer may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Sending,
    Receiving,
}

#[derive(Debug, Default)]
pub(crate) struct Flow {
    frames_out: u64,
    data_out: u64,
    /// Data frames that the peer is ready to take, from the link's start on.
    allowed: u64,

    frames_in: u64,
    data_in: u64,
    /// Data frames that the peer knows this end to be ready for, from the link's start on.
    granted: u64,
    /// Data frames whose message the caller has received.
    consumed: u64,
    inbox: VecDeque<Message>,
    partial: Message,
    peer: PeerSays,
}

#[derive(Debug, Default)]
struct Message {
    bytes: Vec<u8>,
    n_frames: u64,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum PeerSays {
    #[default]
    Open,
    Closed,
}

/// What an arrived frame was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Hello(Hello),
    Refused(Refusal),
    Data,
    Credit,
    Close,
}

impl Flow {
    pub(crate) fn new() -> Self {
        Self { allowed: WINDOW_FRAMES, granted: WINDOW_FRAMES, ..Self::default() }
    }

    /// Whether the peer has room for another data frame.
    pub(crate) fn may_send_data(&self) -> bool {
        self.data_out < self.allowed
    }

    /// Writes the next frame to `frame` and counts it as sent: hand it to the carrier. Data needs
    /// [`Flow::may_send_data`].
    pub(crate) fn send(&mut self, kind: Kind, payload: &[u8], mode: Mode, frame: &mut Vec<u8>) {
        self.granted = self.granted.max(self.ready_for(mode));
        frame::encode(Header { kind, seq: self.frames_out, granted: self.granted }, payload, frame);
        self.frames_out += 1;
        match kind {
            Kind::Part | Kind::Last => self.data_out += 1,
            Kind::Hello | Kind::Refuse | Kind::Credit | Kind::Close => (),
        }
    }

    /// Data frames sent since the link's start.
    pub(crate) fn data_sent(&self) -> u64 {
        self.data_out
    }

    /// Whether a [`Kind::Credit`] frame is worth sending: half a window has become free since the peer was told.
    pub(crate) fn credit_is_due(&self, mode: Mode) -> bool {
        self.peer == PeerSays::Open && self.ready_for(mode) >= self.granted + WINDOW_FRAMES / 2
    }

    /// Takes a frame in. After an error the flow is over.
    pub(crate) fn take(&mut self, slot: &[u8]) -> Result<Taken, FrameError> {
        let (header, payload) = frame::decode(slot)?;
        if header.seq != self.frames_in {
            return Err(Corruption::Sequence { expected: self.frames_in, found: header.seq }.into());
        }
        self.frames_in += 1;
        // However much it keeps, it can only keep what was sent.
        if header.granted < self.allowed || header.granted > self.data_out + WINDOW_FRAMES {
            return Err(Corruption::Credit { granted: header.granted, before: self.allowed }.into());
        }
        self.allowed = header.granted;
        match header.kind {
            Kind::Hello => match Hello::decode(payload) {
                Some(hello) => Ok(Taken::Hello(hello)),
                None => Err(Corruption::Unexpected { frame: "malformed hello" }.into()),
            },
            Kind::Refuse => match Refusal::decode(payload) {
                Some(refusal) => Ok(Taken::Refused(refusal)),
                None => Err(Corruption::Unexpected { frame: "malformed refusal" }.into()),
            },
            Kind::Part | Kind::Last => {
                self.take_data(header.kind, payload)?;
                Ok(Taken::Data)
            }
            Kind::Credit => Ok(Taken::Credit),
            Kind::Close if self.partial.n_frames > 0 => {
                Err(Corruption::Unexpected { frame: "close inside a message" }.into())
            }
            Kind::Close => {
                self.peer = PeerSays::Closed;
                Ok(Taken::Close)
            }
        }
    }

    fn take_data(&mut self, kind: Kind, payload: &[u8]) -> Result<(), FrameError> {
        if self.data_in == self.granted {
            return Err(Corruption::Unasked { granted: self.granted }.into());
        }
        if self.partial.bytes.len() + payload.len() > MESSAGE_MAX {
            return Err(Corruption::MessageTooLong { max: MESSAGE_MAX }.into());
        }
        self.data_in += 1;
        self.partial.bytes.extend_from_slice(payload);
        self.partial.n_frames += 1;
        if kind == Kind::Last {
            self.inbox.push_back(std::mem::take(&mut self.partial));
        }
        Ok(())
    }

    /// Moves the next whole message to `message`, if one is there. The vector's old allocation serves a later one.
    pub(crate) fn pop(&mut self, message: &mut Vec<u8>) -> Option<()> {
        let mut next = self.inbox.pop_front()?;
        self.consumed += next.n_frames;
        std::mem::swap(message, &mut next.bytes);
        if self.partial.n_frames == 0 && self.partial.bytes.capacity() == 0 {
            next.bytes.clear();
            self.partial.bytes = next.bytes;
        }
        Some(())
    }

    pub(crate) fn peer_has_closed(&self) -> bool {
        self.peer == PeerSays::Closed
    }

    /// Data frames to be ready for, from the link's start on.
    ///
    /// A caller that receives is as good as taking the frames of the message it waits for. For a caller that sends,
    /// whole messages are kept up to a limit.
    fn ready_for(&self, mode: Mode) -> u64 {
        let unread = self.data_in - self.consumed;
        let spoken_for = match mode {
            Mode::Receiving if self.inbox.is_empty() => self.partial.n_frames,
            Mode::Receiving => 0,
            Mode::Sending => unread.min(INBOX_FRAMES_MAX),
        };
        self.consumed + spoken_for + WINDOW_FRAMES
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn send(from: &mut Flow, kind: Kind, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        from.send(kind, payload, Mode::Receiving, &mut frame);
        frame
    }

    fn corruption(result: Result<Taken, FrameError>) -> Option<Corruption> {
        match result {
            Err(FrameError::Corrupt(cause)) => Some(cause),
            Err(FrameError::OtherVersion { .. }) | Ok(_) => None,
        }
    }

    #[test]
    fn a_message_comes_out_as_it_went_in() {
        let (mut a, mut b) = (Flow::new(), Flow::new());
        for (kind, payload) in [(Kind::Part, "one "), (Kind::Part, "two "), (Kind::Last, "three"), (Kind::Last, "")] {
            assert_eq!(b.take(&send(&mut a, kind, payload.as_bytes())), Ok(Taken::Data));
        }
        let mut message = b"old".to_vec();
        assert_eq!(b.pop(&mut message), Some(()));
        assert_eq!(message, b"one two three");
        assert_eq!(b.pop(&mut message), Some(()));
        assert!(message.is_empty());
        assert_eq!(b.pop(&mut message), None);
    }

    #[test]
    fn lost_repeated_and_unasked_frames_are_noticed() {
        let (mut a, mut b) = (Flow::new(), Flow::new());
        let first = send(&mut a, Kind::Last, b"x");
        assert_eq!(b.take(&first), Ok(Taken::Data));
        assert_eq!(corruption(b.take(&first)), Some(Corruption::Sequence { expected: 1, found: 0 }));

        let (mut a, mut b) = (Flow::new(), Flow::new());
        let _lost = send(&mut a, Kind::Last, b"x");
        let next = send(&mut a, Kind::Last, b"y");
        assert_eq!(corruption(b.take(&next)), Some(Corruption::Sequence { expected: 0, found: 1 }));

        let (mut a, mut b) = (Flow::new(), Flow::new());
        for _ in 0..WINDOW_FRAMES {
            assert!(a.may_send_data());
            assert_eq!(b.take(&send(&mut a, Kind::Last, b"x")), Ok(Taken::Data));
        }
        assert!(!a.may_send_data());
        let unasked = send(&mut a, Kind::Last, b"x");
        assert_eq!(corruption(b.take(&unasked)), Some(Corruption::Unasked { granted: WINDOW_FRAMES }));
    }

    #[test]
    fn credit_is_told_half_a_window_at_a_time() {
        let (mut a, mut b) = (Flow::new(), Flow::new());
        let mut message = Vec::new();
        let mut n_credits = 0;
        for _ in 0..10 * WINDOW_FRAMES {
            assert!(a.may_send_data());
            assert_eq!(b.take(&send(&mut a, Kind::Last, b"x")), Ok(Taken::Data));
            assert_eq!(b.pop(&mut message), Some(()));
            if b.credit_is_due(Mode::Receiving) {
                n_credits += 1;
                assert_eq!(a.take(&send(&mut b, Kind::Credit, b"")), Ok(Taken::Credit));
            }
        }
        assert_eq!(n_credits, 20);
    }

    #[test]
    fn an_end_that_is_not_receiving_takes_a_window_and_one_that_sends_more() {
        let (mut a, mut b) = (Flow::new(), Flow::new());
        for _ in 0..WINDOW_FRAMES {
            assert_eq!(b.take(&send(&mut a, Kind::Last, b"x")), Ok(Taken::Data));
        }
        assert!(!b.credit_is_due(Mode::Receiving), "whole messages wait to be read");
        assert!(b.credit_is_due(Mode::Sending), "its owner is busy, and has the memory");
    }

    #[test]
    fn credit_from_nowhere_is_refused() {
        let (mut a, mut b) = (Flow::new(), Flow::new());
        a.granted = u64::MAX / 2;
        let frame = send(&mut a, Kind::Credit, b"");
        assert!(matches!(corruption(b.take(&frame)), Some(Corruption::Credit { .. })));
    }

    /// What a slotted carrier sizes its receives by.
    #[test]
    fn frames_without_credit_are_few() {
        let mut b = Flow::new();
        let mut a = Flow::new();
        let mut message = Vec::new();
        let mut control = vec![send(&mut b, Kind::Hello, &[0; Hello::BYTES])];
        for _ in 0..WINDOW_FRAMES {
            assert!(a.may_send_data());
            assert_eq!(b.take(&send(&mut a, Kind::Last, b"x")), Ok(Taken::Data));
            assert_eq!(b.pop(&mut message), Some(()));
            if b.credit_is_due(Mode::Receiving) {
                control.push(send(&mut b, Kind::Credit, b""));
            }
        }
        control.push(send(&mut b, Kind::Close, b""));
        assert_eq!(control.len() as u64, CONTROL_FRAMES);
    }

    proptest! {
        #[test]
        fn any_bytes_in_never_panic(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..8)) {
            let mut flow = Flow::new();
            for frame in frames {
                let _ = flow.take(&frame);
            }
        }

        #[test]
        fn any_messages_survive_any_cut(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 1..40),
            cut in 1..40_usize,
        ) {
            let (mut a, mut b) = (Flow::new(), Flow::new());
            let mut message = Vec::new();
            for sent in &messages {
                let mut rest = &sent[..];
                while rest.len() > cut {
                    prop_assert!(a.may_send_data());
                    prop_assert_eq!(b.take(&send(&mut a, Kind::Part, &rest[..cut])), Ok(Taken::Data));
                    rest = &rest[cut..];
                    if b.credit_is_due(Mode::Receiving) {
                        prop_assert_eq!(a.take(&send(&mut b, Kind::Credit, b"")), Ok(Taken::Credit));
                    }
                }
                prop_assert_eq!(b.take(&send(&mut a, Kind::Last, rest)), Ok(Taken::Data));
                prop_assert_eq!(b.pop(&mut message), Some(()));
                prop_assert_eq!(&message, sent);
                if b.credit_is_due(Mode::Receiving) {
                    prop_assert_eq!(a.take(&send(&mut b, Kind::Credit, b"")), Ok(Taken::Credit));
                }
            }
        }
    }
}
