//! The command line.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand};
use clap_complete::Shell;
use domain::Bytes;
use node::Discovery;

/// Pools the memory of your machines and runs one large language model over them.
#[derive(Debug, Parser)]
#[command(name = "macrame", version, arg_required_else_help = true)]
pub struct Flags {
    #[command(subcommand)]
    pub command: Command,

    /// Macramé's folder: identity, paired nodes, chats, logs
    #[arg(long, global = true, env = "MACRAME_HOME", value_name = "FOLDER")]
    pub home: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a node on this machine until it is stopped
    Serve(ServeFlags),
    /// Ask a model once, or chat with it; it is deployed first if need be
    Run(RunFlags),
    /// Chat with a model that is being served
    Chat {
        /// The model; the one that is served if there is just one
        model: Option<String>,
    },
    /// Show nodes, links, deployments and what is wrong
    Status {
        #[arg(long)]
        json: bool,
    },
    /// List the paired nodes, or forget one
    Nodes {
        #[command(subcommand)]
        action: Option<NodesAction>,
        #[arg(long)]
        json: bool,
    },
    /// Pair this node with another: show a code on one, type it on the other
    Pair(PairFlags),
    /// List, import or remove models on this machine's disk
    Models {
        #[command(subcommand)]
        action: Option<ModelsAction>,
        #[arg(long)]
        json: bool,
        /// The hub cache that holds the models; `HF_HUB_CACHE` and its kin decide unless chosen
        #[arg(long, value_name = "FOLDER", global = true)]
        models_dir: Option<PathBuf>,
    },
    /// Download a model from the hub
    Pull {
        /// `org/name`, with `:file.gguf` after it where the repository holds several
        model: String,
        #[command(flatten)]
        folder: ModelsFolder,
    },
    /// Show how a model would be split over the nodes, without doing it
    Plan {
        #[command(flatten)]
        goal: GoalFlags,
        #[arg(long)]
        json: bool,
    },
    /// Split a model over the nodes and serve it
    Deploy {
        #[command(flatten)]
        goal: GoalFlags,
        /// Wait until it is served, and show how far it is
        #[arg(long)]
        wait: bool,
        #[arg(long)]
        json: bool,
    },
    /// End a deployment and free its memory
    Stop {
        /// The model's name or the deployment's id
        what: String,
    },
    /// Look for what keeps this machine from working well, with fixes
    Doctor {
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        folder: ModelsFolder,
    },
    /// Measure the time to the first token and the tokens per second
    Bench(BenchFlags),
    /// Print a script that completes this command line in a shell
    Completions { shell: Shell },
    /// Run one rank of a deployment; a node starts this
    #[command(hide = true)]
    Rank,
}

#[derive(Debug, Args)]
pub struct ServeFlags {
    /// What people call this node; the computer's name unless chosen
    #[arg(long)]
    pub name: Option<String>,
    /// Port of the API and the UI; the next free one is taken if it is in use, and any with 0
    #[arg(long)]
    pub port: Option<u16>,
    /// UDP port for other nodes
    #[arg(long)]
    pub control_port: Option<u16>,
    /// Where nodes are looked for: `lan`, `loopback` (this machine only) or `off`
    #[arg(long)]
    pub discovery: Option<Discovery>,
    /// Never hold more memory than this, `8GiB` say
    #[arg(long, value_parser = bytes)]
    pub memory_limit: Option<Bytes>,
    #[command(flatten)]
    pub folder: ModelsFolder,
    /// Threads that compute; one for each core unless chosen
    #[arg(long)]
    pub threads: Option<usize>,
    /// Let other machines of the network use the API too, with the token
    #[arg(long)]
    pub lan: bool,
    /// End when standard input closes, so that no node outlives the program that started it
    #[arg(long)]
    pub parent_stdin: bool,
}

