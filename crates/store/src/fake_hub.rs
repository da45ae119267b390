//! A hub of one repository on loopback, which misbehaves as it is told. For tests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::digest::Sha256;
use crate::{Access, HubOptions};

pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// How many bytes the server writes at once.
const PIECE_BYTES: usize = 8 << 10;

/// What the hub does wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    #[default]
    None,
    /// Cuts each connection after so many bytes of a file.
    CutAfter(usize),
    /// Sends so many bytes of a file and then nothing, the connection open.
    StallAfter(usize),
    /// Answers everything with this status.
    Status(u16),
    /// Announces a file of so many bytes more than it sends.
    AnnounceMore(u64),
    /// Sends other bytes than announced.
    FlipBytes,
    /// Sends every file from its beginning, whatever was asked for.
    IgnoreRange,
}

#[derive(Clone)]
pub struct FakeHub {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Vec<u8>>,
    fault: Fault,
    /// First byte of each `GET` of a file.
    starts: Vec<usize>,
}

impl FakeHub {
    /// A hub that holds `org/name` with these files.
    pub async fn start(files: &[(&str, &[u8])]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let files = files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
        let state = Arc::new(Mutex::new(State { files, ..State::default() }));
        let hub = Self { port: listener.local_addr().expect("an address").port(), state };
        let serving = hub.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let hub = serving.clone();
                tokio::spawn(async move { hub.answer(connection).await });
            }
        });
        hub
    }

    pub fn options(&self) -> HubOptions {
        HubOptions {
            endpoint: format!("http://127.0.0.1:{}", self.port),
            token: None,
            access: Access::Online,
            retry_pause: Duration::from_millis(1),
        }
    }

    pub fn misbehave(&self, fault: Fault) {
        self.state.lock().expect("not poisoned").fault = fault;
    }

    /// Where each request for a file's bytes began, since the last call.
    pub fn take_starts(&self) -> Vec<usize> {
        std::mem::take(&mut self.state.lock().expect("not poisoned").starts)
    }

    async fn answer(&self, mut connection: TcpStream) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match connection.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return,
            }
        }
        let head = String::from_utf8(head).expect("HTTP is text");
        let mut words = head.split_whitespace();
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let start = head.lines().find_map(|line| {
            let line = line.to_ascii_lowercase();
            line.strip_prefix("range: bytes=")?.split('-').next()?.parse::<usize>().ok()
        });
        let (files, fault) = {
            let state = self.state.lock().expect("not poisoned");
            (state.files.clone(), state.fault.clone())
        };
        if let Fault::Status(status) = fault {
            respond(&mut connection, status, "", b"{}").await;
        } else if path == "/api/models/org/name" {
            let siblings: Vec<_> = files.keys().map(|name| format!("{{\"rfilename\":\"{name}\"}}")).collect();
            let json = format!("{{\"id\":\"org/name\",\"sha\":\"{COMMIT}\",\"siblings\":[{}]}}", siblings.join(","));
            respond(&mut connection, 200, "Content-Type: application/json\r\n", json.as_bytes()).await;
        } else {
            let name = path.strip_prefix(&format!("/org/name/resolve/{COMMIT}/"));
            match name.and_then(|name| files.get(name)) {
                None => respond(&mut connection, 404, "", b"{\"error\":\"not found\"}").await,
                Some(bytes) if method == "HEAD" => head_of(&mut connection, bytes, &fault).await,
                Some(bytes) => {
                    self.state.lock().expect("not poisoned").starts.push(start.unwrap_or(0));
                    send_file(&mut connection, bytes, start, &fault).await;
                }
            }
        }
    }
}

async fn head_of(connection: &mut TcpStream, bytes: &[u8], fault: &Fault) {
    let mut hash = Sha256::new();
    hash.update(bytes);
    let more = if let Fault::AnnounceMore(more) = fault { *more } else { 0 };
    let size = bytes.len() as u64 + more;
    let head = format!(
        "HTTP/1.1 200 OK\r\nX-Repo-Commit: {COMMIT}\r\nX-Linked-Etag: \"{}\"\r\nX-Linked-Size: {size}\r\n\
         Content-Length: {size}\r\nConnection: close\r\n\r\n",
        hash.finish()
    );
    let _ = connection.write_all(head.as_bytes()).await;
}

async fn send_file(connection: &mut TcpStream, bytes: &[u8], start: Option<usize>, fault: &Fault) {
    let start = if *fault == Fault::IgnoreRange { None } else { start };
    let status = if start.is_some() { "206 Partial Content" } else { "200 OK" };
    let mut rest = bytes[start.unwrap_or(0).min(bytes.len())..].to_vec();
    if *fault == Fault::FlipBytes {
        rest.iter_mut().for_each(|byte| *byte = !*byte);
    }
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", rest.len());
    let _ = connection.write_all(head.as_bytes()).await;
    let sent = match fault {
        Fault::CutAfter(n) | Fault::StallAfter(n) => rest.len().min(*n),
        Fault::None | Fault::Status(_) | Fault::AnnounceMore(_) | Fault::FlipBytes | Fault::IgnoreRange => rest.len(),
    };
    for piece in rest[..sent].chunks(PIECE_BYTES) {
        if connection.write_all(piece).await.is_err() {
            return;
        }
    }
    let _ = connection.flush().await;
    if matches!(fault, Fault::StallAfter(_)) {
        // Until the client goes away.
        let _ = connection.read_u8().await;
    }
}

async fn respond(connection: &mut TcpStream, status: u16, headers: &str, body: &[u8]) {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} Answer\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = connection.write_all(head.as_bytes()).await;
    let _ = connection.write_all(body).await;
}
