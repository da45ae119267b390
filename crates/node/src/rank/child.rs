//! The rank itself: what `macrame rank` runs.
//!
//! This thread loads, connects and computes. Beside it, one reads commands and is so the first to know that the node
//! is gone; one hands them to the stage; one writes reports; one watches the memory.

use std::any::Any;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use domain::{Hint, Hints};
use engine::rank_protocol::Load;
use engine::{
    Compute, GenerationError, Member, RankCommand, RankPeer, RankReport, Stage, StageCommand, StageHandle,
    StageOptions, StageRole,
};
use transport::{Cancel, Identity, IdentityError, TcpListener};

use super::commands::Commands;
use super::load::{CandleLoader, LoadFailed, Loaded, Loader};
use super::memory_watch::MemoryWatch;
use super::neighbours::{self, NoNeighbours, Station};
use crate::logging;

/// Reports on their way to the node. A full queue holds the computation up, not the memory.
const REPORTS_MAX: usize = 256;

/// Runs one rank over standard input and output until the node ends it.
pub fn rank_main() -> ExitCode {
    if let Err(error) = logging::start_rank() {
        // Without a log the rank still works, and standard error is where the log would go.
        let _ = writeln!(io::stderr(), "no log: {error}");
    }
    // The process is all there is to end: what still runs is a thread that does not listen.
    let give_up = || std::process::exit(2);
    match serve(BufReader::new(io::stdin()), io::stdout(), &CandleLoader, give_up) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed) => ExitCode::FAILURE,
    }
}

/// The rank failed, and has said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failed;

/// A rank's life over any two pipes. `give_up` is called when it has not ended soon after its input has.
fn serve(
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
    loader: &dyn Loader,
    give_up: impl FnOnce() + Send + 'static,
) -> Result<(), Failed> {
    let (reports, to_write) = mpsc::sync_channel(REPORTS_MAX);
    let writer = thread::spawn(move || write(output, &to_write));
    let (commands, to_obey) = Commands::read(input, give_up);
    let memory = MemoryWatch::start(reports.clone());
    let lived = catch_unwind(AssertUnwindSafe(|| live(to_obey, &reports, &commands.cancel, loader)));
    drop(memory);
    let lived = lived.unwrap_or_else(|panic| Err(RankFailed::Panic { message: message_of(panic.as_ref()) }));
    let result = match (lived, commands.fault()) {
        (Ok(()) | Err(RankFailed::Gone), None) => Ok(()),
        (Ok(()) | Err(RankFailed::Gone), Some(fault)) => fail(&reports, &RankFailed::Command(fault)),
        (Err(failed), _) => fail(&reports, &failed),
    };
    drop(reports);
    let _ = writer.join();
    result
}

fn fail(reports: &SyncSender<RankReport>, failed: &RankFailed) -> Result<(), Failed> {
    let error = with_causes(failed);
    tracing::error!(error, "the rank failed");
    // If nobody reads reports any more, the log above is where it is told.
    let _ = reports.send(RankReport::Failed { error, hints: failed.hints() });
    Err(Failed)
}

/// Load, connect, serve.
fn live(
    commands: Receiver<RankCommand>,
    reports: &SyncSender<RankReport>,
    cancel: &Cancel,
    loader: &dyn Loader,
) -> Result<(), RankFailed> {
    let load = match next(&commands)? {
        RankCommand::Load(load) => load,
        RankCommand::Connect { .. } | RankCommand::Stage(_) => return Err(RankFailed::Order { expected: "Load" }),
    };
    let identity = Identity::from_pkcs8(&load.identity.0)?;
    let loaded = loader.load(&load)?;
    let mut listener = match load.shard.n_ranks {
        1 => None,
        _ => Some(neighbours::listen(&identity, &load.listen)?),
    };
    let addrs = listener.iter().map(TcpListener::local_addr).collect();
    tell(reports, RankReport::Loaded { addrs, footprint: loaded.compute.footprint() })?;

    let peers = match next(&commands)? {
        RankCommand::Connect { peers } => peers,
        RankCommand::Load(_) | RankCommand::Stage(_) => return Err(RankFailed::Order { expected: "Connect" }),
    };
    let (compute, role) = place(&load, &identity, &peers, listener.as_mut(), loaded, cancel)?;
    drop(listener);
    let me = Member { rank: load.shard.rank, node: load.node, name: load.node_name };
    let (stage, handle) = Stage::new(me, compute, role, StageOptions::default());
    tell(reports, RankReport::Serving)?;

    thread::spawn(move || obey(&commands, &handle));
    let ended = stage.run(|report| {
        // A node that does not read is gone; the end of its commands ends the stage.
        let _ = reports.send(RankReport::Stage(report));
    });
    ended.map_err(RankFailed::Stage)
}

