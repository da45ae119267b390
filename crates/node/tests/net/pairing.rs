//! Pairing over the wire, with right codes, wrong codes and machines in the middle.

use node::secure::{NetEvent, PairError, PairTarget, PairingStatus};
use quinn::{Connection, RecvStream, SendStream};
use tokio::time::timeout;
use transport::Identity;

use crate::ends::{End, PAIR_ALPN, PATIENCE, bare_end, call, closed_with, proven};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_code_pairs_both_ends_and_connects_them() {
    let (mut guest, mut host) = (End::start("laptop"), End::start("studio"));
    let code = host.net.open_pairing().expect("a code");
    let typed = format!("{} {}", &code.code[..3], &code.code[3..]);
    let paired = guest.net.pair(&target(&host), &typed).await.expect("a pairing");
    assert_eq!(paired, (host.node(), "studio".to_owned()));
    let (node, name) = host
        .wait(|event| match event {
            NetEvent::Paired { node, name, .. } => Some((node, name)),
            _ => None,
        })
        .await;
    assert_eq!((node, name.as_str()), (guest.node(), "laptop"));
    assert_eq!(host.net.pairing(), PairingStatus::Closed, "the code is used up");
    assert!(guest.net.book().contains(host.node()) && host.net.book().contains(guest.node()));
    assert_eq!(guest.connected().await, host.node());
    assert_eq!(host.connected().await, guest.node());
    guest.net.send(host.node(), b"hello".to_vec().into()).expect("room");
    assert_eq!(host.message().await, b"hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_codes_cost_tries_and_the_fifth_locks() {
    let (guest, mut host) = (End::start("guest"), End::start("host"));
    let code = host.net.open_pairing().expect("a code").code;
    for expected in [4, 3, 2, 1] {
        match guest.net.pair(&target(&host), &wrong(&code)).await {
            Err(PairError::WrongCode { tries_left }) => assert_eq!(tries_left, expected),
            other => panic!("{other:?}"),
        }
    }
    let locked = guest.net.pair(&target(&host), &wrong(&code)).await;
    assert!(matches!(locked, Err(PairError::Locked { .. })), "{locked:?}");
    let told = host
        .wait(|event| match event {
            NetEvent::PairingChanged(status) => Some(status),
            _ => None,
        })
        .await;
    assert!(matches!(told, PairingStatus::Locked { .. }), "{told:?}");
    // Nor does another machine get in now, not even with the right code.
    let other = End::start("other");
    let right = other.net.pair(&target(&host), &code).await;
    assert!(matches!(right, Err(PairError::Locked { .. })), "{right:?}");
    assert!(matches!(host.net.open_pairing(), Err(PairError::Locked { .. })));
    assert!(host.net.book().list().is_empty() && guest.net.book().list().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_shows_no_code_says_so() {
    let (guest, host) = (End::start("guest"), End::start("host"));
    let refused = guest.net.pair(&target(&host), "123456").await;
    assert!(matches!(refused, Err(PairError::NotShowing)), "{refused:?}");
    host.net.open_pairing().expect("a code");
    host.net.close_pairing();
    let refused = guest.net.pair(&target(&host), "123456").await;
    assert!(matches!(refused, Err(PairError::NotShowing)), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn targets_that_cannot_be_paired_are_told_apart() {
    let (guest, host, third) = (End::start("guest"), End::start("host"), End::start("third"));
    let code = host.net.open_pairing().expect("a code").code;
    let itself = guest.net.pair(&target(&guest), &code).await;
    assert!(matches!(itself, Err(PairError::Itself { .. })), "{itself:?}");
    let meant = PairTarget { node: Some(third.node()), ..target(&host) };
    let other = guest.net.pair(&meant, &code).await;
    assert!(matches!(other, Err(PairError::OtherNode { .. })), "{other:?}");
    assert!(matches!(guest.net.pair(&target(&host), "12345").await, Err(PairError::BadCode)));
    let stranger = Identity::generate().expect("a key");
    let newer = bare_end(&stranger, b"macrame-pair/2");
    let version = PairTarget { addrs: vec![newer.local_addr().expect("an address")], node: None };
    let (version, ()) = tokio::join!(guest.net.pair(&version, &code), async {
        let incoming = newer.accept().await.expect("a call");
        assert!(incoming.await.is_err(), "no protocol is shared");
    });
    assert!(matches!(version, Err(PairError::Version { .. })), "{version:?}");
    // None of that has cost a try.
    match guest.net.pair(&target(&host), &wrong(&code)).await {
        Err(PairError::WrongCode { tries_left: 4 }) => {}
        other => panic!("{other:?}"),
    }
}

/// A machine between the two, with a key of its own, hands every frame on unchanged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_in_the_middle_that_relays_pairs_nobody() {
    let (guest, host) = (End::start("guest"), End::start("host"));
    let code = host.net.open_pairing().expect("a code").code;
    let middle = Identity::generate().expect("a key");
    let end = bare_end(&middle, PAIR_ALPN);
    let relay = async {
        let from_guest = end.accept().await.expect("a call").await.expect("a handshake");
        assert_eq!(proven(&from_guest), guest.node());
        let to_host = call(&end, &middle, host.addr(), PAIR_ALPN).await;
        assert_eq!(proven(&to_host), host.node());
        relay_stream(&from_guest, &to_host).await;
        let closed = closed_with(&to_host).await;
        from_guest.close(0u32.into(), b"");
        closed
    };
    let through_the_middle = PairTarget { addrs: vec![end.local_addr().expect("an address")], node: None };
    let pairing = guest.net.pair(&through_the_middle, &code);
    let (paired, closed) = timeout(PATIENCE, async { tokio::join!(pairing, relay) }).await.expect("an end");
    assert!(matches!(paired, Err(PairError::NotProven | PairError::BrokenOff { .. })), "{paired:?}");
    assert_eq!(closed, (18, "4".to_owned()), "for the host it was a wrong code");
    assert!(host.net.book().list().is_empty() && guest.net.book().list().is_empty());
}

async fn relay_stream(from: &Connection, to: &Connection) {
    let (send_back, recv) = from.accept_bi().await.expect("the guest's stream");
    let (send, recv_back) = to.open_bi().await.expect("a stream to the host");
    tokio::join!(copy(recv, send), copy(recv_back, send_back));
}

/// Until one of the ends has had enough.
async fn copy(mut from: RecvStream, mut to: SendStream) {
    let mut buffer = [0; 1024];
    while let Ok(Some(n_bytes)) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..n_bytes]).await.is_err() {
            break;
        }
    }
}

/// A machine that takes the host's message, to think about it, and hangs up has used a try.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_up_early_costs_a_try_too() {
    let (guest, host) = (End::start("guest"), End::start("host"));
    let code = host.net.open_pairing().expect("a code").code;
    let stranger = Identity::generate().expect("a key");
    let end = bare_end(&stranger, PAIR_ALPN);
    let connection = call(&end, &stranger, host.addr(), PAIR_ALPN).await;
    let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
    let [me, other] = [stranger.node_id(), host.node()].map(|node| spake2::Identity::new(node.as_bytes()));
    let guess = spake2::Password::new(wrong(&code));
    let (_, message) = spake2::Spake2::<spake2::Ed25519Group>::start_a(&guess, &me, &other);
    send.write_all(&[&33u32.to_be_bytes()[..], &message].concat()).await.expect("written");
    let mut answer = [0; 37];
    recv.read_exact(&mut answer).await.expect("the host's message");
    connection.close(0u32.into(), b"");
    end.wait_idle().await;
    match guest.net.pair(&target(&host), &wrong(&code)).await {
        Err(PairError::WrongCode { tries_left: 3 }) => {}
        other => panic!("{other:?}"),
    }
}

fn target(end: &End) -> PairTarget {
    PairTarget { addrs: vec![end.addr()], node: None }
}

fn wrong(code: &str) -> String {
    let last = if code.ends_with('0') { '1' } else { '0' };
    format!("{}{last}", &code[..5])
}
