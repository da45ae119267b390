//! Takes calls from the expected ranks, and is not held up by anybody else.
//!
//! All callers are heard at once, each against its own clock: one that says nothing, says nonsense or has no
//! business here costs a place in a short list for a few seconds, and a good one is answered meanwhile.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener as Socket, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::NodeId;
use rustix::event::{PollFd, PollFlags};
use rustls::{ServerConfig, ServerConnection};

use super::carrier::{TcpCarrier, sleep_until_ready};
use super::{DATA_ALPN, Expect, HANDSHAKE_MAX, TcpLink};
use crate::carrier::{Carrier, CarrierError};
use crate::error::LinkError;
use crate::flow::{Flow, Mode, Taken};
use crate::frame::Kind;
use crate::framed::FramedLink;
use crate::hello::{Hello, Refusal};
use crate::identity::{Identity, Peers, peer_id};
use crate::pinned::unknown_key;
use crate::wait::{PARK_MAX, Stopped, Wait};

/// Callers heard at once. A deployment has a few; a port scanner may open dozens. Beyond this the one that has
/// taken longest is dropped, for a good caller is done within milliseconds.
const CALLERS_MAX: usize = 32;

/// How long a refused caller gets to read why. Closing at once could throw the reason away with what it had sent.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// The place where the links of one rank are accepted.
pub struct TcpListener {
    identity: Identity,
    socket: Socket,
    addr: SocketAddr,
    /// Oldest first. They outlive one `accept`, so that two who call at once are both heard.
    callers: Vec<Caller>,
    /// The last caller that proved who it is and was refused, in words.
    turned_away: Option<String>,
}

impl TcpListener {
    /// Port 0 takes any free one; [`TcpListener::local_addr`] says which.
    pub fn bind(identity: &Identity, addr: SocketAddr) -> Result<Self, LinkError> {
        let cannot = |error: std::io::Error| LinkError::Listen { addr, cause: error.to_string() };
        let socket = Socket::bind(addr).map_err(cannot)?;
        socket.set_nonblocking(true).map_err(cannot)?;
        let addr = socket.local_addr().map_err(cannot)?;
        Ok(Self { identity: identity.clone(), socket, addr, callers: Vec::new(), turned_away: None })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Waits for one of the expected ranks. Call it once for each: `expect` without those that are there already.
    pub fn accept(&mut self, expect: &Expect, wait: &Wait) -> Result<(Hello, TcpLink), LinkError> {
        let since = Instant::now();
        let nodes: BTreeSet<NodeId> = expect.from.values().copied().collect();
        let config = Arc::new(self.identity.server_config(Peers::Only(nodes.clone()), &[DATA_ALPN])?);
        loop {
            self.admit(&config);
            if let Some(accepted) = self.hear(expect) {
                return Ok(accepted);
            }
            match wait.check() {
                Ok(()) => (),
                Err(Stopped::Cancelled) => return Err(LinkError::Cancelled),
                Err(Stopped::Deadline) => {
                    let (waited, expected) = (since.elapsed(), nodes.into_iter().collect());
                    return Err(LinkError::NobodyCame { waited, expected, turned_away: self.turned_away.take() });
                }
            }
            self.park(wait.deadline.saturating_duration_since(Instant::now()).min(PARK_MAX));
        }
    }

    /// Lets everybody in who stands at the door.
    fn admit(&mut self, config: &Arc<ServerConfig>) {
        loop {
            match self.socket.accept() {
                Ok((socket, addr)) => match Caller::new(socket, addr, config) {
                    Ok(caller) => {
                        if self.callers.len() == CALLERS_MAX {
                            let oldest = self.callers.remove(0);
                            tracing::debug!(addr = %oldest.addr, "too many callers, dropped the slowest");
                        }
                        self.callers.push(caller);
                    }
                    Err(error) => tracing::debug!(%addr, %error, "could not take a call"),
                },
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => {
                    // Out of file descriptors, say: the call still waits, so looking again at once would spin.
                    tracing::warn!(addr = %self.addr, %error, "cannot take calls");
                    std::thread::sleep(PARK_MAX);
                    return;
                }
            }
        }
    }

    /// Hears every caller on, and returns the first that may stay.
    fn hear(&mut self, expect: &Expect) -> Option<(Hello, TcpLink)> {
        let mut idx = 0;
        while idx < self.callers.len() {
            match self.callers[idx].hear(expect) {
                Heard::More => idx += 1,
                Heard::Nothing => drop(self.callers.remove(idx)),
                Heard::Refused(who) => {
                    self.turned_away = Some(who);
                    idx += 1;
                }
                Heard::Welcome(node, hello) => {
                    let Caller { carrier, flow, .. } = self.callers.remove(idx);
                    return Some((hello, FramedLink::new(node, carrier, flow)));
                }
            }
        }
        None
    }

    fn park(&self, limit: Duration) {
        let door = PollFd::new(&self.socket, PollFlags::IN);
        let mut fds: Vec<_> = std::iter::once(door).chain(self.callers.iter().map(|c| c.carrier.poll_fd())).collect();
        sleep_until_ready(&mut fds, limit);
    }
}

/// Somebody who has connected and has not yet been let in.
struct Caller {
    addr: SocketAddr,
    carrier: TcpCarrier,
    flow: Flow,
    stage: Stage,
}

enum Stage {
    /// TLS, then its hello, from then on.
    Greeting(Instant),
    /// It was told why not, and when.
    Leaving(Instant),
}

enum Heard {
    More,
    /// It has gone, or has had its time.
    Nothing,
    /// It was told so, and is leaving.
    Refused(String),
    Welcome(NodeId, Hello),
}

impl Caller {
    fn new(socket: TcpStream, addr: SocketAddr, config: &Arc<ServerConfig>) -> Result<Self, std::io::Error> {
        let tls = ServerConnection::new(config.clone()).map_err(std::io::Error::other)?;
        let carrier = TcpCarrier::new(socket, tls.into())?;
        Ok(Self { addr, carrier, flow: Flow::new(), stage: Stage::Greeting(Instant::now()) })
    }

