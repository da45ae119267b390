//! The end on which the code was typed.

use std::net::SocketAddr;
use std::sync::Arc;

use domain::NodeId;
use quinn::Connection;
use tokio::time::timeout;

use super::code::Code;
use super::error::PairError;
use super::exchange::{BadExchange, Exchange, PROOF_LEN, Parties, Role, channel_binding};
use super::wire::{EXCHANGE_WITHIN, read};
use super::{PairTarget, store};
use crate::secure::close::CloseCode;
use crate::secure::dial::race;
use crate::secure::endpoint::{Expect, FaultKind, PAIR_ALPN, proven_node, remote_addr};
use crate::secure::frame::{FrameError, FrameReader, FrameWriter};
use crate::secure::hello::shown_name;
use crate::secure::shared::Shared;

/// Addresses tried for one pairing: those of one machine.
const TARGET_ADDRS_MAX: usize = 16;

/// Pairs with the machine at `target`; returns its node and name once both have stored each other.
pub(in crate::secure) async fn pair(
    net: &Arc<Shared>,
    target: &PairTarget,
    typed: &str,
) -> Result<(NodeId, String), PairError> {
    let code: Code = typed.parse().map_err(|_| PairError::BadCode)?;
    let connection = reach(net, target).await?;
    let addr = remote_addr(&connection);
    let Some(host) = proven_node(&connection) else {
        return Err(PairError::BrokenOff { why: "no node key was proven".to_owned() });
    };
    if let Err(error) = check_party(net.me, host, addr, target.node) {
        CloseCode::Protocol.close(&connection, "not the machine that was meant");
        return Err(error);
    }
    let parties = Parties { guest: net.me, host };
    let name = match timeout(EXCHANGE_WITHIN, exchange(net, &connection, &code, parties)).await {
        Ok(Ok(name)) => name,
        Ok(Err(fault)) => {
            let error = fault.explain(&connection);
            CloseCode::Protocol.close(&connection, "the pairing failed");
            return Err(error);
        }
        Err(_) => {
            CloseCode::Protocol.close(&connection, "the pairing took too long");
            return Err(PairError::TooSlow { within: EXCHANGE_WITHIN });
        }
    };
    CloseCode::Done.close(&connection, "paired");
    store(net, host, &name, addr).await.map_err(PairError::NotStored)?;
    Ok((host, name))
}

async fn reach(net: &Shared, target: &PairTarget) -> Result<Connection, PairError> {
    let addrs = &target.addrs[..target.addrs.len().min(TARGET_ADDRS_MAX)];
    race(&net.endpoints, &net.identity, addrs, Expect::Anyone, PAIR_ALPN).await.map_err(|faults| {
        match faults.iter().find(|fault| fault.kind == FaultKind::OtherProtocol) {
            Some(fault) => PairError::Version { why: fault.why.clone() },
            None => PairError::Unreachable { tried: faults.into_iter().map(|fault| (fault.addr, fault.why)).collect() },
        }
    })
}

fn check_party(me: NodeId, host: NodeId, addr: SocketAddr, expected: Option<NodeId>) -> Result<(), PairError> {
    match expected {
        _ if host == me => Err(PairError::Itself { addr }),
        Some(expected) if expected != host => Err(PairError::OtherNode { addr, expected, found: host }),
        Some(_) | None => Ok(()),
    }
}

enum Fault {
    Frame(FrameError),
    /// What the host sent does not fit the code: it does not know it, or is not the machine that shows it.
    NotProven,
}

impl From<FrameError> for Fault {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

impl From<BadExchange> for Fault {
    fn from(_: BadExchange) -> Self {
        Self::NotProven
    }
}

impl Fault {
    fn explain(self, connection: &Connection) -> PairError {
        match self {
            Self::Frame(error) => PairError::from_end(connection, &error),
            Self::NotProven => PairError::NotProven,
        }
    }
}

/// The host's name, once the host has stored this node.
async fn exchange(net: &Shared, connection: &Connection, code: &Code, parties: Parties) -> Result<String, Fault> {
    let (send, recv) = connection.open_bi().await.map_err(FrameError::Lost)?;
    let (mut writer, mut reader) = (FrameWriter::new(send), FrameReader::new(recv));
    let (exchange, message) = Exchange::start(Role::Guest, code, parties);
    writer.write(&message).await?;
    let keys = exchange.finish(&read(&mut reader).await?, &channel_binding(connection)?)?;
    writer.write(&keys.prove()).await?;
    let answer = read(&mut reader).await?;
    let (proof, sealed) = answer.split_at_checked(PROOF_LEN).ok_or(Fault::NotProven)?;
    keys.verify(proof)?;
    let name = shown_name(&keys.unseal(sealed)?);
    writer.write(&keys.seal(&net.hello().name)?).await?;
    read(&mut reader).await?;
    Ok(name)
}
