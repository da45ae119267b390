//! What `control` wants, done.

use control::{Output, RankPeer as ControlPeer};
use domain::{DeploymentId, Epoch, NodeId, Rank};
use engine::{GenerationError, RankCommand, RankPeer, StageCommand};

use super::Driver;
use crate::rank::RankKey;

impl Driver {
    /// Does everything that `control` wants by now. What happens meanwhile comes in later: nothing here waits.
    pub(super) fn drain(&mut self) {
        while let Some(output) = self.control.poll_output() {
            match output {
                Output::Send { to, message } => match message.encode() {
                    Ok(bytes) => {
                        // Lost with the connection or a full queue; the next heartbeat makes up for it.
                        if let Err(error) = self.node.net.send(to, bytes.into()) {
                            tracing::debug!(node = %to.short(), %error, "a message was not sent");
                        }
                    }
                    Err(error) => tracing::error!(%error, "a message could not be written"),
                },
                Output::Fetch { deployment, epoch, shard } => self.ranks.fetch(deployment, epoch, shard),
                Output::StartRank { deployment, epoch, shard, share } => {
                    self.ranks.start(deployment, epoch, shard, &share, &self.name);
                }
                Output::Connect { deployment, epoch, rank, ranks } => self.connect(deployment, epoch, rank, ranks),
                Output::StopRank { deployment, epoch, reason } => self.ranks.stop(deployment, epoch, reason),
                Output::PeerLost { deployment, node, reason, .. } => self.peer_lost(deployment, node, reason),
                Output::DeployAnswer { request, answer } => {
                    if let Some(waiting) = self.answers.remove(&request) {
                        // Whoever asked may have gone away.
                        let _ = waiting.send(answer);
                    }
                }
                Output::Changed { .. } => self.publish(),
            }
        }
    }

    fn connect(&mut self, deployment: DeploymentId, epoch: Epoch, rank: Rank, ranks: Vec<ControlPeer>) {
        let view = self.control.view();
        let peer = |peer: ControlPeer| RankPeer {
            rank: peer.rank,
            node: peer.node,
            name: view.name_of(peer.node),
            addrs: peer.data_addrs,
        };
        let peers = ranks.into_iter().map(peer).collect();
        self.ranks.send(RankKey { deployment, epoch, rank }, RankCommand::Connect { peers });
    }

    /// Another rank is lost: what runs through this node's rank ends at once, with the name of the node.
    fn peer_lost(&mut self, deployment: DeploymentId, node: NodeId, reason: String) {
        let view = self.control.view();
        let plan = view.deployments.get(&deployment).map(|one| &one.deployment.plan);
        let rank = plan.and_then(|plan| plan.rank_of(node)).unwrap_or(Rank::HEAD);
        let error = GenerationError::RankLost { rank, node, name: view.name_of(node), cause: reason };
        self.node.generations.fail_all(deployment, &error);
        self.ranks.send_all(deployment, &RankCommand::Stage(StageCommand::Abort { error }));
    }
}
