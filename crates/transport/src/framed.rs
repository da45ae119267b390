//! A [`Link`] out of a [`Carrier`]: messages cut into frames, sent as credit allows, and put together again.

use std::time::{Duration, Instant};

use domain::{Bytes, NodeId};

use crate::carrier::{Carrier, CarrierError};
use crate::error::{Doing, LinkError};
use crate::flow::{Flow, Mode, Taken};
use crate::frame::{Corruption, FrameError, Kind, PAYLOAD_MAX, SLOT_BYTES, VERSION};
use crate::link::{CarrierKind, Link, MESSAGE_MAX};
use crate::wait::{PARK_MAX, Wait};

/// How long a call looks again and again before it sleeps: about one wake-up's worth, so that an answer which is
/// already on its way is not paid for twice, and a machine with few cores is not kept from computing it.
const SPIN: Duration = Duration::from_micros(30);

/// How long `close` waits for the peer to look, so that what is under way is not cut by the end of the socket.
const CLOSE_LINGER: Duration = Duration::from_millis(250);

/// A link over any carrier.
pub struct FramedLink<C> {
    peer: NodeId,
    carrier: C,
    flow: Flow,
    /// The frame being sent; kept for its allocation.
    frame: Vec<u8>,
    /// Why the link is over, once it is.
    over: Option<LinkError>,
}

impl<C: Carrier> FramedLink<C> {
    pub(crate) fn new(peer: NodeId, carrier: C, flow: Flow) -> Self {
        Self { peer, carrier, flow, frame: Vec::with_capacity(SLOT_BYTES), over: None }
    }

    /// The same link over another carrier, made from its own.
    pub(crate) fn map_carrier<D: Carrier>(self, change: impl FnOnce(C) -> D) -> FramedLink<D> {
        let Self { peer, carrier, flow, frame, over } = self;
        FramedLink { peer, carrier: change(carrier), flow, frame, over }
    }

    fn put(&mut self, kind: Kind, payload: &[u8], mode: Mode) -> Result<(), LinkError> {
        self.flow.send(kind, payload, mode, &mut self.frame);
        let put = self.carrier.put(&self.frame);
        self.carried(put)
    }

    /// Takes in what has arrived and gives credit for it. Stops at the peer's close: nothing may follow it.
    fn absorb(&mut self, mode: Mode) -> Result<Progress, LinkError> {
        let mut progress = Progress::None;
        while !self.flow.peer_has_closed() {
            let taken = match self.carrier.take() {
                Ok(Some(frame)) => self.flow.take(frame),
                Ok(None) => break,
                Err(error) => return Err(self.end(lost(self.peer, error))),
            };
            match taken {
                Ok(Taken::Data | Taken::Credit | Taken::Close) => progress = Progress::Some,
                Ok(Taken::Hello(_)) => return Err(self.end(unexpected(self.peer, "second hello"))),
                Ok(Taken::Refused(_)) => return Err(self.end(unexpected(self.peer, "late refusal"))),
                Err(error) => return Err(self.end(not_a_frame(self.peer, error))),
            }
        }
        self.give_credit(mode)?;
        Ok(progress)
    }

    fn give_credit(&mut self, mode: Mode) -> Result<(), LinkError> {
        if self.flow.credit_is_due(mode) {
            let has_room = self.carrier.has_room();
            if self.carried(has_room)? {
                self.put(Kind::Credit, &[], mode)?;
                let flushed = self.carrier.flush();
                self.carried(flushed)?;
            }
        }
        Ok(())
    }

    /// Waits for `ready` while taking in what arrives.
    fn wait_until(
        &mut self,
        call: &Call<'_>,
        mode: Mode,
        mut ready: impl FnMut(&mut Self) -> Result<bool, LinkError>,
    ) -> Result<(), LinkError> {
        let mut quiet_since = None;
        loop {
            if ready(self)? {
                return Ok(());
            }
            if let Some(over) = &self.over {
                return Err(over.clone());
            }
            if self.flow.peer_has_closed() {
                return Err(LinkError::Closed { peer: self.peer });
            }
            match self.absorb(mode) {
                Ok(Progress::Some) => {
                    quiet_since = None;
                    // What has come is not missed for want of time.
                    if ready(self)? {
                        return Ok(());
                    }
                    call.check(self.peer)?;
                }
                Ok(Progress::None) => {
                    call.check(self.peer)?;
                    let now = Instant::now();
                    if now - *quiet_since.get_or_insert(now) < SPIN {
                        std::thread::yield_now();
                    } else {
                        self.carrier.park(call.wait.deadline.saturating_duration_since(now).min(PARK_MAX));
                    }
                }
                Err(error) => match mode {
                    Mode::Sending => return Err(error),
                    // Whole messages that came before the end are still to be had: `ready` decides.
                    Mode::Receiving => quiet_since = None,
                },
            }
        }
    }

    fn wait_for_room(&mut self, call: &Call<'_>, mode: Mode, kind: Kind) -> Result<(), LinkError> {
        self.wait_until(call, mode, |link| {
            let has_credit = match kind {
                Kind::Part | Kind::Last => link.flow.may_send_data(),
                Kind::Hello | Kind::Refuse | Kind::Credit | Kind::Close => true,
            };
            if !has_credit {
                let flushed = link.carrier.flush();
                link.carried(flushed)?;
                return Ok(false);
            }
            let has_room = link.carrier.has_room();
            link.carried(has_room)
        })
    }

