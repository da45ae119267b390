//! A carrier that does one thing wrong, to see that the other end notices.

use std::time::Duration;

use super::{patient, pattern};
use crate::carrier::{Carrier, CarrierError};
use crate::error::LinkError;
use crate::frame::{Corruption, PAYLOAD_MAX, VERSION, VERSION_AT};
use crate::framed::FramedLink;
use crate::link::{CarrierKind, Link};

/// What happens to one frame on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its last bit is turned over.
    FlipBit,
    /// It never arrives. Unreliable connections of RDMA do this without a word.
    Lose,
    /// It arrives twice.
    Repeat,
    /// It says that it is of the next version.
    OtherVersion,
}

/// The same link, with `fault` on the frame that is sent after `n_before` others.
pub fn with_fault<C: Carrier>(link: FramedLink<C>, fault: Fault, n_before: u64) -> FramedLink<Faulty<C>> {
    link.map_carrier(|inner| Faulty { inner, fault, n_before, n_put: 0 })
}

/// A carrier with a fault.
pub struct Faulty<C> {
    inner: C,
    fault: Fault,
    n_before: u64,
    n_put: u64,
}

impl<C: Carrier> Carrier for Faulty<C> {
    fn kind(&self) -> CarrierKind {
        self.inner.kind()
    }

    fn has_room(&mut self) -> Result<bool, CarrierError> {
        self.inner.has_room()
    }

    fn put(&mut self, frame: &[u8]) -> Result<(), CarrierError> {
        let n_before = self.n_put;
        self.n_put += 1;
        if n_before != self.n_before {
            return self.inner.put(frame);
        }
        let mut wrong = frame.to_vec();
        match self.fault {
            Fault::FlipBit => {
                if let Some(last) = wrong.last_mut() {
                    *last ^= 1;
                }
                self.inner.put(&wrong)
            }
            Fault::Lose => Ok(()),
            Fault::Repeat => self.inner.put(frame).and_then(|()| self.inner.put(frame)),
            Fault::OtherVersion => {
                wrong[VERSION_AT] = VERSION + 1;
                self.inner.put(&wrong)
            }
        }
    }

    fn flush(&mut self) -> Result<bool, CarrierError> {
        self.inner.flush()
    }

    fn take(&mut self) -> Result<Option<&[u8]>, CarrierError> {
        self.inner.take()
    }

    fn park(&mut self, limit: Duration) {
        self.inner.park(limit);
    }

    fn finish(&mut self) {
        self.inner.finish();
    }
}

/// Runs every fault, in the second frame of the second message, on a fresh link. `make` gives its two ends.
pub fn fault_contract<C: Carrier, D: Carrier>(make: impl Fn() -> (FramedLink<C>, FramedLink<D>)) {
    for fault in [Fault::FlipBit, Fault::Lose, Fault::Repeat, Fault::OtherVersion] {
        let (a, mut b) = make();
        let mut a = with_fault(a, fault, 2);
        let good = b"one frame".to_vec();
        let bad = pattern(3 * PAYLOAD_MAX, 1);
        a.send(&good, &patient()).expect("send");
        a.send(&bad, &patient()).expect("a sender does not know what becomes of a frame");
        let mut message = Vec::new();
        b.recv(&mut message, &patient()).expect("the message before the fault");
        assert_eq!(message, good);
        let noticed = b.recv(&mut message, &patient()).expect_err("the message with the fault");
        assert_eq!(message, good, "nothing of a corrupt message is handed over");
        let peer = b.peer();
        match (fault, &noticed) {
            (Fault::FlipBit, LinkError::Corrupt { cause: Corruption::Checksum { .. }, .. }) => (),
            (Fault::Lose, LinkError::Corrupt { cause, .. }) => {
                assert!(matches!(cause, Corruption::Sequence { expected, found } if *found == expected + 1), "{cause}");
            }
            (Fault::Repeat, LinkError::Corrupt { cause, .. }) => {
                assert!(matches!(cause, Corruption::Sequence { expected, found } if *expected == found + 1), "{cause}");
            }
            (Fault::OtherVersion, LinkError::Version { theirs, .. }) => assert_eq!(*theirs, VERSION + 1),
            (Fault::FlipBit | Fault::Lose | Fault::Repeat | Fault::OtherVersion, other) => {
                panic!("{fault:?} was taken for {other:?}")
            }
        }
        assert_eq!(noticed.peer(), Some(peer));
        assert_eq!(b.recv(&mut message, &patient()), Err(noticed.clone()), "a corrupt link stays so");
        assert_eq!(b.send(&good, &patient()), Err(noticed));
    }
}
