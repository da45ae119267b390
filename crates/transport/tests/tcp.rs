//! Who gets a TCP link, who does not, and what is said about it.

mod support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use domain::{DeploymentId, Epoch, Hint, Rank};
use rustls::pki_types::ServerName;
use support::{HELLO, LOOPBACK, expecting, identity, patient, tcp_pair, within};
use transport::{
    Cancel, DATA_ALPN, Expect, Hello, Identity, Link, LinkError, Peers, Refusal, SERVER_NAME, TcpListener, Wait,
    tcp_connect,
};

/// What both sides say when `caller` calls `callee` with `hello`, and `callee` expects `expect`.
fn call(
    caller: &Identity,
    callee: &Identity,
    hello: Hello,
    expect: &Expect,
) -> (Result<(), LinkError>, Result<(), LinkError>) {
    let mut listener = TcpListener::bind(callee, LOOPBACK).expect("bind");
    let addr = listener.local_addr();
    thread::scope(|threads| {
        let cancel = Cancel::new();
        let listening = Wait::within(Duration::from_secs(30), &cancel);
        let accepting = threads.spawn(move || listener.accept(expect, &listening).map(|_| ()));
        let called = tcp_connect(caller, &[addr], callee.node_id(), hello, &patient()).map(|_| ());
        if called.is_err() {
            cancel.cancel();
        }
        (called, accepting.join().expect("acceptor"))
    })
}

#[test]
fn a_key_that_is_not_expected_is_refused() {
    let (caller, callee, other) = (identity(), identity(), identity());
    let (called, accepted) = call(&caller, &callee, HELLO, &expecting(&other));
    let refused = LinkError::Refused { peer: callee.node_id(), reason: Refusal::Key };
    assert_eq!(called, Err(refused.clone()));
    assert_eq!(refused.hints(), ["pair the two nodes again"]);
    assert_eq!(accepted, Err(LinkError::Cancelled), "the listener goes on waiting for the right one");
}

#[test]
fn a_listener_with_another_key_is_not_believed() {
    let (caller, callee, impostor) = (identity(), identity(), identity());
    let mut listener = TcpListener::bind(&impostor, LOOPBACK).expect("bind");
    let addr = listener.local_addr();
    thread::scope(|threads| {
        let cancel = Cancel::new();
        let listening = Wait::within(Duration::from_secs(30), &cancel);
        let expect = expecting(&caller);
        let accepting = threads.spawn(move || listener.accept(&expect, &listening).map(|_| ()));
        let called = tcp_connect(&caller, &[addr], callee.node_id(), HELLO, &patient()).map(|_| ());
        let wrong = LinkError::WrongPeer { peer: callee.node_id(), found: Some(impostor.node_id()), addr };
        assert_eq!(called, Err(wrong));
        cancel.cancel();
        assert_eq!(accepting.join().expect("acceptor"), Err(LinkError::Cancelled));
    });
}

#[test]
fn a_rank_of_another_deployment_epoch_or_place_is_refused() {
    let (caller, callee) = (identity(), identity());
    for (hello, reason) in [
        (Hello { deployment: DeploymentId(1), ..HELLO }, Refusal::Deployment),
        (Hello { epoch: Epoch(9), ..HELLO }, Refusal::Epoch),
        (Hello { from: Rank(4), ..HELLO }, Refusal::Rank),
        (Hello { to: Rank(4), ..HELLO }, Refusal::Rank),
    ] {
        let (called, _) = call(&caller, &callee, hello, &expecting(&caller));
        assert_eq!(called, Err(LinkError::Refused { peer: callee.node_id(), reason }));
    }
}

#[test]
fn strangers_do_not_keep_a_good_caller_waiting() {
    let (caller, callee) = (identity(), identity());
    let mut listener = TcpListener::bind(&callee, LOOPBACK).expect("bind");
    let addr = listener.local_addr();
    let connect = || TcpStream::connect(addr).expect("connect");
    // More silent ones than the listener hears at once, one that talks nonsense, one that hangs up.
    let silent: Vec<TcpStream> = (0..40).map(|_| connect()).collect();
    let mut browser = connect();
    browser.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("write");
    drop(connect());
    let since = Instant::now();
    thread::scope(|threads| {
        let accepting = threads.spawn(|| listener.accept(&expecting(&caller), &patient()));
        let mut called = tcp_connect(&caller, &[addr], callee.node_id(), HELLO, &patient()).expect("connect");
        let (_, mut accepted) = accepting.join().expect("acceptor").expect("accept");
        called.send(b"hello", &patient()).expect("send");
        let mut message = Vec::new();
        accepted.recv(&mut message, &patient()).expect("recv");
        assert_eq!(message, b"hello");
    });
    assert!(since.elapsed() < Duration::from_secs(5), "took {:?}", since.elapsed());
    let mut answer = Vec::new();
    // The one that talked nonsense gets a TLS alert at most (or a reset).
    browser.set_read_timeout(Some(Duration::from_millis(500))).expect("set a limit");
    let _ = browser.read_to_end(&mut answer);
    assert!(answer.len() < 16, "a stranger got {} bytes", answer.len());
    drop(silent);
}