    fn hear(&mut self, expect: &Expect) -> Heard {
        match self.stage {
            Stage::Leaving(since) if since.elapsed() > LEAVE_MAX || self.carrier.drain() => Heard::Nothing,
            Stage::Leaving(_) => Heard::More,
            Stage::Greeting(since) if since.elapsed() > HANDSHAKE_MAX => {
                tracing::debug!(addr = %self.addr, "a caller took too long to greet");
                Heard::Nothing
            }
            Stage::Greeting(_) => self.hear_greeting(expect),
        }
    }

    fn hear_greeting(&mut self, expect: &Expect) -> Heard {
        let arrived = self.carrier.flush().and_then(|_| self.carrier.take());
        let taken = match arrived {
            Ok(None) => return Heard::More,
            Ok(Some(frame)) => self.flow.take(frame).ok(),
            Err(CarrierError::Tls(error)) => {
                tracing::debug!(addr = %self.addr, %error, "a caller failed the TLS handshake");
                return match unknown_key(&error) {
                    Some(node) => {
                        self.leave(format!("node {} at {}: its key is not expected", node.short(), self.addr))
                    }
                    None => self.leave(format!("a stranger at {}: {error}", self.addr)),
                };
            }
            Err(CarrierError::OtherVersion { .. } | CarrierError::Corrupt(_)) => None,
            Err(error @ (CarrierError::Ended | CarrierError::Broken(_))) => {
                tracing::debug!(addr = %self.addr, %error, "a caller went away");
                return Heard::Nothing;
            }
        };
        let tls = self.carrier.tls();
        let Some(node) = tls.peer_certificates().and_then(peer_id).filter(|_| tls.alpn_protocol() == Some(DATA_ALPN))
        else {
            return self.leave(format!("a stranger at {}: it does not speak the data protocol", self.addr));
        };
        match taken {
            Some(Taken::Hello(hello)) => match expect.judge(node, &hello) {
                Ok(()) => self.welcome(node, hello),
                Err(why) => self.refuse(node, why),
            },
            Some(Taken::Refused(_) | Taken::Data | Taken::Credit | Taken::Close) | None => {
                self.refuse(node, Refusal::Protocol)
            }
        }
    }

    fn welcome(&mut self, node: NodeId, hello: Hello) -> Heard {
        match self.say(Kind::Hello, &hello.encode()) {
            Ok(()) => Heard::Welcome(node, hello),
            Err(error) => {
                tracing::debug!(addr = %self.addr, %error, "a caller went away");
                Heard::Nothing
            }
        }
    }

    fn refuse(&mut self, node: NodeId, why: Refusal) -> Heard {
        tracing::warn!(addr = %self.addr, node = %node.short(), reason = ?why, "turned a caller away");
        if let Err(error) = self.say(Kind::Refuse, &[why.encode()]) {
            tracing::debug!(addr = %self.addr, %error, "a caller went away");
            return Heard::Nothing;
        }
        self.leave(format!("node {} at {}, to which: {why}", node.short(), self.addr))
    }

    /// A few bytes into an empty socket: they go at once, or the socket is dead.
    fn say(&mut self, kind: Kind, payload: &[u8]) -> Result<(), CarrierError> {
        let mut frame = Vec::new();
        self.flow.send(kind, payload, Mode::Receiving, &mut frame);
        self.carrier.put(&frame)?;
        self.carrier.flush().map(|_| ())
    }

    fn leave(&mut self, who: String) -> Heard {
        self.carrier.finish();
        self.stage = Stage::Leaving(Instant::now());
        Heard::Refused(who)
    }
}
