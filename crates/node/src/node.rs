//! Starts a node: opens its home, then everything that runs, in the order in which one needs the other.

use std::sync::Arc;

use control::{Boot, Control};
use domain::NodeFacts;
use store::HubOptions;
use tokio::sync::{mpsc, watch};

use crate::chats::Chats;
use crate::config::{self, Config};
use crate::discovery::{Discovery, DiscoveryOptions};
use crate::driver::{Driver, Ears, HeadRanks, Start};
use crate::error::NodeError;
use crate::generations::Generations;
use crate::handle::{Inner, NodeHandle};
use crate::home::Home;
use crate::models::Models;
use crate::name;
use crate::secure::{self, PairingStatus, SecureNet, SecureOptions};
use crate::state::ClusterState;
use crate::survey::{Survey, SurveyOptions};

/// Version of the program, as other nodes and people see it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What waits for the driver, of each kind. A step of the driver takes well below a millisecond; whoever finds the
/// queue full waits, so this only smooths bursts.
const WAITING_MAX: usize = 256;

pub struct Node;

impl Node {
    /// Starts a node. It runs until [`NodeHandle::shutdown`].
    pub async fn start(config: Config) -> Result<NodeHandle, NodeError> {
        let home = Home::open(&config.home)?;
        let name = name::kept(&home, &config.name)?;
        let chats = Chats::open(&home.file("chats.sqlite"))?;
        let models = Models::new(config.models_dir.clone(), HubOptions::from_env())?;
        let survey =
            Survey::new(SurveyOptions { models_dir: config.models_dir.clone(), memory_limit: config.memory_limit });
        let facts = survey.facts(&name, Vec::new()).await;

        let (net_events, net) = mpsc::channel(WAITING_MAX);
        let secure = SecureNet::start(
            SecureOptions {
                identity: home.identity().clone(),
                listen: vec![config.control_listen()],
                book: home.peers().clone(),
                name: name.clone(),
                version: VERSION.to_owned(),
            },
            net_events,
        )?;
        let (discovery_events, discovered) = mpsc::channel(WAITING_MAX);
        let port = secure.local_addrs().first().ok_or(secure::StartError::NoAddress)?.port();
        let options = DiscoveryOptions {
            mode: config.discovery,
            node: home.node(),
            name: name.clone(),
            version: VERSION.to_owned(),
            port,
        };
        let discovery = match Discovery::start(&options, discovery_events.clone()) {
            Ok(discovery) => discovery,
            // A machine without a network still runs models, and typed addresses still work.
            Err(error) => {
                tracing::warn!(%error, "going on without discovery");
                Discovery::start(&DiscoveryOptions { mode: config::Discovery::Off, ..options }, discovery_events)?
            }
        };

        let (commands, asked) = mpsc::channel(WAITING_MAX);
        let (rank_events, ranks) = mpsc::channel(WAITING_MAX);
        let (own_events, own) = mpsc::channel(WAITING_MAX);
        let (state, published) = watch::channel(Arc::new(first_state(&home, &facts)));
        let downloads = models.downloads_changed();
        tracing::info!(node = %home.node().short(), name, version = VERSION, port, "node started");
        let inner = Arc::new(Inner {
            config,
            home,
            net: secure,
            models,
            chats,
            generations: Generations::default(),
            heads: HeadRanks::default(),
            state: published,
            commands,
        });
        let start = Start {
            node: inner.clone(),
            survey,
            discovery,
            rank_events,
            own: own_events,
            name,
            facts,
            seed: rand::random(),
            state,
        };
        let driver = Driver::new(start);
        tokio::spawn(driver.run(Ears { commands: asked, net, discovery: discovered, ranks, own, downloads }));
        Ok(NodeHandle { inner })
    }
}

/// What is shown until the driver has taken its first step: this node alone.
fn first_state(home: &Home, facts: &NodeFacts) -> ClusterState {
    let control = Control::new(home.node(), facts.clone(), Boot(home.boot()), 0, std::time::Instant::now());
    ClusterState {
        rev: 0,
        view: control.view(),
        warnings: Vec::new(),
        sightings: Vec::new(),
        pairing: PairingStatus::Closed,
        downloads: Vec::new(),
    }
}
