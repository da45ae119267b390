//! Who is not paired opens nothing and reads nothing.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use domain::{DeploymentId, Epoch, NodeId, Rank, Timestamp};
use node::home::{PairedNode, PeerBook};
use node::secure::{NetEvent, SecureNet, SecureOptions, StreamKind};
use serde_json::Value;
use tokio::sync::mpsc;
use transport::{Cancel, Hello, Identity, Wait, tcp_connect};

use crate::served::{Served, rank_pids, serve};

/// A word that no protocol, page or log of ours holds.
const SECRET: &str = "zyxomma";

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_is_refused_by_every_port() -> Result<()> {
    let served = serve(2, 0)?;
    let settings = served.get(served.node(0), "/v1/settings").await?;
    let settings: Value = serde_json::from_str(&settings)?;
    let control: SocketAddr = settings["controlAddresses"][0].as_str().context("no control address")?.parse()?;
    let first: NodeId = served.node(0).id()?.parse()?;

    the_control_plane_refuses(first, control).await?;
    let ports = listening_tcp_ports(&served)?;
    let api_port = port_of(served.node(0).url()?)?;
    ensure!(ports.len() > 1 && ports.contains(&api_port), "listening: {ports:?}");
    for port in ports.into_iter().filter(|&port| port != api_port && Ok(port) != port_of_second(&served)) {
        the_data_plane_refuses(first, SocketAddr::from(([127, 0, 0, 1], port)))?;
    }
    every_control_route_refuses(&served).await?;
    // And nobody was disturbed.
    ensure!(!served.answer(served.node(0), "Say hello.", 8).await?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wire_holds_no_word_of_the_prompt() -> Result<()> {
    let served = serve(2, 0)?;
    let Some(capture) = Capture::start()? else { return Ok(()) };
    let prompt = format!("Repeat this word three times: {SECRET} {SECRET} {SECRET}");
    let answer = served.answer(served.node(0), &prompt, 40).await?;
    let through_second = served.answer(served.node(1), &prompt, 40).await?;
    let packets = capture.stop()?;

    // The API's own port is plain HTTP on this machine: it proves that the capture sees what there is to see.
    let api_ports = [port_of(served.node(0).url()?)?, port_of(served.node(1).url()?)?];
    let (http, between): (Vec<_>, Vec<_>) =
        packets.into_iter().partition(|packet| packet.ports().iter().any(|port| api_ports.contains(port)));
    ensure!(http.iter().any(|packet| packet.holds(SECRET)), "the capture missed the request itself");
    ensure!(between.len() > 20, "{} packets between the nodes", between.len());
    let answer_words = answer.split_whitespace().chain(through_second.split_whitespace());
    let telling = answer_words.filter(|word| word.len() >= 7).chain([SECRET]);
    for word in telling {
        if let Some(packet) = between.iter().find(|packet| packet.holds(word)) {
            bail!("`{word}` went over port {:?} unencrypted", packet.ports());
        }
    }
    Ok(())
}

/// A node with a key of its own, that claims to know the other, is closed before any stream.
async fn the_control_plane_refuses(node: NodeId, addr: SocketAddr) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let book = PeerBook::open(folder.path().join("peers.json"))?;
    book.insert(PairedNode { node, name: "studio".to_owned(), addrs: vec![addr], paired_at: Timestamp::default() })?;
    let (events, mut heard) = mpsc::channel(64);
    let net = SecureNet::start(
        SecureOptions {
            identity: Identity::generate()?,
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            book,
            name: "stranger".to_owned(),
            version: "0.0.0".to_owned(),
        },
        events,
    )?;
    net.dial(node, &[addr]);
    let refused = async {
        while let Some(event) = heard.recv().await {
            match event {
                NetEvent::Unreachable { why, .. } => return Ok(why),
                NetEvent::Message { .. } => bail!("a stranger was spoken to"),
                NetEvent::Connected { .. }
                | NetEvent::Disconnected { .. }
                | NetEvent::Stream { .. }
                | NetEvent::Paired { .. }
                | NetEvent::PairingChanged(_) => {}
            }
        }
        bail!("the stranger's net ended")
    };
    let why = tokio::time::timeout(Duration::from_secs(15), refused).await.context("never refused")??;
    ensure!(why.contains("not paired"), "refused for another reason: {why}");
    ensure!(net.open(node, StreamKind::Generation).await.is_err(), "a stranger opened a stream");
    net.shutdown().await;
    Ok(())
}

/// Neither a key that is not the neighbour's, nor bytes that are no TLS.
fn the_data_plane_refuses(node: NodeId, addr: SocketAddr) -> Result<()> {
    let stranger = Identity::generate()?;
    let hello = Hello { deployment: DeploymentId(1), epoch: Epoch(1), from: Rank(1), to: Rank(0) };
    let wait = Wait::within(Duration::from_secs(12), &Cancel::new());
    ensure!(tcp_connect(&stranger, &[addr], node, hello, &wait).is_err(), "a stranger's link to {addr} stands");

    let mut plain = TcpStream::connect_timeout(&addr, Duration::from_secs(2))?;
    plain.set_read_timeout(Some(Duration::from_secs(15)))?;
    plain.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    // A reset is a refusal too.
    let _ = plain.read_to_end(&mut answer);
    ensure!(answer.len() < 64 && !answer.starts_with(b"HTTP"), "{addr} answers a stranger with {} bytes", answer.len());
    Ok(())
}

async fn every_control_route_refuses(served: &Served) -> Result<()> {
    let base = served.node(0).url()?.trim_end_matches('/').to_owned();
    for path in ["/v1/cluster", "/v1/cluster/events", "/v1/cluster/models", "/v1/chats", "/v1/settings"] {
        let status = served.http.get(format!("{base}{path}")).send().await?.status();
        ensure!(status == reqwest::StatusCode::UNAUTHORIZED, "{path} without a token: {status}");
        let foreign = served.http.get(format!("{base}{path}")).header("Origin", "http://evil.example");
        let status = foreign.bearer_auth(served.node(0).token()?).send().await?.status();
        ensure!(status == reqwest::StatusCode::FORBIDDEN, "{path} from a web page: {status}");
    }
    Ok(())
}

/// TCP ports on which a node or its ranks listen.
fn listening_tcp_ports(served: &Served) -> Result<BTreeSet<u16>> {
    let mut inodes = BTreeSet::new();
    for node in served.cluster.nodes() {
        for pid in rank_pids(node)?.into_iter().chain([node.pid()]) {
            for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
                let Ok(target) = std::fs::read_link(entry?.path()) else { continue };
                let inode = target.to_string_lossy().strip_prefix("socket:[").map(|rest| rest.replace(']', ""));
                inodes.extend(inode);
            }
        }
    }
    let mut ports = BTreeSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in std::fs::read_to_string(table)?.lines().skip(1) {
            let fields: Vec<_> = line.split_whitespace().collect();
            let [_, local, _, state, _, _, _, _, _, inode, ..] = fields[..] else { continue };
            if state == "0A" && inodes.contains(inode) {
                let port = local.rsplit(':').next().context("a line without a port")?;
                ports.insert(u16::from_str_radix(port, 16)?);
            }
        }
    }
    Ok(ports)
}

