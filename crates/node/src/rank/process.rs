//! A rank as its node sees it: a process to start, to tell things, and to end.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use domain::{Hint, Hints};
use engine::{RankCommand, StageCommand};
use tokio::process::Command;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};

use super::supervise::{Supervisor, Wish};
use super::{RankEvent, RankKey};

/// Commands that wait for the rank to read them. The rank refuses to queue more requests than this itself, so more
/// waiting here means that it does not read at all.
const COMMANDS_WAITING_MAX: usize = 256;

/// A rank's process. Dropping this kills it at once.
#[derive(Debug)]
pub struct RankProcess {
    key: RankKey,
    pid: u32,
    commands: mpsc::Sender<RankCommand>,
    wish: watch::Sender<Wish>,
}

impl RankProcess {
    /// Starts `program` with the single argument `rank`.
    ///
    /// What becomes of it arrives on `events`, in order, the
    /// last being [`RankEvent::Exited`]; a receiver that does not take them holds the rank up.
    ///
    /// Must be called in a tokio runtime.
    pub fn spawn(program: &Path, key: RankKey, events: mpsc::Sender<(RankKey, RankEvent)>) -> Result<Self, SpawnError> {
        let mut command = Command::new(program);
        command.arg("rank").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // Ctrl-C in the node's terminal is for the node, which then ends its ranks in order.
        #[cfg(unix)]
        command.process_group(0);
        let failed = |source| SpawnError { program: program.to_owned(), source };
        let child = command.spawn().map_err(failed)?;
        let pid = child.id().ok_or_else(|| failed(io::Error::other("it ended at once")))?;
        let (commands, waiting) = mpsc::channel(COMMANDS_WAITING_MAX);
        let (wish, wished) = watch::channel(Wish::Run);
        tokio::spawn(Supervisor { key, pid, child, events, wished }.run(waiting));
        tracing::info!(rank = %key, pid, "rank started");
        Ok(Self { key, pid, commands, wish })
    }