    fn wait_for_flush(&mut self, call: &Call<'_>, mode: Mode) -> Result<(), LinkError> {
        self.wait_until(call, mode, |link| {
            let flushed = link.carrier.flush();
            link.carried(flushed)
        })
    }

    fn send_frames(&mut self, message: &[u8], call: &Call<'_>) -> Result<(), LinkError> {
        let mut rest = message;
        loop {
            let (payload, kind) = match rest.split_at_checked(PAYLOAD_MAX) {
                Some((part, more)) if !more.is_empty() => {
                    rest = more;
                    (part, Kind::Part)
                }
                Some(_) | None => (rest, Kind::Last),
            };
            self.wait_for_room(call, Mode::Sending, kind)?;
            self.put(kind, payload, Mode::Sending)?;
            if kind == Kind::Last {
                return self.wait_for_flush(call, Mode::Sending);
            }
        }
    }

    /// Makes a link's error of a carrier's. If the peer had closed before, that is what happened.
    fn carried<T>(&mut self, result: Result<T, CarrierError>) -> Result<T, LinkError> {
        match result {
            Ok(value) => Ok(value),
            Err(error) => {
                let ended = lost(self.peer, error);
                while let Ok(Some(frame)) = self.carrier.take() {
                    if self.flow.take(frame).is_err() || self.flow.peer_has_closed() {
                        break;
                    }
                }
                Err(if self.flow.peer_has_closed() { LinkError::Closed { peer: self.peer } } else { self.end(ended) })
            }
        }
    }

    fn end(&mut self, why: LinkError) -> LinkError {
        self.over.get_or_insert(why).clone()
    }
}

impl<C: Carrier> Link for FramedLink<C> {
    fn peer(&self) -> NodeId {
        self.peer
    }

    fn carrier(&self) -> CarrierKind {
        self.carrier.kind()
    }

    fn send(&mut self, message: &[u8], wait: &Wait) -> Result<(), LinkError> {
        if message.len() > MESSAGE_MAX {
            let (size, max) = (Bytes::new(message.len() as u64), Bytes::new(MESSAGE_MAX as u64));
            return Err(LinkError::TooLarge { peer: self.peer, size, max });
        }
        if let Some(over) = &self.over {
            return Err(over.clone());
        }
        let call = Call::new(wait, Doing::Sending);
        self.absorb(Mode::Sending)?;
        if self.flow.peer_has_closed() {
            return Err(LinkError::Closed { peer: self.peer });
        }
        let n_data_before = self.flow.data_sent();
        self.send_frames(message, &call).inspect_err(|_| {
            if self.flow.data_sent() > n_data_before {
                let cause = "an earlier message was given up half-way".to_owned();
                self.end(LinkError::Lost { peer: self.peer, cause });
            }
        })
    }

    fn recv(&mut self, message: &mut Vec<u8>, wait: &Wait) -> Result<(), LinkError> {
        let call = Call::new(wait, Doing::Receiving);
        self.wait_until(&call, Mode::Receiving, |link| Ok(link.flow.pop(message).is_some()))?;
        // The message is here whatever becomes of the link; an end shows in the next call.
        let _ = self.give_credit(Mode::Receiving);
        Ok(())
    }

    fn close(mut self: Box<Self>, wait: &Wait) -> Result<(), LinkError> {
        if let Some(over) = self.over.take() {
            return Err(over);
        }
        let call = Call::new(wait, Doing::Closing);
        let closed = self
            .wait_for_room(&call, Mode::Receiving, Kind::Close)
            .and_then(|()| self.put(Kind::Close, &[], Mode::Receiving))
            .and_then(|()| self.wait_for_flush(&call, Mode::Receiving));
        self.carrier.finish();
        match closed {
            Ok(()) => (),
            // Both ends closed at once: in good order too.
            Err(LinkError::Closed { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        let linger = Wait::until(wait.deadline.min(Instant::now() + CLOSE_LINGER), wait.cancel.clone());
        // Ends with the peer's close or end, or in time; all are as good.
        let _ = self.wait_until(&Call::new(&linger, Doing::Closing), Mode::Receiving, |_| Ok(false));
        Ok(())
    }
}

/// One blocking call: its limit, and what to say when that is reached.
struct Call<'a> {
    wait: &'a Wait,
    since: Instant,
    doing: Doing,
}

impl<'a> Call<'a> {
    fn new(wait: &'a Wait, doing: Doing) -> Self {
        Self { wait, since: Instant::now(), doing }
    }

    fn check(&self, peer: NodeId) -> Result<(), LinkError> {
        self.wait.check().map_err(|why| LinkError::stopped(why, peer, self.since.elapsed(), self.doing))
    }
}

enum Progress {
    None,
    Some,
}

pub(crate) fn lost(peer: NodeId, error: CarrierError) -> LinkError {
    match error {
        CarrierError::OtherVersion { theirs } => LinkError::Version { peer, ours: VERSION, theirs },
        CarrierError::Corrupt(cause) => LinkError::Corrupt { peer, cause },
        CarrierError::Ended | CarrierError::Broken(_) | CarrierError::Tls(_) => {
            LinkError::Lost { peer, cause: error.to_string() }
        }
    }
}

pub(crate) fn not_a_frame(peer: NodeId, error: FrameError) -> LinkError {
    match error {
        FrameError::OtherVersion { theirs } => LinkError::Version { peer, ours: VERSION, theirs },
        FrameError::Corrupt(cause) => LinkError::Corrupt { peer, cause },
    }
}

fn unexpected(peer: NodeId, frame: &'static str) -> LinkError {
    LinkError::Corrupt { peer, cause: Corruption::Unexpected { frame } }
}
