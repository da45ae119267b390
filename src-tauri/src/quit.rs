//! How the app ends: asked to by its menu, a signal or its parent, and only after the node has drained.

use std::time::Duration;

use api::Server;
use node::NodeHandle;
use tauri::AppHandle;
use tokio::io::AsyncReadExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

/// Answers that run get five seconds from the server, ranks a few from the node; beyond that something hangs.
const DRAIN_MAX: Duration = Duration::from_secs(12);

/// Whose end ends the app too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    None,
    /// Whoever holds the other end of our standard input.
    OnStdin,
}

/// Lets the event loop end; [`drain`] follows.
pub fn begin(app: &AppHandle) {
    app.exit(0);
}

/// Ends the app when a signal or its parent says so.
pub async fn on_request(app: AppHandle, parent: Parent) {
    tokio::select! {
        () = told(SignalKind::interrupt()) => {}
        () = told(SignalKind::terminate()) => {}
        () = parent_ends(parent) => {}
    }
    begin(&app);
}

/// Lets running answers end, then the node with its ranks.
pub async fn drain(node: NodeHandle, server: Server) {
    let drained = timeout(DRAIN_MAX, async {
        server.shutdown().await;
        node.shutdown().await;
    });
    if drained.await.is_err() {
        tracing::error!(deadline = ?DRAIN_MAX, "the node did not end in time and is left behind");
    }
}

async fn told(kind: SignalKind) {
    match signal(kind) {
        Ok(mut signal) => drop(Signal::recv(&mut signal).await),
        Err(error) => {
            tracing::warn!(%error, ?kind, "this signal is not heard");
            std::future::pending().await
        }
    }
}

async fn parent_ends(parent: Parent) {
    match parent {
        Parent::None => std::future::pending().await,
        Parent::OnStdin => {
            let mut stdin = tokio::io::stdin();
            let mut ignored = [0; 64];
            while matches!(stdin.read(&mut ignored).await, Ok(n_bytes) if n_bytes > 0) {}
        }
    }
}