    pub fn key(&self) -> RankKey {
        self.key
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Hands a command over, without waiting for the rank to read it.
    pub fn send(&self, command: RankCommand) -> Result<(), RankGone> {
        self.commands.try_send(command).map_err(|error| match error {
            TrySendError::Closed(_) => RankGone::Ended { key: self.key },
            TrySendError::Full(_) => RankGone::NotReading { key: self.key, waiting: COMMANDS_WAITING_MAX },
        })
    }

    /// A way to tell the stage things that others may hold. It answers whether the command was taken: no more once
    /// the rank has ended.
    pub fn stage_commands(&self) -> impl Fn(StageCommand) -> bool + Send + Sync + use<> {
        let commands = self.commands.clone();
        move |command| commands.try_send(RankCommand::Stage(command)).is_ok()
    }

    /// Ends the rank and returns once its process is gone: in good order if it listens, by a signal if not, within
    /// some seconds in any case.
    pub async fn stop(self) {
        // A rank that has ended already, or reads nothing, is ended by what follows.
        let _ = self.send(RankCommand::Stage(StageCommand::Shutdown));
        self.wish.send_replace(Wish::Stop);
        self.wish.closed().await;
    }
}

impl Drop for RankProcess {
    fn drop(&mut self) {
        self.wish.send_replace(Wish::Kill);
    }
}

/// The rank could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start a rank: `{}`", .program.display())]
pub struct SpawnError {
    program: PathBuf,
    source: io::Error,
}

impl Hint for SpawnError {
    fn hints(&self) -> Hints {
        vec![format!(
            "see that `{}` exists and may be run; after an update, start Macramé again",
            self.program.display()
        )]
    }
}

/// The rank does not take commands any more. Its [`RankEvent::Exited`] says or will say why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RankGone {
    #[error("the rank has ended")]
    Ended { key: RankKey },
    #[error("the rank has not read its last {waiting} commands")]
    NotReading { key: RankKey, waiting: usize },
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, Instant};

    use domain::{Bytes, DeploymentId, Epoch, Rank};
    use engine::RankReport;

    use super::*;

    const KEY: RankKey = RankKey { deployment: DeploymentId(7), epoch: Epoch(1), rank: Rank(0) };

    /// A rank that is a shell script.
    struct Scripted {
        _dir: tempfile::TempDir,
        events: mpsc::Receiver<(RankKey, RankEvent)>,
        process: RankProcess,
    }

    fn start(script: &str) -> Scripted {
        let dir = tempfile::tempdir().expect("a folder");
        let program = dir.path().join("rank.sh");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a script");
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).expect("rights");
        let (sender, events) = mpsc::channel(16);
        let process = RankProcess::spawn(&program, KEY, sender).expect("starts");
        Scripted { _dir: dir, events, process }
    }

    impl Scripted {
        async fn next(&mut self) -> RankEvent {
            let next = tokio::time::timeout(Duration::from_secs(10), self.events.recv()).await;
            let (key, event) = next.expect("in time").expect("an event");
            assert_eq!(key, KEY);
            event
        }

        async fn exit(&mut self) -> super::super::RankExit {
            match self.next().await {
                RankEvent::Exited(exit) => exit,
                RankEvent::Report(report) => panic!("expected the end, got {report:?}"),
            }
        }
    }

    #[tokio::test]
    async fn commands_go_in_and_reports_come_out_in_order() {
        let mut rank = start(
            r#"read line
            case "$line" in '{"stage":'*) echo '"serving"'; echo '{"memory":{"resident_bytes":5}}';; esac
            read end && exit 3"#,
        );
        rank.process.send(RankCommand::Stage(StageCommand::Shutdown)).expect("taken");
        assert_eq!(rank.next().await, RankEvent::Report(RankReport::Serving));
        let memory = RankReport::Memory { resident_bytes: Bytes::new(5) };
        assert_eq!(rank.next().await, RankEvent::Report(memory));
        rank.process.send(RankCommand::Stage(StageCommand::Shutdown)).expect("taken");
        let exit = rank.exit().await;
        assert_eq!(exit.status, "exit status: 3");
        let gone = rank.process.send(RankCommand::Stage(StageCommand::Shutdown));
        assert_eq!(gone, Err(RankGone::Ended { key: KEY }));
        assert!(rank.events.recv().await.is_none(), "the end is the last event");
    }

    #[tokio::test]
    async fn a_crash_is_told_with_its_signal_and_its_last_words() {
        let mut rank = start("echo 'cannot map the weights' >&2; kill -9 $$");
        let exit = rank.exit().await;
        assert_eq!(exit.to_string(), "ended by signal 9 (killed); its last words: cannot map the weights");
    }

    #[tokio::test]
    async fn a_rank_that_ends_when_told_is_not_killed() {
        let Scripted { process, mut events, _dir } = start("read line; exit 0");
        process.stop().await;
        let (_, event) = events.recv().await.expect("the end");
        assert!(matches!(event, RankEvent::Exited(exit) if exit.status == "exit status: 0"));
    }

    #[tokio::test]
    async fn a_rank_that_does_not_listen_is_ended_all_the_same() {
        let Scripted { process, mut events, _dir } =
            start("trap '' TERM; echo '\"serving\"'; while :; do sleep 1; done");
        let _ = events.recv().await.expect("it serves");
        let started = Instant::now();
        process.stop().await;
        let took = started.elapsed();
        assert!(took > Duration::from_secs(2) && took < Duration::from_secs(8), "took {took:?}");
        let (_, event) = events.recv().await.expect("the end");
        assert!(matches!(event, RankEvent::Exited(exit) if exit.status.contains("signal 9")));
    }

    #[tokio::test]
    async fn dropping_a_rank_kills_it_at_once() {
        let Scripted { process, mut events, _dir } = start("echo '\"serving\"'; exec sleep 600");
        let _ = events.recv().await.expect("it serves");
        let started = Instant::now();
        drop(process);
        let (_, event) = events.recv().await.expect("the end");
        assert!(matches!(event, RankEvent::Exited(_)));
        assert!(started.elapsed() < Duration::from_secs(1));
    }

    #[tokio::test]
    async fn a_rank_that_speaks_nonsense_is_ended() {
        let mut rank = start("echo 'hello there'; exec sleep 600");
        let exit = rank.exit().await;
        assert!(exit.status.starts_with("wrote what is no report"), "{}", exit.status);
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named() {
        let (sender, _events) = mpsc::channel(1);
        let error = RankProcess::spawn(Path::new("/no/such/program"), KEY, sender).expect_err("not there");
        assert_eq!(error.to_string(), "cannot start a rank: `/no/such/program`");
    }
}