/// This rank's place in the pipeline, linked to its neighbours.
fn place(
    load: &Load,
    identity: &Identity,
    peers: &[RankPeer],
    listener: Option<&mut TcpListener>,
    loaded: Loaded,
    cancel: &Cancel,
) -> Result<(Box<dyn Compute>, StageRole), RankFailed> {
    let Loaded { compute, text } = loaded;
    let no_text = RankFailed::Order { expected: "a model with a tokenizer at the head" };
    let Some(listener) = listener else {
        return Ok((compute, StageRole::Whole { text: text.ok_or(no_text)? }));
    };
    let (deployment, epoch, me) = (load.deployment, load.epoch, load.shard.rank);
    let links = Station { identity, deployment, epoch, me, peers, cancel }.connect(listener)?;
    let role = match (links.previous, links.next) {
        (None, Some(next)) => StageRole::Head { text: text.ok_or(no_text)?, next, last: links.across },
        (Some(previous), Some(next)) => StageRole::Middle { previous, next },
        (Some(previous), None) => StageRole::Last { previous, head: links.across },
        (None, None) => return Err(NoNeighbours::Missing { rank: me }.into()),
    };
    Ok((compute, role))
}

/// Waits for a command outside the stage. The end of the commands, or an order to end, ends the rank.
fn next(commands: &Receiver<RankCommand>) -> Result<RankCommand, RankFailed> {
    match commands.recv() {
        Ok(RankCommand::Stage(StageCommand::Shutdown | StageCommand::Abort { .. })) | Err(_) => Err(RankFailed::Gone),
        Ok(command) => Ok(command),
    }
}

/// Hands commands to the stage until either ends.
fn obey(commands: &Receiver<RankCommand>, stage: &StageHandle) {
    loop {
        let told = match commands.recv() {
            Ok(RankCommand::Stage(command)) => stage.send(command),
            Ok(RankCommand::Load(_) | RankCommand::Connect { .. }) => {
                tracing::warn!("told to load or connect while serving: ignored");
                Ok(())
            }
            Err(_) => {
                // Ended meanwhile is as well.
                let _ = stage.send(StageCommand::Shutdown);
                return;
            }
        };
        if told.is_err() {
            return;
        }
    }
}

fn tell(reports: &SyncSender<RankReport>, report: RankReport) -> Result<(), RankFailed> {
    reports.send(report).map_err(|_| RankFailed::Gone)
}

/// Writes each report as a line, at once: the node shows tokens as they come.
fn write(output: impl Write, reports: &Receiver<RankReport>) {
    let mut output = BufWriter::new(output);
    for report in reports {
        let written = serde_json::to_writer(&mut output, &report).map_err(io::Error::from);
        if let Err(error) = written.and_then(|()| output.write_all(b"\n")).and_then(|()| output.flush()) {
            tracing::debug!(%error, "the node does not read reports any more");
            return;
        }
    }
}

