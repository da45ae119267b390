//! Calls a rank: tries its addresses until one leads to the right key.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::NodeId;
use rustix::event::{PollFd, PollFlags};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig, ClientConnection};
use socket2::{Domain, Socket, Type};

use super::carrier::{TcpCarrier, sleep_until_ready};
use super::{DATA_ALPN, HANDSHAKE_MAX, TcpLink};
use crate::carrier::{Carrier, CarrierError};
use crate::error::{Attempt, LinkError};
use crate::flow::{Flow, Mode, Taken};
use crate::frame::{Corruption, Kind};
use crate::framed::{FramedLink, lost, not_a_frame};
use crate::hello::{Hello, Refusal};
use crate::identity::{Identity, Peers, SERVER_NAME, peer_id};
use crate::pinned::unknown_key;
use crate::wait::{PARK_MAX, Stopped, Wait};

/// How long one address may take to answer. A machine on the same network answers in milliseconds; an address of a
/// network that is gone never does, and the others should have their turn.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Pauses between rounds over the addresses: doubled each time, from the first to the second.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Links this rank to the one that listens at one of `addrs` and holds `peer`'s key.
///
/// The addresses are tried in their order, again and again until the deadline: a rank may be told of its neighbour a
/// moment before that listens. An answer that waiting cannot change (another node's key, a refusal, another version)
/// ends it after one round.
pub fn tcp_connect(
    identity: &Identity,
    addrs: &[SocketAddr],
    peer: NodeId,
    hello: Hello,
    wait: &Wait,
) -> Result<TcpLink, LinkError> {
    let config = Arc::new(identity.client_config(Peers::Only([peer].into()), &[DATA_ALPN])?);
    let since = Instant::now();
    let mut pause = PAUSE_FIRST;
    loop {
        let mut tried = Vec::with_capacity(addrs.len());
        let mut verdict = None;
        for &addr in addrs {
            match (Call { addr, peer, hello, wait }).make(&config) {
                Ok(link) => return Ok(link),
                Err(Failed::Again(cause)) => {
                    tracing::debug!(%addr, node = %peer.short(), cause, "no link yet");
                    tried.push(Attempt { addr, cause });
                }
                Err(Failed::Cancelled) => return Err(LinkError::Cancelled),
                Err(Failed::Forever(error)) => verdict = Some(error),
            }
        }
        if let Some(error) = verdict {
            return Err(error);
        }
        let out_of_time = || LinkError::Unreachable { peer, waited: since.elapsed(), tried };
        if addrs.is_empty() || sleep(pause, wait)? == Slept::UntilDeadline {
            return Err(out_of_time());
        }
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// One attempt at one address.
struct Call<'a> {
    addr: SocketAddr,
    peer: NodeId,
    hello: Hello,
    wait: &'a Wait,
}

/// Why an attempt made no link.
enum Failed {
    Again(String),
    Cancelled,
    Forever(LinkError),
}

impl Call<'_> {
    fn make(&self, config: &Arc<ClientConfig>) -> Result<TcpLink, Failed> {
        let socket = self.connect()?;
        let name = ServerName::try_from(SERVER_NAME).map_err(|error| Failed::Again(error.to_string()))?;
        let tls = ClientConnection::new(config.clone(), name).map_err(|error| Failed::Again(error.to_string()))?;
        let carrier = TcpCarrier::new(socket, tls.into()).map_err(again)?;
        self.greet(carrier)
    }

    fn connect(&self) -> Result<TcpStream, Failed> {
        let give_up = Instant::now() + ANSWER_MAX;
        let socket = Socket::new(Domain::for_address(self.addr), Type::STREAM, None).map_err(again)?;
        socket.set_nonblocking(true).map_err(again)?;
        match socket.connect(&self.addr.into()) {
            Ok(()) => return Ok(socket.into()),
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => (),
            Err(error) => return Err(again(error)),
        }
        loop {
            self.check()?;
            sleep_until_ready(&mut [PollFd::new(&socket, PollFlags::OUT)], self.pause_until(give_up));
            if let Some(error) = socket.take_error().map_err(again)? {
                return Err(again(error));
            }
            if socket.peer_addr().is_ok() {
                return Ok(socket.into());
            }
            if Instant::now() >= give_up {
                return Err(Failed::Again(format!("no answer within {ANSWER_MAX:?}")));
            }
        }
    }

    fn greet(&self, mut carrier: TcpCarrier) -> Result<TcpLink, Failed> {
        let give_up = Instant::now() + HANDSHAKE_MAX;
        let mut flow = Flow::new();
        let mut frame = Vec::new();
        // TLS keeps it until the listener has proven its key.
        flow.send(Kind::Hello, &self.hello.encode(), Mode::Receiving, &mut frame);
        carrier.put(&frame).and_then(|()| carrier.flush()).map_err(|error| self.failed(error))?;
        let taken = loop {
            match carrier.take() {
                Ok(Some(frame)) => break flow.take(frame),
                Ok(None) if Instant::now() >= give_up => {
                    return Err(Failed::Again(format!("no handshake within {HANDSHAKE_MAX:?}")));
                }
                Ok(None) => {
                    self.check()?;
                    carrier.park(self.pause_until(give_up));
                    carrier.flush().map_err(|error| self.failed(error))?;
                }
                Err(error) => return Err(self.failed(error)),
            }
        };
        let tls = carrier.tls();
        let found = tls.peer_certificates().and_then(peer_id);
        if found != Some(self.peer) || tls.alpn_protocol() != Some(DATA_ALPN) {
            return Err(Failed::Forever(LinkError::WrongPeer { peer: self.peer, found, addr: self.addr }));
        }
        match taken {
            Ok(Taken::Hello(echo)) if echo == self.hello => Ok(FramedLink::new(self.peer, carrier, flow)),
            Ok(Taken::Refused(reason)) => Err(Failed::Forever(LinkError::Refused { peer: self.peer, reason })),
            Ok(Taken::Hello(_) | Taken::Data | Taken::Credit | Taken::Close) => {
                let cause = Corruption::Unexpected { frame: "greeting of another link" };
                Err(Failed::Forever(LinkError::Corrupt { peer: self.peer, cause }))
            }
            Err(error) => Err(Failed::Forever(not_a_frame(self.peer, error))),
        }
    }

    fn failed(&self, error: CarrierError) -> Failed {
        let peer = self.peer;
        match error {
            CarrierError::Ended | CarrierError::Broken(_) => Failed::Again(error.to_string()),
            CarrierError::OtherVersion { .. } | CarrierError::Corrupt(_) => Failed::Forever(lost(peer, error)),
            CarrierError::Tls(error) => {
                if let Some(found) = unknown_key(&error) {
                    Failed::Forever(LinkError::WrongPeer { peer, found: Some(found), addr: self.addr })
                } else if error == rustls::Error::AlertReceived(AlertDescription::CertificateUnknown) {
                    Failed::Forever(LinkError::Refused { peer, reason: Refusal::Key })
                } else {
                    Failed::Again(error.to_string())
                }
            }
        }
    }

    fn check(&self) -> Result<(), Failed> {
        match self.wait.check() {
            Ok(()) => Ok(()),
            Err(Stopped::Cancelled) => Err(Failed::Cancelled),
            Err(Stopped::Deadline) => Err(Failed::Again("no answer before the deadline".to_owned())),
        }
    }

    fn pause_until(&self, give_up: Instant) -> Duration {
        give_up.min(self.wait.deadline).saturating_duration_since(Instant::now()).min(PARK_MAX)
    }
}

fn again(error: io::Error) -> Failed {
    Failed::Again(error.to_string())
}

#[derive(PartialEq, Eq)]
enum Slept {
    Through,
    UntilDeadline,
}

fn sleep(pause: Duration, wait: &Wait) -> Result<Slept, LinkError> {
    let until = Instant::now() + pause;
    loop {
        match wait.check() {
            Ok(()) => (),
            Err(Stopped::Cancelled) => return Err(LinkError::Cancelled),
            Err(Stopped::Deadline) => return Ok(Slept::UntilDeadline),
        }
        let now = Instant::now();
        if now >= until {
            return Ok(Slept::Through);
        }
        std::thread::sleep((until - now).min(PARK_MAX).min(wait.deadline.saturating_duration_since(now)));
    }
}
