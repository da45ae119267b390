//! The measuring end.

use std::time::{Duration, Instant};

use domain::{Bytes, BytesPerSec, Fact, LinkFacts, NodeId};
use tokio::time::timeout;

use super::interface;
use super::serve::{PING, PING_LEN, POUR, POUR_MAX};
use crate::home::wall_clock;
use crate::secure::{FrameError, NetStream, OpenError, SecureNet, StreamKind};

/// The first messages wake things up (radios, caches) and do not count.
const WARM_UPS: usize = 2;
/// Enough for a median that one late packet does not move.
const PINGS: usize = 15;
/// Pouring stops here on links that take longer for all the bytes.
const POUR_FOR: Duration = Duration::from_secs(1);
/// As much as is handed to the stream at once.
const CHUNK_LEN: usize = 64 << 10;
/// The whole measurement; what is still under way after the pouring must arrive too.
const WITHIN: Duration = Duration::from_secs(12);

#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("no stream for the measurement")]
    Open(#[from] OpenError),
    #[error("the measurement broke off")]
    Stream(#[from] FrameError),
    #[error("the measurement took longer than {} s", WITHIN.as_secs())]
    TooSlow,
    #[error("what came back is not what was sent")]
    WrongAnswer,
}

/// Measures the link to a connected node, once.
pub async fn measure(net: &SecureNet, to: NodeId) -> Result<LinkFacts, ProbeError> {
    let stream = net.open(to, StreamKind::Probe).await?;
    let (latency, bandwidth) = timeout(WITHIN, exchange(stream)).await.map_err(|_| ProbeError::TooSlow)??;
    let carrier = match net.remote_addr(to) {
        Some(remote) => interface::carrier(net.local_ip(to), remote.ip()).await,
        None => interface::Carrier::default(),
    };
    let at = wall_clock();
    let known = |kind| Fact::known(kind, at);
    Ok(LinkFacts {
        to,
        kind: carrier.kind.map_or(Fact::Unknown, known),
        interface: carrier.interface.map_or(Fact::Unknown, |name| Fact::known(name, at)),
        latency: Fact::known(latency, at),
        bandwidth: Fact::known(bandwidth, at),
    })
}

async fn exchange(mut stream: NetStream) -> Result<(Duration, BytesPerSec), ProbeError> {
    let mut round_trips = Vec::with_capacity(PINGS);
    for n_sent in 0..WARM_UPS + PINGS {
        let round_trip = ping(&mut stream, n_sent as u64).await?;
        if n_sent >= WARM_UPS {
            round_trips.push(round_trip);
        }
    }
    round_trips.sort_unstable();
    let latency = round_trips[PINGS / 2];
    let bandwidth = pour(stream, latency).await?;
    Ok((latency, bandwidth))
}

async fn ping(stream: &mut NetStream, message: u64) -> Result<Duration, ProbeError> {
    let mut request = [PING; 1 + PING_LEN];
    request[1..].copy_from_slice(&message.to_be_bytes());
    let sent = Instant::now();
    stream.send.write_raw(&request).await?;
    let mut answer = [0; PING_LEN];
    stream.recv.read_raw(&mut answer).await?;
    if answer != message.to_be_bytes() {
        return Err(ProbeError::WrongAnswer);
    }
    Ok(sent.elapsed())
}

/// Bytes a second, one way: from the first byte to the answer that all have arrived, less the way of that answer and
/// of the first byte.
async fn pour(NetStream { mut send, mut recv, .. }: NetStream, latency: Duration) -> Result<BytesPerSec, ProbeError> {
    let chunk = vec![0; CHUNK_LEN];
    let start = Instant::now();
    send.write_raw(&[POUR]).await?;
    let mut n_sent = 0;
    while n_sent + CHUNK_LEN as u64 <= POUR_MAX && start.elapsed() < POUR_FOR {
        send.write_raw(&chunk).await?;
        n_sent += CHUNK_LEN as u64;
    }
    send.finish();
    let mut answer = [0; 8];
    recv.read_raw(&mut answer).await?;
    let took = start.elapsed().saturating_sub(latency);
    match u64::from_be_bytes(answer) {
        n_arrived if n_arrived == n_sent => Ok(Bytes::new(n_arrived) / took),
        _ => Err(ProbeError::WrongAnswer),
    }
}
