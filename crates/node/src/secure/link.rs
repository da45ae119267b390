//! One connection between two paired nodes, from the hello to its end.
//!
//! Each end opens one stream for its messages, whose first frame is its [`Hello`]; both ends open a stream more for
//! each request. Nothing is read, and nobody is told of the connection, before both hellos are in.

use std::sync::Arc;
use std::time::Duration;

use domain::NodeId;
use quinn::{Connection, RecvStream, SendStream, VarInt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::close::{CloseCode, describe};
use super::endpoint::remote_addr;
use super::event::NetEvent;
use super::frame::{FrameError, FrameReader, FrameWriter};
use super::hello::Hello;
use super::queue::{Queue, Queued};
use super::shared::Shared;
use super::stream::{NetStream, StreamKind};
use super::table::{LinkHandle, Origin};

/// From the handshake to both hellos.
const HELLO_WITHIN: Duration = Duration::from_secs(3);
/// A hello holds two short texts and a number.
const HELLO_LEN_MAX: usize = 4 << 10;
/// The other end has one stream for its messages.
const MESSAGE_STREAMS_MAX: VarInt = VarInt::from_u32(1);
/// Requests that one node may have open at another at once: far more than one model answers in parallel.
const REQUEST_STREAMS_MAX: VarInt = VarInt::from_u32(64);
/// From the opening of a request's stream to the byte that says what it is for.
const KIND_WITHIN: Duration = Duration::from_secs(3);
/// A node that takes nothing for so long while its machine still answers keep-alives hangs.
const STALL_MAX: Duration = Duration::from_secs(10);
/// For what was under way on a connection when another took its place.
const REPLACED_LINGER: Duration = Duration::from_millis(500);

/// How a connection ended, for whoever dialled it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LinkEnd {
    /// It stood for the node for a while.
    WasUp,
    /// The nodes had a better one.
    Duplicate,
    /// It never stood for the node.
    NeverUp(String),
    /// The other node does not know this one.
    NotPaired(String),
}

/// Runs a connection whose other end has proven to be `node`, a node of the peer book.
pub(super) async fn run(net: &Arc<Shared>, connection: Connection, node: NodeId, dialled_by: NodeId) -> LinkEnd {
    connection.set_max_concurrent_uni_streams(MESSAGE_STREAMS_MAX);
    let greeted = timeout(HELLO_WITHIN, greet(&connection, &net.hello())).await;
    let (hello, writer, reader) = match greeted {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(fault)) => return refused(&connection, Some(fault)),
        Err(_) => return refused(&connection, None),
    };
    let (queue, queued) = Queue::new();
    let replaced = CancellationToken::new();
    let link = LinkHandle {
        connection: connection.clone(),
        origin: Origin { dialled_by, session: hello.session },
        queue,
        addr: remote_addr(&connection),
        replaced: replaced.clone(),
    };
    match net.register(node, link, &hello).await {
        Registration::Stands => {}
        Registration::Duplicate => {
            CloseCode::Duplicate.close(&connection, "there is another connection");
            return LinkEnd::Duplicate;
        }
        Registration::NotPaired => {
            CloseCode::NotPaired.close(&connection, "not paired");
            return LinkEnd::NeverUp("it was removed from the peer book".to_owned());
        }
    }
    connection.set_max_concurrent_bi_streams(REQUEST_STREAMS_MAX);

    let mut tasks = JoinSet::new();
    tasks.spawn(write_messages(writer, queued));
    tasks.spawn(read_messages(net.clone(), node, reader));
    tasks.spawn(accept_streams(net.clone(), node, connection.clone()));
    let why = watch_over(net, &connection, &replaced, tasks).await;
    net.unregister(node, &connection, why).await;
    LinkEnd::WasUp
}

/// What became of a connection that wants to stand for its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registration {
    Stands,
    Duplicate,
    NotPaired,
}

async fn greet(connection: &Connection, own: &Hello) -> Result<(Hello, FrameWriter, FrameReader), FrameError> {
    let say = async {
        let mut writer = FrameWriter::new(connection.open_uni().await.map_err(FrameError::Lost)?);
        writer.write_json(own).await?;
        Ok(writer)
    };
    let hear = async {
        let mut reader = FrameReader::new(connection.accept_uni().await.map_err(FrameError::Lost)?);
        let frame = reader.read_up_to(HELLO_LEN_MAX).await?.ok_or(FrameError::Truncated)?;
        let hello: Hello = serde_json::from_slice(&frame).map_err(FrameError::Malformed)?;
        Ok((hello.cleaned(), reader))
    };
    let (writer, (hello, reader)) = tokio::try_join!(say, hear)?;
    Ok((hello, writer, reader))
}

