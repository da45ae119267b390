//! Frames through TLS through a socket that never blocks.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::Connection;

use crate::carrier::{Carrier, CarrierError};
use crate::frame::{self, FrameError, SLOT_BYTES};
use crate::link::CarrierKind;

/// Frames that TLS holds before they go to the socket. Several go in one system call; more would only be encrypted
/// long before they are sent.
const BATCH_FRAMES: usize = 4;

/// What one read from the socket may bring: the records of a batch.
const READ_BYTES: usize = BATCH_FRAMES * (SLOT_BYTES + 64);

/// One end of a TCP connection under TLS.
pub struct TcpCarrier {
    socket: TcpStream,
    tls: Connection,
    /// Frames put since TLS last had nothing to send.
    n_unflushed: usize,
    /// Encrypted bytes read and not yet given to TLS: `received[unread]`.
    received: Box<[u8]>,
    unread: Range<usize>,
    /// Decrypted bytes; the frame last taken is `plain[taken]`, what is behind it is still to come.
    plain: Vec<u8>,
    taken: Range<usize>,
    input: Direction,
    output: Direction,
}

/// Whether anything more can come, or go.
#[derive(PartialEq, Eq)]
enum Direction {
    Open,
    Ended,
}

/// Whether a read brought anything.
#[derive(PartialEq, Eq)]
enum Progress {
    None,
    Some,
}

impl TcpCarrier {
    pub(super) fn new(socket: TcpStream, mut tls: Connection) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        // `has_room` is the limit; with TLS's own, a frame could be taken in part.
        tls.set_buffer_limit(None);
        Ok(Self {
            socket,
            tls,
            n_unflushed: 0,
            received: vec![0; READ_BYTES].into_boxed_slice(),
            unread: 0..0,
            plain: Vec::with_capacity(2 * SLOT_BYTES),
            taken: 0..0,
            input: Direction::Open,
            output: Direction::Open,
        })
    }

    pub(super) fn tls(&self) -> &Connection {
        &self.tls
    }

    /// What to wait for before another call can do more.
    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        let mut interest = PollFlags::IN;
        if self.output == Direction::Open && self.tls.wants_write() {
            interest |= PollFlags::OUT;
        }
        PollFd::new(&self.socket, interest)
    }

    /// Reads and drops what still comes. `true` once the other end has nothing more to say.
    pub(super) fn drain(&mut self) -> bool {
        loop {
            match self.socket.read(&mut self.received) {
                Ok(0) => return true,
                Ok(_) => (),
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
    }

    fn read_more(&mut self) -> Result<Progress, CarrierError> {
        self.plain.drain(..self.taken.end);
        self.taken = 0..0;
        if self.unread.is_empty() {
            match self.socket.read(&mut self.received) {
                Ok(0) => {
                    self.input = Direction::Ended;
                    return Ok(Progress::None);
                }
                Ok(n_bytes) => self.unread = 0..n_bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Progress::None),
                Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(Progress::Some),
                Err(error) => return Err(CarrierError::Broken(error.to_string())),
            }
        }
        let mut bytes = &self.received[self.unread.clone()];
        let n_given = self.tls.read_tls(&mut bytes).map_err(broken)?;
        self.unread.start += n_given;
        let state = match self.tls.process_new_packets() {
            Ok(state) => state,
            Err(error) => {
                // TLS has an alert for the other end; it is lost only if the socket is full.
                let _ = self.flush();
                return Err(CarrierError::Tls(error));
            }
        };
        let start = self.plain.len();
        self.plain.resize(start + state.plaintext_bytes_to_read(), 0);
        self.tls.reader().read_exact(&mut self.plain[start..]).map_err(broken)?;
        if state.peer_has_closed() {
            self.input = Direction::Ended;
        }
        if self.tls.wants_write() {
            self.flush()?;
        }
        Ok(Progress::Some)
    }
}

impl Carrier for TcpCarrier {
    fn kind(&self) -> CarrierKind {
        CarrierKind::Tcp
    }

    fn has_room(&mut self) -> Result<bool, CarrierError> {
        Ok(self.n_unflushed < BATCH_FRAMES || self.flush()?)
    }

    fn put(&mut self, frame: &[u8]) -> Result<(), CarrierError> {
        self.n_unflushed += 1;
        self.tls.writer().write_all(frame).map_err(broken)
    }

    fn flush(&mut self) -> Result<bool, CarrierError> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(0) => return Err(CarrierError::Broken("the socket takes no more".to_owned())),
                Ok(_) => (),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => return Err(broken(error)),
            }
        }
        self.n_unflushed = 0;
        Ok(true)
    }

    fn take(&mut self) -> Result<Option<&[u8]>, CarrierError> {
        let start = self.taken.end;
        self.taken = start..start;
        loop {
            let rest = self.taken.end..self.plain.len();
            match frame::used_len(&self.plain[rest.clone()]) {
                Ok(Some(used)) if used <= rest.len() => {
                    self.taken = rest.start..rest.start + used;
                    return Ok(Some(&self.plain[self.taken.clone()]));
                }
                Ok(_) => (),
                Err(FrameError::OtherVersion { theirs }) => return Err(CarrierError::OtherVersion { theirs }),
                Err(FrameError::Corrupt(cause)) => return Err(CarrierError::Corrupt(cause)),
            }
            if self.input == Direction::Ended {
                return Err(CarrierError::Ended);
            }
            if self.read_more()? == Progress::None && self.input == Direction::Open {
                return Ok(None);
            }
        }
    }

    fn park(&mut self, limit: Duration) {
        sleep_until_ready(&mut [self.poll_fd()], limit);
    }

    fn finish(&mut self) {
        self.output = Direction::Ended;
        self.tls.send_close_notify();
        // The other end has what matters already, or is past caring.
        let _ = self.flush();
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

/// Sleeps until one of `fds` is ready, or for `limit`. An interrupted sleep ends early, which no caller minds.
pub(super) fn sleep_until_ready(fds: &mut [PollFd<'_>], limit: Duration) {
    let limit = Timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos() as _ };
    if let Err(error) = poll(fds, Some(&limit)) {
        tracing::trace!(%error, "poll ended early");
    }
}

fn broken(error: io::Error) -> CarrierError {
    CarrierError::Broken(error.to_string())
}
