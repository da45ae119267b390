//! What a node is told at its start, resolved once: flags over variables over defaults.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};
use domain::Bytes;

/// The port of the API unless another is asked for. Nobody else's, see `conventions.md` in the design.
pub const API_PORT_DEFAULT: u16 = 4747;

/// Where nodes are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// On every network of this machine.
    Lan,
    /// Among the nodes of this machine only.
    Loopback,
    Off,
}

impl Discovery {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lan => "lan",
            Self::Loopback => "loopback",
            Self::Off => "off",
        }
    }

    /// The address on which the control plane and the ranks listen: nothing that need not be reachable is.
    pub const fn listen_ip(self) -> IpAddr {
        match self {
            Self::Lan => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            Self::Loopback | Self::Off => IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }
}

impl FromStr for Discovery {
    type Err = BadDiscovery;

    fn from_str(text: &str) -> Result<Self, BadDiscovery> {
        [Self::Lan, Self::Loopback, Self::Off]
            .into_iter()
            .find(|known| known.as_str() == text)
            .ok_or_else(|| BadDiscovery { got: text.to_owned() })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("discovery is `lan`, `loopback` or `off`, not `{got}`")]
pub struct BadDiscovery {
    pub got: String,
}

/// As the command line or the app gives it; what is absent has a default.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub home: Option<PathBuf>,
    pub name: Option<String>,
    pub port: Option<u16>,
    pub control_port: Option<u16>,
    pub discovery: Option<Discovery>,
    pub memory_limit: Option<Bytes>,
    pub models_dir: Option<PathBuf>,
    pub threads: Option<usize>,
    pub rank_program: Option<PathBuf>,
}

/// Everything resolved; no default is chosen after this.
#[derive(Clone, Debug)]
pub struct Config {
    /// Identity, paired nodes, chats, logs.
    pub home: PathBuf,
    /// The name to start with; a name chosen later is kept in the home and wins.
    pub name: String,
    pub api_port: u16,
    /// UDP port of the control plane; 0 lets the system choose.
    pub control_port: u16,
    pub discovery: Discovery,
    /// Never hold more than this, whatever the machine has.
    pub memory_limit: Option<Bytes>,
    /// The hub cache that models are read from and written to.
    pub models_dir: PathBuf,
    /// Threads of a rank's computation; the engine chooses if absent.
    pub threads: Option<usize>,
    /// The program that runs a rank, called with the single argument `rank`: this one, in general.
    pub rank_program: PathBuf,
}

impl Config {
    pub fn resolve(flags: &Flags) -> Result<Self> {
        let home = match &flags.home {
            Some(home) => home.clone(),
            None => default_home()?,
        };
        let rank_program = match &flags.rank_program {
            Some(program) => program.clone(),
            None => std::env::current_exe().context("cannot tell where this program lies")?,
        };
        Ok(Self {
            home: std::path::absolute(&home).with_context(|| format!("no absolute path for `{}`", home.display()))?,
            name: flags.name.clone().unwrap_or_else(host_name),
            api_port: flags.port.unwrap_or(API_PORT_DEFAULT),
            control_port: flags.control_port.unwrap_or(0),
            discovery: flags.discovery.unwrap_or(Discovery::Lan),
            memory_limit: flags.memory_limit,
            models_dir: match &flags.models_dir {
                Some(dir) => dir.clone(),
                None => store::default_cache_dir(),
            },
            threads: flags.threads,
            rank_program,
        })
    }

    pub fn log_dir(&self) -> PathBuf {
        self.home.join("logs")
    }

    pub fn control_listen(&self) -> SocketAddr {
        SocketAddr::new(self.discovery.listen_ip(), self.control_port)
    }
}

/// `~/Library/Application Support/app.macrame` on macOS, the XDG data folder elsewhere.
pub fn default_home() -> Result<PathBuf> {
    let dirs = directories::ProjectDirs::from("", "", "app.macrame")
        .context("this user has no home folder; say where to keep Macramé's files with `--home`")?;
    Ok(dirs.data_dir().to_owned())
}

fn host_name() -> String {
    let name = sysinfo::System::host_name().unwrap_or_default();
    let name = name.strip_suffix(".local").unwrap_or(&name).trim();
    if name.is_empty() { "unnamed".to_owned() } else { name.to_owned() }
}

/// Where `api.json` of a home lies: the address and token of the node that runs there.
pub fn api_file(home: &Path) -> PathBuf {
    home.join("api.json")
}
