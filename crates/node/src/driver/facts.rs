//! What this node tells of itself, and when it is worth telling.

use domain::{Bytes, Fact, Memory, NodeFacts, NodeId};

use super::{Driver, OwnEvent};
use control::Input;

impl Driver {
    /// Looks at the machine, off this loop.
    pub(super) fn begin_survey(&self) {
        let (survey, own) = (self.survey.clone(), self.own.clone());
        let (name, pids) = (self.name.clone(), self.ranks.pids());
        tokio::spawn(async move {
            let facts = survey.facts(&name, pids).await;
            // Only a driver that has ended does not hear it.
            let _ = own.send(OwnEvent::Surveyed(facts)).await;
        });
    }

    pub(super) fn surveyed(&mut self, facts: NodeFacts) {
        let facts = NodeFacts { name: self.name.clone(), ..facts };
        if differs(&self.facts, &facts) {
            self.tell_facts(facts);
        }
    }

    /// Tells `control`, with the links as they were measured.
    pub(super) fn tell_facts(&mut self, facts: NodeFacts) {
        self.facts = NodeFacts { links: self.links.values().cloned().collect(), ..facts };
        self.handle(Input::Facts(Box::new(self.facts.clone())));
    }

    /// Measures the link to a node, off this loop.
    pub(super) fn begin_probe(&self, node: NodeId) {
        let (net, own) = (self.node.net.clone(), self.own.clone());
        tokio::spawn(async move {
            match crate::probe::measure(&net, node).await {
                Ok(link) => {
                    // Only a driver that has ended does not hear it.
                    let _ = own.send(OwnEvent::Probed(link)).await;
                }
                Err(error) => tracing::debug!(node = %node.short(), %error, "the link was not measured"),
            }
        });
    }
}

/// Whether `now` says something new. Memory breathes: a change below a hundredth of it is none, or every node would
/// send its record to every other all day.
fn differs(before: &NodeFacts, now: &NodeFacts) -> bool {
    before.name != now.name
        || before.version != now.version
        || before.os.value() != now.os.value()
        || before.chip.value() != now.chip.value()
        || before.rdma.value() != now.rdma.value()
        || memory_differs(&before.memory, &now.memory)
        || bytes_differ(before.disk_free.value().copied(), now.disk_free.value().copied())
}

fn memory_differs(before: &Fact<Memory>, now: &Fact<Memory>) -> bool {
    let (Some(before), Some(now)) = (before.value(), now.value()) else {
        return before.value() != now.value();
    };
    let step = now.total.scaled(1, 100);
    before.total != now.total
        || apart(before.usable, now.usable) > step
        || apart(before.used_by_others, now.used_by_others) > step
}

fn bytes_differ(before: Option<Bytes>, now: Option<Bytes>) -> bool {
    match (before, now) {
        (Some(before), Some(now)) => apart(before, now) > now.scaled(1, 100),
        (before, now) => before != now,
    }
}

fn apart(a: Bytes, b: Bytes) -> Bytes {
    a.max(b) - a.min(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::Timestamp;

    fn facts(usable_gib: u64, at: u64) -> NodeFacts {
        let usable = Bytes::from_gib(usable_gib);
        let memory = Memory { total: Bytes::from_gib(64), used_by_others: Bytes::ZERO, usable };
        NodeFacts { memory: Fact::known(memory, Timestamp(at)), ..NodeFacts::named("studio") }
    }

    #[test]
    fn only_news_is_told() {
        assert!(!differs(&facts(40, 1), &facts(40, 2)), "the same, measured later");
        assert!(differs(&facts(40, 1), &facts(42, 2)));
        assert!(differs(&NodeFacts::named("studio"), &facts(40, 1)));
        assert!(differs(&facts(40, 1), &NodeFacts { name: "mini".to_owned(), ..facts(40, 1) }));
    }
}
