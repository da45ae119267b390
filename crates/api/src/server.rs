//! The listening socket: binds it, serves connections within limits, and ends in good order.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use domain::{Hint, Hints};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use node::home::ApiFile;
use node::{HomeError, NodeHandle};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::backend::Backend;
use crate::feed::Feed;
use crate::guard::{Exposure, Guard};
use crate::routes::{Api, router};
use crate::token::Token;

/// Who may reach the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bind {
    /// Programs of this machine.
    Loopback,
    /// Every machine of the network; then all but the UI's files wants the token.
    Lan,
}

/// Ports tried, beginning with the one asked for. Several nodes on one machine are normal; dozens are not.
const PORTS_TRIED: u16 = 16;

/// Connections at once. A browser opens six, a busy program some dozens.
const CONNECTIONS_MAX: usize = 256;

/// How long a client may take to send its request's headers.
const HEADERS_WAIT: Duration = Duration::from_secs(10);

/// Headers of all our clients together have not half as many, nor a quarter of these bytes.
const HEADERS_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 64 << 10;

/// How long answers that run may go on once the server is told to end.
const DRAIN_DEADLINE: Duration = Duration::from_secs(5);

/// Wait after an `accept` that failed: out of file descriptors, in general, which passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen on ports {first} to {last} of {ip}")]
    Bind {
        ip: IpAddr,
        first: u16,
        last: u16,
        #[source]
        error: io::Error,
    },
    #[error(transparent)]
    Announce(#[from] HomeError),
}

impl Hint for ServeError {
    fn hints(&self) -> Hints {
        match self {
            Self::Bind { .. } => vec!["choose another port with `--port`, or any free one with `--port 0`".to_owned()],
            Self::Announce(error) => error.hints(),
        }
    }
}

/// A running server. Dropping it stops it at once; [`shutdown`](Self::shutdown) lets answers end first.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    token: Token,
    draining: CancellationToken,
    accepting: JoinHandle<()>,
    /// Lets other programs of this user find the server, as long as it runs.
    announced: Option<ApiFile>,
}

/// Serves the API of `node`, on its port, with its token; programs of the same user find it through the node's home.
pub async fn serve(node: NodeHandle, bind: Bind) -> Result<Server, ServeError> {
    let (port, token) = (node.config().api_port, Token::of(node.api_token()));
    let mut server = Server::start(Arc::new(node.clone()), bind, port, token).await?;
    server.announced = Some(node.announce_api(&server.url())?);
    Ok(server)
}

impl Server {
    /// Listens on `port` or, if that is taken, on the next free one; port 0 takes any.
    pub async fn start(backend: Arc<dyn Backend>, bind: Bind, port: u16, token: Token) -> Result<Self, ServeError> {
        let (ip, exposure) = match bind {
            Bind::Loopback => (IpAddr::V4(Ipv4Addr::LOCALHOST), Exposure::Loopback),
            Bind::Lan => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), Exposure::Lan),
        };
        let (listener, address) = listen(ip, port).await?;
        let guard = Arc::new(Guard { port: address.port(), exposure, token: token.clone() });
        let draining = CancellationToken::new();
        let feed = Feed::new(backend.clone());
        let api = Api::new(backend.clone(), feed.clone(), base_url(address.port()), draining.clone());
        let follow = follow_changes(backend, feed);
        let accept = accept(listener, router(api, guard), draining.clone());
        let accepting = tokio::spawn(async move {
            tokio::select! {
                () = accept => {}
                // The node is gone, and with it all that there is to serve; `accept` still ends in good order.
                never = follow => match never {},
            }
        });
        tracing::info!(%address, ?bind, "the API listens");
        Ok(Self { address, token, draining, accepting, announced: None })
    }

    /// For programs of this machine, without a final slash.
    pub fn url(&self) -> String {
        base_url(self.address.port())
    }

    /// The UI's address with the token in it, as a person opens it in a browser. The part after `#` never leaves
    /// the browser.
    pub fn ui_url(&self) -> String {
        format!("{}/#token={}", self.url(), self.token.reveal())
    }

    pub fn token(&self) -> &Token {
        &self.token
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more requests, ends streams of events, and gives running answers a few seconds.
    pub async fn shutdown(mut self) {
        // Who looks for a server now shall not find one that takes nothing.
        drop(self.announced.take());
        self.draining.cancel();
        if let Err(error) = (&mut self.accepting).await {
            tracing::warn!(%error, "the API's task ended badly");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn base_url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

async fn listen(ip: IpAddr, port: u16) -> Result<(TcpListener, SocketAddr), ServeError> {
    let last = if port == 0 { 0 } else { port.saturating_add(PORTS_TRIED - 1) };
    let mut next = port;
    loop {
        let bound = match TcpListener::bind(SocketAddr::new(ip, next)).await {
            Ok(listener) => listener.local_addr().map(|address| (listener, address)),
            Err(error) => Err(error),
        };
        match bound {
            Ok(bound) => return Ok(bound),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && next < last => next += 1,
            Err(error) => return Err(ServeError::Bind { ip, first: port, last: next, error }),
        }
    }
}

/// Looks at the cluster whenever it may have changed, so that events go out unasked.
async fn follow_changes(backend: Arc<dyn Backend>, feed: Feed) -> std::convert::Infallible {
    use futures::StreamExt as _;
    let mut changes = backend.changes();
    while changes.next().await.is_some() {
        feed.snapshot();
    }
    std::future::pending().await
}

async fn accept(listener: TcpListener, router: Router, draining: CancellationToken) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let graceful = GracefulShutdown::new();
    // Dropped, and so aborted, when this function ends or is aborted itself.
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let slot = slots.clone().acquire_owned().await;
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            next = next => next,
            Some(_) = connections.join_next() => continue,
            () = draining.cancelled() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = graceful.watch(connection(stream, router.clone()));
                connections.spawn(async move {
                    let _slot = slot;
                    if let Err(error) = connection.await {
                        tracing::debug!(%error, "a connection ended");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    if timeout(DRAIN_DEADLINE, graceful.shutdown()).await.is_err() {
        tracing::warn!(deadline = ?DRAIN_DEADLINE, "answers that still run are cut off");
    }
}

fn connection(stream: TcpStream, router: Router) -> http1::Connection<TokioIo<TcpStream>, TowerToHyperService<Router>> {
    // A token is a small packet, and each one counts.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WAIT)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
}
