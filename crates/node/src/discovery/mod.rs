//! Finds other nodes by mDNS: announces this one as `_macrame._tcp` and listens for others.
//!
//! Discovery is a hint, never a proof: whoever answers at an address has to show the node's key. Replies get lost on
//! real networks, so remembered and typed addresses are dialled as well.

mod sighting;

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{Hint, Hints, NodeId};
use mdns_sd::{DaemonEvent, IfKind, Receiver, ServiceDaemon, ServiceEvent, ServiceInfo};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::config;
use crate::secure::{PROTOCOL, shown_name};
use sighting::{KEY_ID, KEY_NAME, KEY_PROTOCOL, KEY_VERSION, read};

pub use sighting::{OtherProtocol, Sighting};

const SERVICE_TYPE: &str = "_macrame._tcp.local.";
/// Service instances remembered, to say which node one was when it goes: more than any network has machines that run
/// this program, and an end for one that makes names up.
const SEEN_MAX: usize = 256;
/// For the goodbye to go out.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(1);

/// What is announced, and where.
#[derive(Clone, Debug)]
pub struct DiscoveryOptions {
    pub mode: config::Discovery,
    pub node: NodeId,
    pub name: String,
    /// Of the program.
    pub version: String,
    /// UDP port of the control plane.
    pub port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryEvent {
    /// Seen, or seen again with something new.
    Sighted(Sighting),
    /// It said goodbye, or has not been heard of for minutes.
    Lost(NodeId),
}

#[derive(Debug, thiserror::Error)]
#[error("other nodes cannot be looked for on the network")]
pub struct DiscoveryError(#[from] mdns_sd::Error);

impl Hint for DiscoveryError {
    fn hints(&self) -> Hints {
        vec!["type the address of the other machine instead, or start with `--discovery off`".to_owned()]
    }
}

/// This node's announcement, and the search for others, until [`shutdown`](Self::shutdown).
pub struct Discovery {
    running: Option<Running>,
}

struct Running {
    daemon: ServiceDaemon,
    options: DiscoveryOptions,
    instance: String,
    listener: JoinHandle<()>,
}

impl Discovery {
    /// Must be called inside a Tokio runtime. With discovery off, nothing is announced and nothing is seen.
    pub fn start(options: &DiscoveryOptions, events: mpsc::Sender<DiscoveryEvent>) -> Result<Self, DiscoveryError> {
        let only = match options.mode {
            config::Discovery::Off => return Ok(Self { running: None }),
            config::Discovery::Lan => None,
            config::Discovery::Loopback => Some(IfKind::LoopbackV4),
        };
        let daemon = ServiceDaemon::new()?;
        if let Some(only) = only {
            daemon.disable_interface(IfKind::All)?;
            daemon.enable_interface(only)?;
        }
        let troubles = daemon.monitor()?;
        let seen = daemon.browse(SERVICE_TYPE)?;
        let service = announcement(options)?;
        let instance = service.get_fullname().to_owned();
        daemon.register(service)?;
        let listener = tokio::spawn(listen(options.node, seen, troubles, events));
        Ok(Self { running: Some(Running { daemon, options: options.clone(), instance, listener }) })
    }

    /// Announces this node under another name from now on.
    pub fn rename(&self, name: &str) {
        let Some(running) = &self.running else { return };
        let options = DiscoveryOptions { name: name.to_owned(), ..running.options.clone() };
        let announced = announcement(&options).and_then(|service| Ok(running.daemon.register(service)?));
        if let Err(error) = announced {
            tracing::warn!(%error, "the new name could not be announced");
        }
    }

    /// Says goodbye, so that others need not wait to find this node gone.
    pub async fn shutdown(self) {
        let Some(Running { daemon, instance, listener, .. }) = self.running else { return };
        listener.abort();
        let goodbye = async {
            if let Ok(said) = daemon.unregister(&instance) {
                let _ = said.recv_async().await;
            }
            if let Ok(ended) = daemon.shutdown() {
                let _ = ended.recv_async().await;
            }
        };
        // Nobody waits for a daemon that hangs: its thread ends with the process.
        let _ = timeout(SHUTDOWN_WITHIN, goodbye).await;
    }
}

fn announcement(options: &DiscoveryOptions) -> Result<ServiceInfo, DiscoveryError> {
    // A label of a DNS name has 63 bytes, one less than a node's id: half of it is enough to be unique.
    let label = format!("macrame-{}", &options.node.to_string()[..32]);
    let host = format!("{label}.local.");
    let protocol = PROTOCOL.to_string();
    let (id, name) = (options.node.to_string(), shown_name(&options.name));
    let txt = [
        (KEY_ID, id.as_str()),
        (KEY_PROTOCOL, protocol.as_str()),
        (KEY_VERSION, options.version.as_str()),
        (KEY_NAME, name.as_str()),
    ];
    let service = |addrs| ServiceInfo::new(SERVICE_TYPE, &label, &host, addrs, options.port, &txt[..]);
    let mut service = match options.mode {
        config::Discovery::Loopback => {
            let mut service = service("127.0.0.1")?;
            service.set_interfaces(vec![IfKind::LoopbackV4]);
            service
        }
        // On each network the addresses that this machine has there, as they come and go.
        config::Discovery::Lan | config::Discovery::Off => service("")?.enable_addr_auto(),
    };
    // The name is made of the key: nobody else has it, and asking around first would cost a second.
    service.set_requires_probe(false);
    Ok(service)
}

async fn listen(
    me: NodeId,
    seen: Receiver<ServiceEvent>,
    troubles: Receiver<DaemonEvent>,
    events: mpsc::Sender<DiscoveryEvent>,
) {
    let mut nodes = BTreeMap::<String, Sighting>::new();
    let mut last_trouble = String::new();
    loop {
        let event = tokio::select! {
            event = seen.recv_async() => match event {
                Ok(event) => on_service(me, event, &mut nodes),
                Err(_) => return,
            },
            trouble = troubles.recv_async() => match trouble {
                Ok(DaemonEvent::Error(error)) => {
                    let why = error.to_string();
                    if why != last_trouble {
                        tracing::warn!(why, "trouble with finding other nodes on some network");
                        last_trouble = why;
                    }
                    None
                }
                Ok(_) => None, // what the daemon announces and answers; its enum is not ours and may grow
                Err(_) => return,
            },
        };
        if let Some(event) = event
            && events.send(event).await.is_err()
        {
            return;
        }
    }
}

/// What a service's coming or going means. `nodes` holds the last sighting by the name of the service.
fn on_service(me: NodeId, event: ServiceEvent, nodes: &mut BTreeMap<String, Sighting>) -> Option<DiscoveryEvent> {
    match event {
        ServiceEvent::ServiceResolved(service) => {
            let sighting = match read(&service) {
                Ok(sighting) => sighting,
                Err(why) => {
                    tracing::debug!(service = %shown_name(service.get_fullname()), why, "ignored");
                    return None;
                }
            };
            if sighting.node == me {
                return None;
            }
            let name = service.get_fullname().to_owned();
            if nodes.get(&name) == Some(&sighting) || (nodes.len() >= SEEN_MAX && !nodes.contains_key(&name)) {
                return None;
            }
            nodes.insert(name, sighting.clone());
            Some(DiscoveryEvent::Sighted(sighting))
        }
        ServiceEvent::ServiceRemoved(_, name) => {
            nodes.remove(&name).map(|sighting| DiscoveryEvent::Lost(sighting.node))
        }
        // Steps of the search; and whatever a later version of the library tells.
        ServiceEvent::SearchStarted(_) | ServiceEvent::ServiceFound(..) | ServiceEvent::SearchStopped(_) | _ => None,
    }
}
