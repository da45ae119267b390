//! The state that everyone outside reads.

use std::sync::Arc;

use super::Driver;
use crate::state::ClusterState;

impl Driver {
    /// Replaces the published state if anything in it is new.
    pub(super) fn publish(&mut self) {
        let view = self.control.view();
        let book = self.node.home.peers();
        let mut sightings: Vec<_> =
            self.sightings.values().filter(|sighting| !book.contains(sighting.node)).cloned().collect();
        sightings.sort_by(|a, b| (&a.name, a.node).cmp(&(&b.name, b.node)));
        let state = ClusterState {
            rev: self.rev + 1,
            warnings: control::warnings(&view),
            view,
            sightings,
            pairing: self.node.net.pairing(),
            downloads: self.node.models.downloads(),
        };
        self.rev = state.rev;
        self.state.send_replace(Arc::new(state));
    }
}
