//! The end that shows the code.

use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::NodeId;
use quinn::{Connection, VarInt};
use tokio::time::timeout;

use super::desk::Refusal;
use super::exchange::{BadExchange, Exchange, PairingKeys, Parties, Role, channel_binding};
use super::store;
use super::wire::{EXCHANGE_WITHIN, read};
use crate::secure::close::CloseCode;
use crate::secure::endpoint::remote_addr;
use crate::secure::frame::{FrameError, FrameReader, FrameWriter};
use crate::secure::hello::shown_name;
use crate::secure::shared::Shared;

/// From the handshake to the guest's first message, which it sends without being asked.
const FIRST_WITHIN: Duration = Duration::from_secs(3);
/// For the last frame to arrive before the connection goes.
const LINGER: Duration = Duration::from_secs(2);
/// A pairing is one stream.
const STREAMS_MAX: VarInt = VarInt::from_u32(1);

/// Answers a machine that wants to pair. Until it has proven that it knows the code it can do nothing but fail.
pub(in crate::secure) async fn serve_guest(net: &Arc<Shared>, connection: Connection, guest: NodeId) {
    if guest == net.me {
        return CloseCode::Protocol.close(&connection, "it is this node itself");
    }
    if let Err(refusal) = net.desk.lock().check(Instant::now()) {
        return refusal.close(&connection);
    }
    connection.set_max_concurrent_bi_streams(STREAMS_MAX);
    let Ok(Ok((mut talk, message))) = timeout(FIRST_WITHIN, Talk::begin(&connection)).await else {
        return CloseCode::Protocol.close(&connection, "nothing was asked");
    };
    let begun = net.desk.lock().begin(Instant::now());
    let (attempt, code) = match begun {
        Ok(begun) => begun,
        Err(refusal) => return refusal.close(&connection),
    };
    let (exchange, own) = Exchange::start(Role::Host, &code, Parties { guest, host: net.me });
    let proven = timeout(EXCHANGE_WITHIN, talk.prove(&connection, exchange, &own, &message)).await;
    let keys = match proven {
        Ok(Ok(keys)) => keys,
        Ok(Err(_)) | Err(_) => {
            let refusal = net.desk.lock().fail(attempt, Instant::now());
            tracing::warn!(from = %connection.remote_address(), ?refusal, "a pairing with a wrong code");
            refusal.close(&connection);
            if let Refusal::Locked { .. } = refusal {
                net.desk.tell_change(net).await;
            }
            return;
        }
    };
    let accepted = net.desk.lock().accept(attempt);
    if let Err(refusal) = accepted {
        return refusal.close(&connection);
    }
    net.desk.tell_change(net).await;
    let stored = timeout(EXCHANGE_WITHIN, talk.exchange_names(net, &connection, guest, &keys)).await;
    match stored {
        Ok(Ok(())) => {
            let _ = timeout(LINGER, connection.closed()).await;
        }
        Ok(Err(why)) => {
            tracing::warn!(guest = %guest.short(), why, "a pairing broke off after its proof");
            CloseCode::Protocol.close(&connection, "the pairing failed");
        }
        Err(_) => {
            tracing::warn!(guest = %guest.short(), "a pairing took too long after its proof");
            CloseCode::Protocol.close(&connection, "the pairing took too long");
        }
    }
}

/// The pairing's stream.
struct Talk {
    writer: FrameWriter,
    reader: FrameReader,
}

impl Talk {
    /// The stream and the guest's first message.
    async fn begin(connection: &Connection) -> Result<(Self, bytes::Bytes), FrameError> {
        let (send, recv) = connection.accept_bi().await.map_err(FrameError::Lost)?;
        let mut talk = Self { writer: FrameWriter::new(send), reader: FrameReader::new(recv) };
        let message = read(&mut talk.reader).await?;
        Ok((talk, message))
    }

    /// Sends `own`, and returns keys only if the guest has proven that its are the same.
    async fn prove(
        &mut self,
        connection: &Connection,
        exchange: Exchange,
        own: &[u8],
        guests: &[u8],
    ) -> Result<PairingKeys, NotProven> {
        self.writer.write(own).await?;
        let keys = exchange.finish(guests, &channel_binding(connection)?)?;
        keys.verify(&read(&mut self.reader).await?)?;
        Ok(keys)
    }

    /// Exchanges names, and stores the guest under its own.
    async fn exchange_names(
        &mut self,
        net: &Arc<Shared>,
        connection: &Connection,
        guest: NodeId,
        keys: &PairingKeys,
    ) -> Result<(), String> {
        let sealed = keys.seal(&net.hello().name).map_err(|error| error.to_string())?;
        let answer = [&keys.prove()[..], &sealed].concat();
        self.writer.write(&answer).await.map_err(|error| error.to_string())?;
        let sealed = read(&mut self.reader).await.map_err(|error| error.to_string())?;
        let name = shown_name(&keys.unseal(&sealed).map_err(|error| error.to_string())?);
        store(net, guest, &name, remote_addr(connection)).await.map_err(|error| error.to_string())?;
        self.writer.write(&[]).await.map_err(|error| error.to_string())
    }
}

/// How does not matter: each way costs the same try and is answered alike.
struct NotProven;

impl From<FrameError> for NotProven {
    fn from(_: FrameError) -> Self {
        Self
    }
}

impl From<BadExchange> for NotProven {
    fn from(_: BadExchange) -> Self {
        Self
    }
}