/// Why a rank ended without being told to.
#[derive(Debug, thiserror::Error)]
enum RankFailed {
    #[error(transparent)]
    Load(#[from] LoadFailed),
    #[error("the node's key cannot be read")]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Neighbours(NoNeighbours),
    #[error(transparent)]
    Stage(GenerationError),
    #[error("the engine panicked: {message}")]
    Panic { message: String },
    #[error("the node did not send what was due: {expected}")]
    Order { expected: &'static str },
    #[error("the node sent {0}")]
    Command(String),
    /// The node ended it, or is itself gone: no failure.
    #[error("the node is gone")]
    Gone,
}

impl From<NoNeighbours> for RankFailed {
    fn from(error: NoNeighbours) -> Self {
        if error.is_cancelled() { Self::Gone } else { Self::Neighbours(error) }
    }
}

impl Hint for RankFailed {
    fn hints(&self) -> Hints {
        match self {
            Self::Load(error) => error.hints.clone(),
            Self::Neighbours(error) => error.hints(),
            Self::Stage(error) => error.hints(),
            Self::Panic { .. } => vec!["deploy the model again; if this repeats, report it with the log".to_owned()],
            Self::Identity(_) | Self::Order { .. } | Self::Command(_) => {
                vec!["the app and its rank are of different versions: start Macramé again".to_owned()]
            }
            Self::Gone => Vec::new(),
        }
    }
}

/// The error and its causes in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

#[cfg(test)]
#[expect(clippy::wildcard_enum_match_arm, clippy::unwrap_in_result, reason = "a test names the one thing it expects")]
mod tests {
    use std::io::{BufReader, PipeReader, PipeWriter};
    use std::net::SocketAddr;
    use std::thread::JoinHandle;
    use std::time::{Duration, Instant};

    use domain::{DeploymentId, Epoch, GenerationId, LayerCount, LayerRange, Rank, Shard, TokenCount};
    use engine::rank_protocol::IdentityKey;
    use engine::testing::{ToyCompute, ToyText};
    use engine::{GenerationRequest, StageReport, TokenEvent};

    use super::*;

    const N_LAYERS: u32 = 4;
    const CONTEXT: TokenCount = TokenCount(64);

    struct Toy;

    impl Loader for Toy {
        fn load(&self, load: &Load) -> Result<Loaded, LoadFailed> {
            let (layers, n_slots) = (load.shard.layers, load.n_slots as usize);
            let compute = Box::new(ToyCompute::new(layers, N_LAYERS, n_slots, load.shard.context));
            let text = load.shard.is_first().then(|| Box::new(ToyText) as Box<dyn engine::Text>);
            Ok(Loaded { compute, text })
        }
    }

    struct Broken;

    impl Loader for Broken {
        fn load(&self, _: &Load) -> Result<Loaded, LoadFailed> {
            Err(LoadFailed { source: "the file is cut short".into(), hints: vec!["fetch it again".to_owned()] })
        }
    }

    struct Panicking;

    impl Loader for Panicking {
        fn load(&self, _: &Load) -> Result<Loaded, LoadFailed> {
            panic!("index {} out of range", 7)
        }
    }

    /// A rank on a thread, and the node's ends of its pipes.
    struct Running {
        identity: Identity,
        shard: Shard,
        commands: PipeWriter,
        reports: BufReader<PipeReader>,
        rank: JoinHandle<Result<(), Failed>>,
    }

    fn start(rank: u16, n_ranks: u16, loader: &'static dyn Loader) -> Running {
        let (input, commands) = io::pipe().expect("a pipe");
        let (reports, output) = io::pipe().expect("a pipe");
        let rank_thread =
            thread::spawn(move || serve(BufReader::new(input), output, loader, || panic!("did not end in time")));
        let per_rank = N_LAYERS / u32::from(n_ranks);
        let first = u32::from(rank) * per_rank;
        let end = if rank + 1 == n_ranks { N_LAYERS } else { first + per_rank };
        let shard = Shard {
            model: "org/toy".parse().expect("an id"),
            rank: Rank(rank),
            n_ranks,
            layers: LayerRange::try_from((first, end)).expect("layers"),
            n_layers: LayerCount(N_LAYERS),
            context: CONTEXT,
        };
        let identity = Identity::generate().expect("a key");
        Running { identity, shard, commands, reports: BufReader::new(reports), rank: rank_thread }
    }

    impl Running {
        fn send(&mut self, command: &RankCommand) {
            let line = serde_json::to_string(command).expect("JSON");
            writeln!(self.commands, "{line}").expect("the rank reads");
        }

        /// The next report, those of memory passed over.
        fn report(&mut self) -> RankReport {
            loop {
                let mut line = String::new();
                self.reports.read_line(&mut line).expect("the rank writes");
                match serde_json::from_str(&line).expect("a report") {
                    RankReport::Memory { .. } => {}
                    report => return report,
                }
            }
        }

        fn load(&mut self) {
            let load = Load {
                deployment: DeploymentId(1),
                epoch: Epoch(1),
                node: self.identity.node_id(),
                node_name: "desk".to_owned(),
                identity: IdentityKey(self.identity.pkcs8().to_vec()),
                shard: self.shard.clone(),
                files: Vec::new(),
                n_slots: 2,
                n_threads: None,
                listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            };
            self.send(&RankCommand::Load(Box::new(load)));
        }

        fn loaded(&mut self) -> RankPeer {
            self.load();
            match self.report() {
                RankReport::Loaded { addrs, .. } => {
                    RankPeer { rank: self.shard.rank, node: self.identity.node_id(), name: "desk".to_owned(), addrs }
                }
                report => panic!("expected Loaded, got {report:?}"),
            }
        }

        fn ask(&mut self, prompt: &str) -> String {
            let (id, mut request) = (GenerationId(1), GenerationRequest::greedy(prompt));
            request.max_tokens = Some(TokenCount(8));
            self.send(&RankCommand::Stage(StageCommand::Generate { id, request: Box::new(request) }));
            let mut answer = String::new();
            loop {
                match self.report() {
                    RankReport::Stage(StageReport::Event { event: TokenEvent::Text { text, .. }, .. }) => {
                        answer += &text
                    }
                    RankReport::Stage(StageReport::Event { event: TokenEvent::Finished { .. }, .. }) => return answer,
                    RankReport::Stage(StageReport::Event { .. } | StageReport::Activity { .. }) => {}
                    report => panic!("expected an answer, got {report:?}"),
                }
            }
        }

        /// Closes the pipe and waits for the end.
        fn end(self) -> Result<(), Failed> {
            drop(self.commands);
            self.rank.join().expect("no panic")
        }
    }

    fn whole_answer(prompt: &str) -> String {
        let mut rank = start(0, 1, &Toy);
        let peer = rank.loaded();
        assert!(peer.addrs.is_empty(), "nobody is to be listened for");
        rank.send(&RankCommand::Connect { peers: vec![peer] });
        assert_eq!(rank.report(), RankReport::Serving);
        let answer = rank.ask(prompt);
        let started = Instant::now();
        assert_eq!(rank.end(), Ok(()));
        assert!(started.elapsed() < Duration::from_secs(2), "the end of the pipe is the end of the rank");
        answer
    }

    #[test]
    fn ranks_of_three_processes_answer_as_one_does() {
        let expected = whole_answer("hello");
        assert!(!expected.is_empty());
        let mut ranks: Vec<_> = (0..3).map(|rank| start(rank, 3, &Toy)).collect();
        let peers: Vec<_> = ranks.iter_mut().map(Running::loaded).collect();
        for rank in &mut ranks {
            rank.send(&RankCommand::Connect { peers: peers.clone() });
        }
        for rank in &mut ranks {
            assert_eq!(rank.report(), RankReport::Serving);
        }
        assert_eq!(ranks[0].ask("hello"), expected);
        for rank in &mut ranks {
            rank.send(&RankCommand::Stage(StageCommand::Shutdown));
        }
        for rank in ranks {
            assert_eq!(rank.rank.join().expect("no panic"), Ok(()), "told to end, with the pipe still open");
        }
    }

    #[test]
    fn a_rank_whose_neighbour_is_gone_fails_and_names_it() {
        let mut ranks: Vec<_> = (0..2).map(|rank| start(rank, 2, &Toy)).collect();
        let mut peers: Vec<_> = ranks.iter_mut().map(Running::loaded).collect();
        peers[1].name = "studio".to_owned();
        for rank in &mut ranks {
            rank.send(&RankCommand::Connect { peers: peers.clone() });
            assert!(rank.shard.rank != Rank(1) || rank.report() == RankReport::Serving);
        }
        let last = ranks.pop().expect("two ranks");
        let mut head = ranks.pop().expect("two ranks");
        assert_eq!(head.report(), RankReport::Serving);
        assert_eq!(last.end(), Ok(()));
        // An idle head has nothing to ask its neighbour; the next generation finds out.
        let request = Box::new(GenerationRequest::greedy("hello"));
        head.send(&RankCommand::Stage(StageCommand::Generate { id: GenerationId(1), request }));
        let failed = loop {
            match head.report() {
                RankReport::Failed { error, .. } => break error,
                RankReport::Stage(_) => {}
                report => panic!("expected Failed, got {report:?}"),
            }
        };
        assert!(failed.starts_with("rank 1 on studio was lost"), "{failed}");
        assert_eq!(head.end(), Err(Failed));
    }

    #[test]
    fn a_failed_load_is_told_with_its_cause_and_its_hints() {
        let mut rank = start(0, 1, &Broken);
        rank.load();
        let (error, hints) =
            ("cannot load the model: the file is cut short".to_owned(), vec!["fetch it again".to_owned()]);
        assert_eq!(rank.report(), RankReport::Failed { error, hints });
        assert_eq!(rank.end(), Err(Failed));
    }

    #[test]
    fn a_panic_is_told_and_ends_the_rank_alone() {
        let mut rank = start(0, 1, &Panicking);
        rank.load();
        match rank.report() {
            RankReport::Failed { error, .. } => assert_eq!(error, "the engine panicked: index 7 out of range"),
            report => panic!("expected Failed, got {report:?}"),
        }
        assert_eq!(rank.end(), Err(Failed));
    }

    #[test]
    fn nonsense_and_wrong_order_are_refused() {
        let mut rank = start(0, 1, &Toy);
        writeln!(rank.commands, "nonsense").expect("the rank reads");
        assert!(matches!(rank.report(), RankReport::Failed { error, .. } if error.contains("what is no command")));
        assert_eq!(rank.end(), Err(Failed));
        let mut rank = start(0, 1, &Toy);
        rank.send(&RankCommand::Connect { peers: Vec::new() });
        assert!(matches!(rank.report(), RankReport::Failed { error, .. } if error.ends_with("Load")));
        assert_eq!(rank.end(), Err(Failed));
    }

    #[test]
    fn a_rank_that_waits_for_its_neighbour_ends_with_its_node() {
        let mut rank = start(1, 2, &Toy);
        let me = rank.loaded();
        let absent = RankPeer { rank: Rank(0), ..me.clone() };
        rank.send(&RankCommand::Connect { peers: vec![absent, me] });
        let started = Instant::now();
        assert_eq!(rank.end(), Ok(()));
        assert!(started.elapsed() < Duration::from_secs(2));
    }
}
