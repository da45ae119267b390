//! Connections, messages and streams between paired nodes, and none for others.

use std::time::Duration;

use node::secure::{FRAME_MAX, FrameError, NetEvent, NetStream, OpenError, SendError, StreamKind};
use tokio::time::timeout;
use transport::Identity;

use crate::ends::{ALPN, End, PATIENCE, any_port, bare_end, call, closed_with, connected_pair};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paired_nodes_connect_and_exchange_messages_in_order() {
    let (mut a, mut b) = connected_pair().await;
    for n in 0..50u8 {
        a.net.send(b.node(), vec![n; 100].into()).expect("room");
    }
    b.net.send(a.node(), vec![7; FRAME_MAX].into()).expect("room");
    for n in 0..50 {
        assert_eq!(b.message().await, vec![n; 100]);
    }
    assert_eq!(a.message().await, vec![7; FRAME_MAX]);
    assert_eq!(a.net.remote_addr(b.node()), Some(b.addr()));
    assert_eq!(*a.net.connected().borrow(), [b.node()]);
    assert_eq!(b.net.book().get(a.node()).map(|a| a.name).as_deref(), Some("a"), "the name came with the hello");
    let stranger = Identity::generate().expect("a key").node_id();
    assert_eq!(a.net.send(stranger, vec![1].into()), Err(SendError::NotConnected { to: stranger }));
    a.net.shutdown().await;
    let (node, why) = b.disconnected().await;
    assert_eq!((node, why.as_str()), (a.node(), "it is shutting down"));
    b.net.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_known_to_one_side_is_enough() {
    let (mut a, mut b) = (End::start("a"), End::start("b"));
    a.knows(&b, &[]);
    b.knows(&a, &[]);
    let why = a
        .wait(|event| match event {
            NetEvent::Unreachable { why, .. } => Some(why),
            _ => None,
        })
        .await;
    assert!(why.contains("no address"), "{why}");
    a.net.dial(b.node(), &[b.addr()]);
    assert_eq!(a.connected().await, b.node());
    assert_eq!(b.connected().await, a.node());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_not_in_the_book_is_refused_and_can_open_nothing() {
    let mut host = End::start("host");
    let stranger = Identity::generate().expect("a key");
    let end = bare_end(&stranger, ALPN);
    let connection = call(&end, &stranger, host.addr(), ALPN).await;
    let stream = timeout(PATIENCE, connection.open_bi()).await.expect("an answer");
    assert!(stream.is_err(), "no stream opens before the connection ends");
    assert_eq!(closed_with(&connection).await, (1, "not paired".to_owned()));
    assert!(host.events.try_recv().is_err(), "nobody hears of it");
    assert!(host.net.connected().borrow().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_where_another_key_answers_is_not_taken_for_the_node() {
    let (mut a, b, imposter) = (End::start("a"), End::start("b"), End::start("imposter"));
    imposter.knows(&a, &[]);
    a.knows(&b, &[imposter.addr()]);
    let why = a
        .wait(|event| match event {
            NetEvent::Unreachable { why, .. } => Some(why),
            _ => None,
        })
        .await;
    assert!(why.contains(&imposter.addr().to_string()), "{why}");
    assert!(!a.net.is_connected(b.node()) && !a.net.is_connected(imposter.node()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_a_node_closes_its_connection_at_once() {
    let (mut a, mut b) = connected_pair().await;
    assert!(a.net.forget(b.node()).expect("a book that can be written"));
    let (node, why) = timeout(Duration::from_secs(2), b.disconnected()).await.expect("at once");
    assert_eq!(node, a.node());
    assert!(why.contains("not paired"), "{why}");
    assert_eq!(a.disconnected().await.0, b.node());
    let why = b
        .wait(|event| match event {
            NetEvent::Unreachable { why, .. } => Some(why),
            NetEvent::Connected { .. } => panic!("it came back"),
            _ => None,
        })
        .await;
    assert!(why.contains("pair them again"), "{why}");
    assert!(!a.net.forget(b.node()).expect("a book"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_starts_again_with_the_same_key_comes_back() {
    let (mut a, b) = connected_pair().await;
    let (identity, addr) = (b.identity.clone(), b.addr());
    let End { net, folder, .. } = b;
    net.shutdown().await;
    drop(net);
    assert_eq!(a.disconnected().await.0, identity.node_id());
    let mut b = End::start_as("b again", identity, folder, addr);
    assert_eq!(a.connected().await, b.node());
    assert_eq!(b.connected().await, a.node());
    a.net.send(b.node(), b"again".to_vec().into()).expect("room");
    assert_eq!(b.message().await, b"again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_starts_again_elsewhere_replaces_itself() {
    let (mut a, b) = connected_pair().await;
    let (identity, folder) = (b.identity.clone(), tempfile::tempdir().expect("a folder"));
    std::fs::copy(b.folder.path().join("peers.json"), folder.path().join("peers.json")).expect("a copy");
    // The first run hangs on to its connection, as one that was cut off does; the second has another port.
    let mut again = End::start_as("b again", identity, folder, any_port());
    let (node, why) = a.disconnected().await;
    assert_eq!((node, why.as_str()), (b.node(), "it was started again"));
    assert_eq!(a.connected().await, b.node());
    assert_eq!(again.connected().await, a.node());
    drop(b);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_is_bounded_at_both_ends() {
    let (a, mut b) = connected_pair().await;
    // Nobody reads at `b`: its channel, one message and the windows fill, then the queue of `a`.
    let mut n_taken = 0usize;
    let message = bytes::Bytes::from(vec![1; 256 << 10]);
    let full = timeout(PATIENCE, async {
        loop {
            match a.net.send(b.node(), message.clone()) {
                Ok(()) => n_taken += 1,
                Err(error) => {
                    // The queue may only have been faster than the network: full means that it stays full.
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    if a.net.send(b.node(), message.clone()).is_err() {
                        return error;
                    }
                    n_taken += 1;
                }
            }
        }
    })
    .await
    .expect("the queue fills");
    assert!(matches!(full, SendError::QueueFull { .. }), "{full}");
    let n_bytes = n_taken * message.len();
    assert!(n_bytes < 32 << 20, "{n_bytes} bytes were taken for a node that reads nothing");
    // And nothing that was taken is lost.
    for _ in 0..n_taken {
        assert_eq!(b.message().await.len(), message.len());
    }
    a.net.send(b.node(), vec![2].into()).expect("room again");
    assert_eq!(b.message().await, [2]);
    assert_eq!(a.net.send(b.node(), vec![0; FRAME_MAX + 1].into()), Err(SendError::TooLarge { len: FRAME_MAX + 1 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_have_a_stream_of_their_own_and_half_an_answer_is_an_error() {
    let (a, mut b) = connected_pair().await;
    let NetStream { mut send, mut recv, .. } = a.net.open(b.node(), StreamKind::Generation).await.expect("a stream");
    send.write_json(&["tell", "me"]).await.expect("written");
    let (from, mut served) = stream(&mut b).await;
    assert_eq!((from, served.kind), (a.node(), StreamKind::Generation));
    assert_eq!(
        served.recv.read_json::<Vec<String>>().await.expect("a request"),
        Some(vec!["tell".into(), "me".into()])
    );
    served.send.write(b"one").await.expect("written");
    served.send.write(b"two").await.expect("written");
    served.send.finish();
    assert_eq!(recv.read().await.expect("a frame").as_deref(), Some(&b"one"[..]));
    assert_eq!(recv.read().await.expect("a frame").as_deref(), Some(&b"two"[..]));
    assert!(recv.read().await.expect("the end").is_none());

    let mut stream_of_a = a.net.open(b.node(), StreamKind::Generation).await.expect("a stream");
    stream_of_a.send.write(b"go").await.expect("written");
    let (_, mut served) = stream(&mut b).await;
    served.send.write(b"half").await.expect("written");
    assert_eq!(stream_of_a.recv.read().await.expect("a frame").as_deref(), Some(&b"half"[..]));
    drop(served);
    assert!(matches!(stream_of_a.recv.read().await, Err(FrameError::Abandoned)));

    b.net.shutdown().await;
    let refused = a.net.open(b.node(), StreamKind::Generation).await;
    assert!(matches!(refused, Err(OpenError::NotConnected { .. } | OpenError::Lost { .. })));
}

async fn stream(end: &mut End) -> (domain::NodeId, NetStream) {
    end.wait(|event| match event {
        NetEvent::Stream { from, stream } => Some((from, stream)),
        _ => None,
    })
    .await
}