#[derive(Debug, Args)]
pub struct ModelsFolder {
    /// The hub cache that holds the models; `HF_HUB_CACHE` and its kin decide unless chosen
    #[arg(long, value_name = "FOLDER")]
    pub models_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RunFlags {
    /// The model; the one that is served, or the only one on disk, if absent
    pub model: Option<String>,
    /// The same as the argument
    #[arg(long = "model", value_name = "MODEL", conflicts_with = "model")]
    pub model_flag: Option<String>,
    /// Ask this and end; without it, chat
    #[arg(long)]
    pub prompt: Option<String>,
    /// Longest answer, in tokens
    #[arg(long)]
    pub max_tokens: Option<u32>,
    /// 0 takes the likeliest word always; up to 2
    #[arg(long)]
    pub temperature: Option<f32>,
    /// The same seed gives the same answer
    #[arg(long)]
    pub seed: Option<i64>,
    #[command(flatten)]
    pub spread: SpreadFlags,
}

#[derive(Debug, Args)]
pub struct GoalFlags {
    pub model: String,
    /// Context to make room for, in tokens
    #[arg(long, value_name = "TOKENS")]
    pub context: Option<u32>,
    #[command(flatten)]
    pub spread: SpreadFlags,
}

#[derive(Debug, Args)]
pub struct SpreadFlags {
    /// Over all of these nodes and no others, by name or id
    #[arg(long, value_delimiter = ',', conflicts_with = "spread")]
    pub nodes: Vec<String>,
    /// Over all nodes that are alive, not over as few as hold the model
    #[arg(long)]
    pub spread: bool,
}

#[derive(Debug, Subcommand)]
pub enum NodesAction {
    /// Forget a node: it has to be paired again
    Remove {
        /// Its name or id
        node: String,
    },
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("side").required(true).args(["show", "code"]))]
pub struct PairFlags {
    /// Show a code here, to be typed on the other machine
    #[arg(long)]
    pub show: bool,
    /// Print the code and end; it stays good until it expires
    #[arg(long, requires = "show")]
    pub no_wait: bool,
    /// Type the code that the other machine shows
    #[arg(long)]
    pub code: Option<String>,
    /// The other machine, by name or id, if several are in sight
    #[arg(long, conflicts_with_all = ["address", "show"])]
    pub node: Option<String>,
    /// The other machine's address, if it is not in sight: `HOST:PORT`
    #[arg(long, conflicts_with = "show")]
    pub address: Option<String>,
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum ModelsAction {
    /// Copy a GGUF file into the hub cache under a name
    Import {
        file: PathBuf,
        /// `org/name`
        #[arg(long)]
        id: String,
    },
    /// Delete a model from the disk
    Remove { model: String },
}

#[derive(Debug, Args)]
pub struct BenchFlags {
    /// The model; the one that is served if there is just one
    pub model: Option<String>,
    /// Measurements, of which the median is shown
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Words of the prompt
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub prompt_words: u32,
    /// Tokens of each answer
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub tokens: u32,
    #[arg(long)]
    pub json: bool,
}

/// `512MiB`, `8GiB`, `8 GB`, or plain bytes.
fn bytes(text: &str) -> Result<Bytes, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err(format!("`{unit}` is no unit of memory; use `MiB` or `GiB`")),
    };
    let number: u64 = number.parse().map_err(|_| "expected a whole number and a unit, `8GiB` say".to_owned())?;
    number.checked_mul(scale).map(Bytes::new).ok_or_else(|| "more memory than there is".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Flags::command().debug_assert();
    }

    #[test]
    fn memory_is_read_with_its_unit() {
        assert_eq!(bytes("8GiB"), Ok(Bytes::from_gib(8)));
        assert_eq!(bytes("512 MiB"), Ok(Bytes::from_mib(512)));
        assert_eq!(bytes("2GB"), Ok(Bytes::new(2_000_000_000)));
        assert_eq!(bytes("7"), Ok(Bytes::new(7)));
        for bad in ["", "GiB", "8 gib", "8Gi", "-1GiB", "1.5GiB", "99999999TiB"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_commands_that_other_programs_use_are_read() {
        let lines = [
            "macrame serve --home h --name n --port 0 --control-port 0 --discovery loopback --models-dir m --parent-stdin",
            "macrame pair --show --json --home h",
            "macrame pair --code 123456 --node 00ff --json",
            "macrame deploy org/name --wait --spread --json",
            "macrame run --model org/name --prompt hello --home h",
            "macrame run org/name --prompt hello",
            "macrame models import file.gguf --id org/name --models-dir m",
            "macrame models --models-dir m remove org/name",
            "macrame pull org/name --models-dir m",
            "macrame status --json",
            "macrame rank",
        ];
        for line in lines {
            assert!(Flags::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
        for line in ["macrame", "macrame pair", "macrame pair --show --code 123456", "macrame pair --show --node x"] {
            assert!(Flags::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
