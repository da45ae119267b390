//! A link that is measured.

use std::time::Duration;

use domain::{BytesPerSec, LinkKind};
use node::probe;
use node::secure::{NetEvent, StreamKind};

use crate::ends::{PATIENCE, connected_pair};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_is_measured_both_ways() {
    let (a, mut b) = connected_pair().await;
    let to = b.node();
    let answering = tokio::spawn(async move {
        let stream = b
            .wait(|event| match event {
                NetEvent::Stream { stream, .. } => Some(stream),
                _ => None,
            })
            .await;
        assert_eq!(stream.kind, StreamKind::Probe);
        probe::serve(stream).await;
        b
    });
    let facts = tokio::time::timeout(PATIENCE, probe::measure(&a.net, to)).await.expect("an end").expect("facts");
    let b = answering.await.expect("an answer");
    assert_eq!(facts.to, b.node());
    assert_eq!(facts.kind.value(), Some(&LinkKind::Loopback));
    let latency = *facts.latency.value().expect("a latency");
    assert!(latency > Duration::ZERO && latency < Duration::from_secs(1), "{latency:?}");
    let bandwidth = *facts.bandwidth.value().expect("a bandwidth");
    assert!(bandwidth > BytesPerSec::new(1 << 20), "{bandwidth}");
    b.net.shutdown().await;
    assert!(probe::measure(&a.net, to).await.is_err(), "a node that is gone has no link");
}
