//! Connections from outside: strangers are few at a time, know nothing and can do nothing.

use std::sync::Arc;

use quinn::{Connection, Endpoint, Incoming};
use tokio::time::timeout;

use super::close::CloseCode;
use super::endpoint::{ALPN, CONNECT_WITHIN, PAIR_ALPN, negotiated_alpn, proven_node};
use super::shared::Shared;
use super::{link, pairing};

/// Connections at once whose other end is not yet known to be paired: as many as the nodes there can be, half as many
/// again, and no more memory than that.
pub(super) const STRANGERS_MAX: usize = 96;
/// From so few free places on, a caller has to show first that its address is its own, which costs it a round trip
/// and a flood from forged addresses everything.
const STRANGERS_WATCHED: usize = STRANGERS_MAX / 2;

pub(super) async fn accept_connections(net: Arc<Shared>, endpoint: Endpoint) {
    loop {
        let incoming = tokio::select! {
            () = net.stop.cancelled() => return,
            incoming = endpoint.accept() => match incoming {
                Some(incoming) => incoming,
                None => return,
            },
        };
        let is_crowded = net.strangers.available_permits() < STRANGERS_WATCHED;
        if is_crowded && !incoming.remote_address_validated() && incoming.may_retry() {
            let _ = incoming.retry(); // fails only where a retry makes no sense, asked just above
            continue;
        }
        let Ok(permit) = net.strangers.clone().try_acquire_owned() else {
            tracing::debug!(from = %incoming.remote_address(), "refused: {STRANGERS_MAX} strangers are connecting");
            incoming.refuse();
            continue;
        };
        let net_of_task = net.clone();
        net.tasks.spawn(async move {
            let Some(connection) = shake_hands(incoming).await else { return };
            let stop = net_of_task.stop.clone();
            tokio::select! {
                // Links close with a word of their own when the net stops; the rest is just dropped.
                () = admit(&net_of_task, connection, permit) => {}
                () = async { stop.cancelled().await; tokio::time::sleep(CONNECT_WITHIN).await } => {}
            }
        });
    }
}

async fn shake_hands(incoming: Incoming) -> Option<Connection> {
    let from = incoming.remote_address();
    let connecting = incoming.accept().map_err(|error| tracing::debug!(%from, %error, "no handshake")).ok()?;
    match timeout(CONNECT_WITHIN, connecting).await {
        Ok(Ok(connection)) => Some(connection),
        Ok(Err(error)) => {
            tracing::debug!(%from, %error, "no handshake");
            None
        }
        Err(_) => {
            tracing::debug!(%from, "no handshake within {} s", CONNECT_WITHIN.as_secs());
            None
        }
    }
}

async fn admit(net: &Arc<Shared>, connection: Connection, permit: tokio::sync::OwnedSemaphorePermit) {
    let Some(node) = proven_node(&connection) else {
        return CloseCode::Protocol.close(&connection, "no node key was proven");
    };
    match negotiated_alpn(&connection).as_deref() {
        Some(ALPN) if net.book.contains(node) => {
            drop(permit);
            link::run(net, connection, node, node).await;
        }
        Some(ALPN) => {
            tracing::debug!(node = %node.short(), from = %connection.remote_address(), "refused: not paired");
            CloseCode::NotPaired.close(&connection, "not paired");
        }
        Some(PAIR_ALPN) => pairing::serve_guest(net, connection, node).await,
        Some(_) | None => CloseCode::Protocol.close(&connection, "no protocol of ours"),
    }
}
