//! What a link promises to its caller.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{PATIENCE, brief, patient, pattern};
use crate::error::{Doing, LinkError};
use crate::flow::WINDOW_FRAMES;
use crate::frame::PAYLOAD_MAX;
use crate::link::{Link, MESSAGE_MAX};
use crate::wait::{Cancel, Wait};

type End = Box<dyn Link>;
type Clause = (&'static str, fn(End, End));

/// A hidden state of 512 tokens at 4096 in f32: many windows long.
const LARGE: usize = 8 << 20;

/// Runs the whole contract, each clause on a fresh pair. `make` gives the two ends of a new link.
pub fn link_contract(make: impl Fn() -> (End, End)) {
    let clauses: [Clause; 12] = [
        ("messages arrive whole and in order", whole_and_in_order),
        ("any size is one message", any_size),
        ("both ends may send at once", both_send_at_once),
        ("a sender waits for its receiver", sender_waits_for_receiver),
        ("a receive ends by its deadline, and the link goes on", receive_meets_deadline),
        ("a send ends by its deadline, and half a message is the end", send_meets_deadline),
        ("a message survives impatient receives", impatient_receives),
        ("a cancelled call ends soon", cancel_ends_calls),
        ("a closed link gives what was sent, then `Closed`", close_is_orderly),
        ("both ends may close at once", both_close_at_once),
        ("a cut link gives what was sent, then `Lost`", cut_is_lost),
        ("a message that is too large is refused before it is sent", too_large_is_refused),
    ];
    for (clause, run) in clauses {
        tracing::info!(clause, "link contract");
        let (a, b) = make();
        assert_eq!(a.carrier(), b.carrier(), "the two ends are of one link");
        run(a, b);
    }
}

fn whole_and_in_order(mut a: End, mut b: End) {
    const N_MESSAGES: u64 = 2000;
    thread::scope(|threads| {
        threads.spawn(move || {
            for seed in 0..N_MESSAGES {
                a.send(&pattern((seed % 97) as usize, seed), &patient()).expect("send");
            }
            a.close(&patient()).expect("close");
        });
        let mut message = Vec::new();
        for seed in 0..N_MESSAGES {
            b.recv(&mut message, &patient()).expect("recv");
            assert_eq!(message, pattern((seed % 97) as usize, seed), "message {seed}");
        }
    });
}

fn any_size(mut a: End, mut b: End) {
    let edges = [PAYLOAD_MAX, 2 * PAYLOAD_MAX, WINDOW_FRAMES as usize * PAYLOAD_MAX];
    let around = edges.iter().flat_map(|&edge| [edge - 1, edge, edge + 1]);
    let sizes: Vec<usize> = [0, 1].into_iter().chain(around).chain([LARGE, 0]).collect();
    thread::scope(|threads| {
        let sent = sizes.clone();
        threads.spawn(move || {
            for n_bytes in sent {
                a.send(&pattern(n_bytes, 7), &patient()).expect("send");
            }
            a.close(&patient()).expect("close");
        });
        let mut message = Vec::new();
        for n_bytes in sizes {
            b.recv(&mut message, &patient()).expect("recv");
            assert!(message == pattern(n_bytes, 7), "a message of {n_bytes} bytes came as {}", message.len());
        }
    });
}

fn both_send_at_once(a: End, b: End) {
    thread::scope(|threads| {
        for (mut end, mine, theirs) in [(a, 1, 2), (b, 2, 1)] {
            threads.spawn(move || {
                let mut message = Vec::new();
                for round in 0..3 {
                    end.send(&pattern(LARGE, mine + round), &patient()).expect("send while the peer sends");
                    end.recv(&mut message, &patient()).expect("recv");
                    assert!(message == pattern(LARGE, theirs + round), "round {round}");
                }
                end.close(&patient()).expect("close");
            });
        }
    });
}

fn sender_waits_for_receiver(mut a: End, mut b: End) {
    const N_MESSAGES: u64 = 4 * WINDOW_FRAMES;
    let n_sent = AtomicU64::new(0);
    thread::scope(|threads| {
        threads.spawn(|| {
            for seed in 0..N_MESSAGES {
                a.send(&pattern(PAYLOAD_MAX, seed), &patient()).expect("send");
                n_sent.store(seed + 1, Ordering::SeqCst);
            }
        });
        thread::sleep(Duration::from_millis(300));
        let n_ahead = n_sent.load(Ordering::SeqCst);
        assert!((1..=WINDOW_FRAMES).contains(&n_ahead), "{n_ahead} frames were sent to an end that reads none");
        let mut message = Vec::new();
        for seed in 0..N_MESSAGES {
            b.recv(&mut message, &patient()).expect("recv");
            assert!(message == pattern(PAYLOAD_MAX, seed), "message {seed}");
        }
    });
}

fn receive_meets_deadline(mut a: End, mut b: End) {
    let limit = Duration::from_millis(100);
    let mut message = b"as before".to_vec();
    let since = Instant::now();
    match b.recv(&mut message, &brief(limit)) {
        Err(LinkError::Timeout { peer, waited, doing: Doing::Receiving }) => {
            assert_eq!(peer, b.peer());
            assert!(waited >= limit, "{waited:?}");
        }
        other => panic!("a receive of nothing gave {other:?}"),
    }
    assert!(since.elapsed() < PATIENCE / 2, "took {:?}", since.elapsed());
    assert_eq!(message, b"as before");
    a.send(b"late", &patient()).expect("send");
    b.recv(&mut message, &patient()).expect("recv after a time-out");
    assert_eq!(message, b"late");
    b.send(b"even a message that is there needs no time", &patient()).expect("send");
    thread::sleep(Duration::from_millis(50));
    while let Err(LinkError::Timeout { .. }) = a.recv(&mut message, &brief(Duration::ZERO)) {}
    assert_eq!(message, b"even a message that is there needs no time");
}

fn send_meets_deadline(mut a: End, mut b: End) {
    let sent = a.send(&pattern(LARGE, 1), &brief(Duration::from_millis(100)));
    assert!(matches!(sent, Err(LinkError::Timeout { doing: Doing::Sending, .. })), "{sent:?}");
    let again = a.send(b"the next", &patient());
    assert!(matches!(again, Err(LinkError::Lost { .. })), "half a message has gone: {again:?}");
    drop(a);
    let mut message = Vec::new();
    let received = b.recv(&mut message, &patient());
    assert!(matches!(received, Err(LinkError::Lost { .. })), "half a message is none: {received:?}");
    assert!(message.is_empty());
}

fn impatient_receives(mut a: End, mut b: End) {
    thread::scope(|threads| {
        threads.spawn(move || {
            a.send(&pattern(LARGE, 3), &patient()).expect("send");
            a.close(&patient()).expect("close");
        });
        let mut message = Vec::new();
        let since = Instant::now();
        while let Err(error) = b.recv(&mut message, &brief(Duration::from_micros(200))) {
            assert!(matches!(error, LinkError::Timeout { .. }), "{error:?}");
            assert!(since.elapsed() < PATIENCE, "no message in {PATIENCE:?}");
        }
        assert!(message == pattern(LARGE, 3));
    });
}

fn cancel_ends_calls(mut a: End, mut b: End) {
    let since = Instant::now();
    let cancelled_soon = |call: &mut (dyn FnMut(&Wait) -> Result<(), LinkError> + Send)| {
        let cancel = Cancel::new();
        let wait = Wait::within(PATIENCE, &cancel);
        thread::scope(|threads| {
            let calling = threads.spawn(|| call(&wait));
            thread::sleep(Duration::from_millis(50));
            cancel.cancel();
            assert_eq!(calling.join().expect("caller"), Err(LinkError::Cancelled));
        });
    };
    cancelled_soon(&mut |wait| b.recv(&mut Vec::new(), wait));
    a.send(b"still here", &patient()).expect("send");
    let mut message = Vec::new();
    b.recv(&mut message, &patient()).expect("recv after a cancel");
    assert_eq!(message, b"still here");
    cancelled_soon(&mut |wait| a.send(&vec![0; LARGE], wait));
    assert!(since.elapsed() < PATIENCE / 2, "took {:?}", since.elapsed());
}

fn close_is_orderly(mut a: End, mut b: End) {
    thread::scope(|threads| {
        threads.spawn(move || {
            for seed in 0..3 {
                a.send(&pattern(100, seed), &patient()).expect("send");
            }
            a.close(&patient()).expect("close");
        });
        let mut message = Vec::new();
        for seed in 0..3 {
            b.recv(&mut message, &patient()).expect("what was sent before the close");
            assert_eq!(message, pattern(100, seed));
        }
        let closed = LinkError::Closed { peer: b.peer() };
        for _ in 0..2 {
            assert_eq!(b.recv(&mut message, &patient()), Err(closed.clone()));
        }
        assert_eq!(b.send(b"too late", &patient()), Err(closed));
        b.close(&patient()).expect("closing a closed link is in order");
    });
}

fn both_close_at_once(a: End, b: End) {
    thread::scope(|threads| {
        for end in [a, b] {
            threads.spawn(move || end.close(&patient()).expect("close"));
        }
    });
}

fn cut_is_lost(mut a: End, mut b: End) {
    a.send(b"the last words", &patient()).expect("send");
    drop(a);
    let mut message = Vec::new();
    b.recv(&mut message, &patient()).expect("what was sent before the cut");
    assert_eq!(message, b"the last words");
    for _ in 0..2 {
        match b.recv(&mut message, &patient()) {
            Err(LinkError::Lost { peer, .. }) => assert_eq!(peer, b.peer()),
            other => panic!("a cut link gave {other:?}"),
        }
    }
    let sent = b.send(b"anybody there?", &patient());
    assert!(matches!(sent, Err(LinkError::Lost { .. })), "{sent:?}");
}

fn too_large_is_refused(mut a: End, mut b: End) {
    let refused = a.send(&vec![0; MESSAGE_MAX + 1], &patient());
    assert!(matches!(refused, Err(LinkError::TooLarge { .. })), "{refused:?}");
    a.send(b"small", &patient()).expect("the link is as good as before");
    let mut message = Vec::new();
    b.recv(&mut message, &patient()).expect("recv");
    assert_eq!(message, b"small");
}