fn port_of(url: &str) -> Result<u16> {
    let port = url.trim_end_matches('/').rsplit(':').next().and_then(|port| port.parse().ok());
    port.with_context(|| format!("no port in `{url}`"))
}

fn port_of_second(served: &Served) -> Result<u16, ()> {
    served.node(1).url().ok().and_then(|url| port_of(url).ok()).ok_or(())
}

/// Everything that crosses the loopback, taken by a raw socket.
struct Capture {
    child: Child,
}

struct Packet(Vec<u8>);

/// Writes each packet behind its length, until its input ends. In Python, since a raw socket is two lines there.
const SNIFFER: &str = "
import select, socket, struct, sys
sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
sniffer.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
sniffer.bind(('lo', 0))
sys.stdout.buffer.write(b'ready\\n'); sys.stdout.flush()
out = open(sys.argv[1], 'wb')
while True:
    ready, _, _ = select.select([sniffer, sys.stdin], [], [])
    if sniffer in ready:
        packet = sniffer.recv(1 << 17)
        out.write(struct.pack('>I', len(packet)) + packet)
    elif sys.stdin in ready:
        break
out.close()
";

impl Capture {
    /// `None` where this user may not capture, which is said.
    fn start() -> Result<Option<Self>> {
        let file = Self::file();
        let mut child = Command::new("python3")
            .args(["-c", SNIFFER, &file])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut ready = [0; 6];
        let mut out = child.stdout.take().context("its output")?;
        if out.read_exact(&mut ready).is_err() {
            let _ = child.wait();
            say("skipped: this user may not open a raw socket");
            return Ok(None);
        }
        Ok(Some(Self { child }))
    }

    fn file() -> String {
        std::env::temp_dir().join(format!("macrame-capture-{}", std::process::id())).display().to_string()
    }

    fn stop(mut self) -> Result<Vec<Packet>> {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.child.try_wait()?.is_none() {
            ensure!(Instant::now() < deadline, "the capture does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        let raw = std::fs::read(Self::file())?;
        std::fs::remove_file(Self::file())?;
        let (mut packets, mut rest) = (Vec::new(), &raw[..]);
        while let Some((len, after)) = rest.split_first_chunk::<4>() {
            let (packet, after) = after.split_at(u32::from_be_bytes(*len) as usize);
            packets.push(Packet(packet.to_vec()));
            rest = after;
        }
        Ok(packets)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Packet {
    /// Source and destination port of TCP or UDP over IPv4; empty for anything else.
    fn ports(&self) -> Vec<u16> {
        const ETHERNET: usize = 14;
        let Some(ip) = self.0.get(ETHERNET..) else { return Vec::new() };
        let header_len = ip.first().map_or(0, |byte| usize::from(byte & 0x0f) * 4);
        match ip.get(header_len..header_len + 4) {
            Some(&[a, b, c, d]) if ip[0] >> 4 == 4 => vec![u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])],
            _ => Vec::new(),
        }
    }

    fn holds(&self, word: &str) -> bool {
        self.0.windows(word.len()).any(|window| window == word.as_bytes())
    }
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn say(text: &str) {
    eprintln!("{text}");
}