#[test]
fn two_callers_at_once_are_both_heard() {
    let (left, right, callee) = (identity(), identity(), identity());
    let mut listener = TcpListener::bind(&callee, LOOPBACK).expect("bind");
    let addr = listener.local_addr();
    let mut expect = expecting(&left);
    expect.from.insert(Rank(2), right.node_id());
    thread::scope(|threads| {
        for (caller, from) in [(&left, Rank(0)), (&right, Rank(2))] {
            let peer = callee.node_id();
            threads.spawn(move || {
                let hello = Hello { from, ..HELLO };
                let link = tcp_connect(caller, &[addr], peer, hello, &patient()).expect("connect");
                Box::new(link).close(&patient()).expect("close");
            });
        }
        let mut links = BTreeMap::new();
        while !expect.from.is_empty() {
            let (hello, link) = listener.accept(&expect, &patient()).expect("accept");
            assert_eq!(expect.from.remove(&hello.from), Some(link.peer()));
            links.insert(hello.from, link);
        }
        assert_eq!(links.len(), 2);
    });
}

#[test]
fn a_paired_node_of_another_version_is_told_so() {
    let (caller, callee) = (identity(), identity());
    let mut listener = TcpListener::bind(&callee, LOOPBACK).expect("bind");
    let addr = listener.local_addr();
    thread::scope(|threads| {
        let cancel = Cancel::new();
        let listening = Wait::within(Duration::from_secs(30), &cancel);
        let expect = expecting(&caller);
        let accepting = threads.spawn(move || listener.accept(&expect, &listening).map(|_| ()));
        let config = caller.client_config(Peers::Only([callee.node_id()].into()), &[DATA_ALPN]).expect("config");
        let name = ServerName::try_from(SERVER_NAME).expect("a name");
        let tls = rustls::ClientConnection::new(Arc::new(config), name).expect("TLS");
        let mut stream = rustls::StreamOwned::new(tls, TcpStream::connect(addr).expect("connect"));
        stream.write_all(b"MCRM\x63 what a hello may look like in version 99").expect("write");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer and an orderly end");
        assert_eq!(answer[..6], *b"MCRM\x01\x02", "a refusal of version 1, from which the caller sees the version");
        cancel.cancel();
        assert_eq!(accepting.join().expect("acceptor"), Err(LinkError::Cancelled));
    });
}

#[test]
fn a_call_that_nobody_takes_says_where_it_went() {
    let (caller, callee) = (identity(), identity());
    let addr = TcpListener::bind(&callee, LOOPBACK).expect("bind").local_addr();
    let limit = Duration::from_millis(200);
    match tcp_connect(&caller, &[addr], callee.node_id(), HELLO, &within(limit)).map(|_| ()) {
        Err(LinkError::Unreachable { peer, waited, tried }) => {
            assert_eq!(peer, callee.node_id());
            assert!(waited >= limit && waited < Duration::from_secs(10), "{waited:?}");
            assert_eq!(tried.len(), 1);
            assert_eq!(tried[0].addr, addr);
        }
        other => panic!("a closed port gave {other:?}"),
    }
    let none = tcp_connect(&caller, &[], callee.node_id(), HELLO, &patient()).map(|_| ());
    assert!(matches!(none, Err(LinkError::Unreachable { .. })), "{none:?}");
}

#[test]
fn a_bad_address_does_not_hide_a_good_one() {
    let (caller, callee) = (identity(), identity());
    let closed = TcpListener::bind(&callee, LOOPBACK).expect("bind").local_addr();
    let mut listener = TcpListener::bind(&callee, LOOPBACK).expect("bind");
    let addrs: [SocketAddr; 2] = [closed, listener.local_addr()];
    thread::scope(|threads| {
        threads.spawn(|| listener.accept(&expecting(&caller), &patient()).map(|_| ()).expect("accept"));
        tcp_connect(&caller, &addrs, callee.node_id(), HELLO, &patient()).map(|_| ()).expect("connect");
    });
}

