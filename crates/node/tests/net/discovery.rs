//! Nodes of one machine find each other by mDNS on the loopback interface.

use domain::NodeId;
use node::config;
use node::discovery::{Discovery, DiscoveryEvent, DiscoveryOptions, Sighting};
use tokio::sync::mpsc;
use tokio::time::timeout;
use transport::Identity;

use crate::ends::PATIENCE;

struct Seeker {
    node: NodeId,
    discovery: Discovery,
    events: mpsc::Receiver<DiscoveryEvent>,
}

fn seeker(name: &str, port: u16) -> Seeker {
    let node = Identity::generate().expect("a key").node_id();
    let (sender, events) = mpsc::channel(64);
    let options = DiscoveryOptions {
        mode: config::Discovery::Loopback,
        node,
        name: name.to_owned(),
        version: "1.2.3".to_owned(),
        port,
    };
    Seeker { node, discovery: Discovery::start(&options, sender).expect("mDNS"), events }
}

impl Seeker {
    /// Other nodes may run on this machine while the test does: only `wanted` counts.
    async fn wait<T>(&mut self, mut wanted: impl FnMut(DiscoveryEvent) -> Option<T>) -> T {
        let found = async {
            loop {
                let event = self.events.recv().await.expect("discovery runs");
                if let DiscoveryEvent::Sighted(sighting) = &event {
                    assert_ne!(sighting.node, self.node, "it does not see itself");
                }
                if let Some(found) = wanted(event) {
                    return found;
                }
            }
        };
        timeout(PATIENCE, found).await.expect("the event comes")
    }

    async fn sights(&mut self, node: NodeId, named: &str) -> Sighting {
        self.wait(|event| match event {
            DiscoveryEvent::Sighted(sighting) if sighting.node == node && sighting.name == named => Some(sighting),
            _ => None,
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_on_one_machine_see_each_other_come_change_and_go() {
    let (mut a, mut b) = (seeker("studio", 40_001), seeker("mini", 40_002));
    let seen = a.sights(b.node, "mini").await;
    assert_eq!((seen.version.as_str(), seen.joinable), ("1.2.3", Ok(())));
    assert_eq!(seen.addrs, ["127.0.0.1:40002".parse().expect("an address")]);
    b.sights(a.node, "studio").await;

    b.discovery.rename("mini in the kitchen");
    a.sights(b.node, "mini in the kitchen").await;

    let gone = b.node;
    b.discovery.shutdown().await;
    a.wait(|event| match event {
        DiscoveryEvent::Lost(node) if node == gone => Some(()),
        _ => None,
    })
    .await;
    a.discovery.shutdown().await;
}
