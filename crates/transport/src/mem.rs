//! A carrier in memory: two bounded queues of real frames. For tests, and for ranks that share a process.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::NodeId;

use crate::carrier::{Carrier, CarrierError};
use crate::flow::Flow;
use crate::frame::SLOT_BYTES;
use crate::framed::FramedLink;
use crate::link::CarrierKind;

/// Frames a queue holds. Fewer than a window, so that a full carrier is met before the credit runs out, as on a
/// real wire.
const QUEUE_FRAMES_MAX: usize = 8;

pub type MemLink = FramedLink<MemCarrier>;

/// The two ends of a link in memory: the first is `a`'s, whose peer is `b`; the second `b`'s.
pub fn mem_pair(a: NodeId, b: NodeId) -> (MemLink, MemLink) {
    let wire = Arc::new(Wire::default());
    let end = |side, peer| {
        let carrier = MemCarrier { wire: wire.clone(), side, seen: None, taken: Vec::new() };
        FramedLink::new(peer, carrier, Flow::new())
    };
    (end(Side::A, b), end(Side::B, a))
}

/// One end of a pair of queues.
pub struct MemCarrier {
    wire: Arc<Wire>,
    side: Side,
    /// The wire's version when this end first looked after it last slept: what has changed since may matter.
    seen: Option<u64>,
    /// The frame last taken; kept for its allocation.
    taken: Vec<u8>,
}

#[derive(Default)]
struct Wire {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    to_a: Queue,
    to_b: Queue,
    /// Counts changes, so that one between a look and a sleep is not slept through.
    version: u64,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Vec<u8>>,
    /// Emptied frames, for their allocations.
    spare: Vec<Vec<u8>>,
    writer: Writer,
}

#[derive(Default, PartialEq, Eq)]
enum Writer {
    #[default]
    Open,
    Finished,
}

#[derive(Clone, Copy)]
enum Side {
    A,
    B,
}

impl State {
    fn inward(&mut self, side: Side) -> &mut Queue {
        match side {
            Side::A => &mut self.to_a,
            Side::B => &mut self.to_b,
        }
    }

    fn outward(&mut self, side: Side) -> &mut Queue {
        match side {
            Side::A => &mut self.to_b,
            Side::B => &mut self.to_a,
        }
    }
}

impl Wire {
    /// A thread that panicked with the lock held left whole frames: there is no half-done state to fear.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.version += 1;
        drop(state);
        self.changed.notify_all();
    }
}

impl Carrier for MemCarrier {
    fn kind(&self) -> CarrierKind {
        CarrierKind::Memory
    }

    fn has_room(&mut self) -> Result<bool, CarrierError> {
        let mut state = self.wire.lock();
        self.seen.get_or_insert(state.version);
        Ok(state.outward(self.side).frames.len() < QUEUE_FRAMES_MAX)
    }

    fn put(&mut self, frame: &[u8]) -> Result<(), CarrierError> {
        self.wire.change(|state| {
            let queue = state.outward(self.side);
            let mut slot = queue.spare.pop().unwrap_or_else(|| Vec::with_capacity(SLOT_BYTES));
            slot.clear();
            slot.extend_from_slice(frame);
            queue.frames.push_back(slot);
        });
        Ok(())
    }

    fn flush(&mut self) -> Result<bool, CarrierError> {
        Ok(true)
    }

    fn take(&mut self) -> Result<Option<&[u8]>, CarrierError> {
        let mut state = self.wire.lock();
        self.seen.get_or_insert(state.version);
        let queue = state.inward(self.side);
        let Some(frame) = queue.frames.pop_front() else {
            return if queue.writer == Writer::Finished { Err(CarrierError::Ended) } else { Ok(None) };
        };
        queue.spare.push(std::mem::replace(&mut self.taken, frame));
        state.version += 1;
        drop(state);
        self.wire.changed.notify_all();
        Ok(Some(&self.taken))
    }

    fn park(&mut self, limit: Duration) {
        let state = self.wire.lock();
        let Some(seen) = self.seen.take() else { return };
        drop(self.wire.changed.wait_timeout_while(state, limit, |state| state.version == seen));
    }

    fn finish(&mut self) {
        self.wire.change(|state| state.outward(self.side).writer = Writer::Finished);
    }
}

impl Drop for MemCarrier {
    fn drop(&mut self) {
        self.finish();
    }
}