/// The end of a connection before both hellos were in. `fault` is `None` if they took too long.
fn refused(connection: &Connection, fault: Option<FrameError>) -> LinkEnd {
    let ended = connection.close_reason();
    if let Some((code, _)) = ended.as_ref().and_then(CloseCode::by_other_end) {
        let why = ended.as_ref().map(describe).unwrap_or_default();
        return match code {
            CloseCode::NotPaired => LinkEnd::NotPaired(why),
            CloseCode::Duplicate => LinkEnd::Duplicate,
            CloseCode::Done
            | CloseCode::ShuttingDown
            | CloseCode::Protocol
            | CloseCode::Stalled
            | CloseCode::NotShowing
            | CloseCode::Locked
            | CloseCode::WrongCode
            | CloseCode::Busy => LinkEnd::NeverUp(why),
        };
    }
    let why = match (&ended, &fault) {
        (Some(ended), _) => describe(ended),
        (None, Some(fault)) => format!("it did not say who it is: {fault}"),
        (None, None) => format!("it did not say who it is within {} s", HELLO_WITHIN.as_secs()),
    };
    CloseCode::Protocol.close(connection, &why);
    LinkEnd::NeverUp(why)
}

/// How a task of a connection ended that the connection may outlive.
enum TaskEnd {
    /// Nothing more to do; if the connection was lost, its end tells why.
    Done,
    /// The connection must not go on.
    Fatal(CloseCode, String),
}

/// Waits for the end of the connection and says why it came.
async fn watch_over(
    net: &Shared,
    connection: &Connection,
    replaced: &CancellationToken,
    mut tasks: JoinSet<TaskEnd>,
) -> String {
    loop {
        tokio::select! {
            error = connection.closed() => return describe(&error),
            () = net.stop.cancelled() => {
                CloseCode::ShuttingDown.close(connection, "shutting down");
                return "this node is shutting down".to_owned();
            }
            () = replaced.cancelled() => {
                // No sender is left, so the writer empties its queue and ends; reading goes on until then.
                let _ = timeout(REPLACED_LINGER, connection.closed()).await;
                CloseCode::Duplicate.close(connection, "another connection took its place");
                return "another connection took its place".to_owned();
            }
            Some(ended) = tasks.join_next() => match ended {
                Ok(TaskEnd::Done) => {}
                Ok(TaskEnd::Fatal(code, why)) => {
                    code.close(connection, &why);
                    return why;
                }
                Err(error) => {
                    CloseCode::Protocol.close(connection, "a fault of the program");
                    return format!("a fault of the program: {error}");
                }
            },
        }
    }
}

async fn write_messages(mut writer: FrameWriter, mut queued: mpsc::Receiver<Queued>) -> TaskEnd {
    while let Some(next) = queued.recv().await {
        match timeout(STALL_MAX, writer.write(&next.message)).await {
            Ok(Ok(())) => {}
            Ok(Err(FrameError::Abandoned)) => {
                return TaskEnd::Fatal(CloseCode::Protocol, "it does not want messages".to_owned());
            }
            Ok(Err(_)) => return TaskEnd::Done,
            Err(_) => {
                let why = format!("it took no message for {} s", STALL_MAX.as_secs());
                return TaskEnd::Fatal(CloseCode::Stalled, why);
            }
        }
    }
    writer.finish_and_wait().await;
    TaskEnd::Done
}

/// The node takes its events as fast as it can; while it does not, the window of the stream fills and the other end
/// waits. So a flood costs this node one message and one window.
async fn read_messages(net: Arc<Shared>, node: NodeId, mut reader: FrameReader) -> TaskEnd {
    loop {
        match reader.read().await {
            Ok(Some(bytes)) => net.tell(NetEvent::Message { from: node, bytes }).await,
            Ok(None) | Err(FrameError::Lost(_)) => return TaskEnd::Done,
            Err(error) => return TaskEnd::Fatal(CloseCode::Protocol, error.to_string()),
        }
    }
}

async fn accept_streams(net: Arc<Shared>, node: NodeId, connection: Connection) -> TaskEnd {
    // At most REQUEST_STREAMS_MAX tasks: each holds a stream.
    let mut handlers = JoinSet::new();
    while let Ok((send, recv)) = connection.accept_bi().await {
        handlers.spawn(accept_stream(net.clone(), node, send, recv));
        while handlers.try_join_next().is_some() {}
    }
    TaskEnd::Done
}

async fn accept_stream(net: Arc<Shared>, node: NodeId, send: SendStream, recv: RecvStream) {
    let (send, mut recv) = (FrameWriter::new(send), FrameReader::new(recv));
    let mut byte = [0];
    let Ok(Ok(())) = timeout(KIND_WITHIN, recv.read_raw(&mut byte)).await else { return };
    match StreamKind::from_byte(byte[0]) {
        Some(kind) => net.tell(NetEvent::Stream { from: node, stream: NetStream { kind, send, recv } }).await,
        None => tracing::debug!(node = %node.short(), kind = byte[0], "refused a stream of an unknown kind"),
    }
}