#[test]
fn a_silent_listener_can_be_given_up_on() {
    let (caller, callee) = (identity(), identity());
    let listener = TcpListener::bind(&callee, LOOPBACK).expect("bind");
    let cancel = Cancel::new();
    let wait = Wait::within(Duration::from_secs(30), &cancel);
    let since = Instant::now();
    thread::scope(|threads| {
        let calling = threads
            .spawn(|| tcp_connect(&caller, &[listener.local_addr()], callee.node_id(), HELLO, &wait).map(|_| ()));
        thread::sleep(Duration::from_millis(100));
        cancel.cancel();
        assert_eq!(calling.join().expect("caller"), Err(LinkError::Cancelled));
    });
    assert!(since.elapsed() < Duration::from_secs(5), "took {:?}", since.elapsed());
}

#[test]
fn a_listener_that_waited_in_vain_says_for_whom() {
    let (caller, callee, stranger) = (identity(), identity(), identity());
    let mut listener = TcpListener::bind(&callee, LOOPBACK).expect("bind");
    let addr = listener.local_addr();
    thread::scope(|threads| {
        threads.spawn(|| tcp_connect(&stranger, &[addr], callee.node_id(), HELLO, &patient()).map(|_| ()));
        match listener.accept(&expecting(&caller), &within(Duration::from_millis(500))).map(|_| ()) {
            Err(LinkError::NobodyCame { expected, turned_away: Some(who), .. }) => {
                assert_eq!(expected, [caller.node_id()]);
                assert!(who.contains(&stranger.node_id().short()), "{who}");
            }
            other => panic!("a stranger's call gave {other:?}"),
        }
    });
}

/// Carries bytes between a caller and the listener at `to`, and keeps all of them.
fn wiretap(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let door = std::net::TcpListener::bind(LOOPBACK).expect("bind");
    let addr = door.local_addr().expect("an address");
    let all = heard.clone();
    thread::spawn(move || {
        let (near, _) = door.accept().expect("accept");
        let far = TcpStream::connect(to).expect("connect");
        let directions = [(near.try_clone().expect("clone"), far.try_clone().expect("clone")), (far, near)];
        for (mut from, mut into) in directions {
            let heard = all.clone();
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(n_bytes @ 1..) = from.read(&mut bytes) {
                    heard.lock().expect("lock").extend_from_slice(&bytes[..n_bytes]);
                    if into.write_all(&bytes[..n_bytes]).is_err() {
                        break;
                    }
                }
                let _ = into.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    (addr, heard)
}

#[test]
fn a_wiretap_hears_nothing() {
    const SECRET: &[u8] = b"the password is a name of a river";
    let (caller, callee) = (identity(), identity());
    let mut listener = TcpListener::bind(&callee, LOOPBACK).expect("bind");
    let (addr, heard) = wiretap(listener.local_addr());
    thread::scope(|threads| {
        let accepting = threads.spawn(|| listener.accept(&expecting(&caller), &patient()));
        let mut called = tcp_connect(&caller, &[addr], callee.node_id(), HELLO, &patient()).expect("connect");
        let (_, mut accepted) = accepting.join().expect("acceptor").expect("accept");
        let mut message = Vec::new();
        called.send(SECRET, &patient()).expect("send");
        accepted.recv(&mut message, &patient()).expect("recv");
        accepted.send(&message, &patient()).expect("send");
        called.recv(&mut message, &patient()).expect("recv");
        assert_eq!(message, SECRET);
    });
    let heard = heard.lock().expect("lock");
    assert!(heard.len() > 2 * SECRET.len(), "the tap was on the line: {} bytes", heard.len());
    let finds = |needle: &[u8]| heard.windows(needle.len()).any(|window| window == needle);
    assert!(!finds(&SECRET[..8]), "a word of the message is on the wire");
    assert!(!finds(b"MCRM"), "the head of a frame is on the wire");
    assert!(!finds(caller.node_id().as_bytes()), "the caller's key is on the wire");
}

#[test]
fn a_killed_peer_is_noticed_at_once() {
    let (called, mut accepted) = tcp_pair();
    let since = Instant::now();
    thread::scope(|threads| {
        threads.spawn(move || {
            thread::sleep(Duration::from_millis(50));
            drop(called);
        });
        let received = accepted.recv(&mut Vec::new(), &patient());
        assert!(matches!(received, Err(LinkError::Lost { .. })), "{received:?}");
    });
    assert!(since.elapsed() < Duration::from_secs(3), "took {:?}", since.elapsed());
}
