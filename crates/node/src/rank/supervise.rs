//! Watches one rank's process from its start to its end.
//!
//! Four things go on at once: commands into its standard input, reports out of its standard output, its log out of
//! standard error, and the wait for its end, which a wish of the node or a fault of the rank brings about.

use std::convert::Infallible;
use std::process::ExitStatus;
use std::time::Duration;

use engine::rank_protocol::RANK_LINE_BYTES_MAX;
use engine::{RankCommand, RankReport};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::line::{self, Line};
use super::{RankEvent, RankExit, RankKey, stderr};

/// From its start until it has loaded. Mapping is quick; a model's header and vocabulary on a slow disk are not, and a
/// rank that has not loaded by now is stuck.
const LOAD_LIMIT: Duration = Duration::from_secs(600);

/// After being told to end: what a rank needs to end its links in order.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);
/// After being asked by a signal.
const TERMINATE_LIMIT: Duration = Duration::from_secs(1);
/// After its end: for what is still in its pipes. A process it started could hold them open for ever.
const PIPES_LIMIT: Duration = Duration::from_secs(1);

/// What the node wants of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Run,
    /// End in order, by signals if need be.
    Stop,
    Kill,
}

pub(super) struct Supervisor {
    pub key: RankKey,
    pub pid: u32,
    pub child: Child,
    pub events: mpsc::Sender<(RankKey, RankEvent)>,
    pub wished: watch::Receiver<Wish>,
}

impl Supervisor {
    pub async fn run(mut self, commands: mpsc::Receiver<RankCommand>) {
        let (fault_sender, fault) = oneshot::channel();
        let (loaded_sender, loaded) = oneshot::channel();
        let reading = self.child.stdout.take().map(|stdout| {
            let reader = Reader { key: self.key, events: self.events.clone() };
            tokio::spawn(reader.run(stdout, loaded_sender, fault_sender))
        });
        let logging = self.child.stderr.take().map(|stderr| tokio::spawn(stderr::follow(self.key, stderr)));
        let writing = self.child.stdin.take().map(|stdin| tokio::spawn(write(self.key, stdin, commands)));
        let status = self.end(fault, loaded).await;
        // The rest of what it said comes before the news of its end.
        if let Some(reading) = reading {
            let _ = finish(reading).await;
        }
        let stderr_tail = match logging {
            Some(logging) => finish(logging).await.unwrap_or_default(),
            None => Vec::new(),
        };
        if let Some(writing) = writing {
            writing.abort();
        }
        tracing::info!(rank = %self.key, status, "rank ended");
        // Whoever waits in `stop` goes on from here, even if it is who should take the news.
        drop(self.wished);
        // The node may have stopped listening; then nobody needs to know.
        let _ = self.events.send((self.key, RankEvent::Exited(RankExit { status, stderr_tail }))).await;
    }

    /// Waits for the process to end, and brings that about when it is wished or must be. Returns how it ended.
    async fn end(&mut self, fault: oneshot::Receiver<String>, loaded: oneshot::Receiver<Infallible>) -> String {
        let load_deadline = Instant::now() + LOAD_LIMIT;
        let mut is_loaded = false;
        let (mut fault, mut loaded) = (std::pin::pin!(fault), std::pin::pin!(loaded));
        loop {
            tokio::select! {
                status = self.child.wait() => return told(status),
                changed = self.wished.changed() => {
                    let wish = *self.wished.borrow_and_update();
                    match (changed, wish) {
                        (Ok(()), Wish::Run) => {}
                        (Ok(()), Wish::Stop) => return self.stop().await,
                        (Ok(()), Wish::Kill) | (Err(_), _) => return self.kill().await,
                    }
                }
                fault = &mut fault => return match fault {
                    Ok(fault) => {
                        self.kill().await;
                        fault
                    }
                    // Its output has ended, so it is about to.
                    Err(_) => match self.wait_unless_killed(SHUTDOWN_LIMIT).await {
                        Some(status) => status,
                        None => self.kill().await,
                    },
                },
                // The sender is dropped, then or at its end.
                _ = &mut loaded, if !is_loaded => is_loaded = true,
                () = sleep_until(load_deadline), if !is_loaded => {
                    self.kill().await;
                    return format!("did not load within {} s", LOAD_LIMIT.as_secs());
                }
            }
        }
    }

    /// The node has told it to end already.
    async fn stop(&mut self) -> String {
        if let Some(status) = self.wait_unless_killed(SHUTDOWN_LIMIT).await {
            return status;
        }
        tracing::warn!(rank = %self.key, limit = ?SHUTDOWN_LIMIT, "a rank did not end when told to: terminating it");
        self.terminate();
        if let Some(status) = self.wait_unless_killed(TERMINATE_LIMIT).await {
            return status;
        }
        tracing::warn!(rank = %self.key, "a rank did not end by SIGTERM: killing it");
        self.kill().await
    }

    /// `None` when the time is over, or the process is wished dead meanwhile.
    async fn wait_unless_killed(&mut self, limit: Duration) -> Option<String> {
        tokio::select! {
            status = self.child.wait() => Some(told(status)),
            () = sleep(limit) => None,
            _ = self.wished.wait_for(|wish| *wish == Wish::Kill) => None,
        }
    }

    async fn kill(&mut self) -> String {
        if let Err(error) = self.child.start_kill() {
            tracing::debug!(rank = %self.key, %error, "a rank had ended before it was killed");
        }
        told(self.child.wait().await)
    }

    #[cfg(unix)]
    fn terminate(&self) {
        use rustix::process::{Pid, Signal, kill_process};
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        // The process has not been waited for, so its id is still its own.
        if let Some(Err(error)) = pid.map(|pid| kill_process(pid, Signal::TERM)) {
            tracing::debug!(rank = %self.key, %error, "cannot send SIGTERM");
        }
    }

    #[cfg(not(unix))]
    fn terminate(&self) {
        tracing::debug!(rank = %self.key, pid = self.pid, "no gentle signal on this system");
    }
}

/// The result of a task that reads a pipe to its end, if that comes in time.
async fn finish<T>(mut task: JoinHandle<T>) -> Option<T> {
    match timeout(PIPES_LIMIT, &mut task).await {
        Ok(done) => done.ok(),
        Err(_) => {
            task.abort();
            None
        }
    }
}

async fn write(key: RankKey, mut stdin: ChildStdin, mut commands: mpsc::Receiver<RankCommand>) {
    while let Some(command) = commands.recv().await {
        let mut line = match serde_json::to_vec(&command) {
            Ok(line) => line,
            Err(error) => {
                tracing::error!(rank = %key, %error, "a command cannot be written as JSON");
                continue;
            }
        };
        line.push(b'\n');
        if let Err(error) = stdin.write_all(&line).await {
            tracing::debug!(rank = %key, %error, "a rank does not read its commands any more");
            return;
        }
    }
}

/// Takes reports off a rank's standard output.
struct Reader {
    key: RankKey,
    events: mpsc::Sender<(RankKey, RankEvent)>,
}

impl Reader {
    async fn run(self, stdout: ChildStdout, loaded: oneshot::Sender<Infallible>, fault: oneshot::Sender<String>) {
        let mut input = BufReader::new(stdout);
        let mut bytes = Vec::new();
        let mut unloaded = Some(loaded);
        loop {
            let report = match line::read_async(&mut input, &mut bytes, RANK_LINE_BYTES_MAX).await {
                Ok(Line::Read) => serde_json::from_slice::<RankReport>(&bytes),
                // The process is ending, or has closed its output, which is the same.
                Ok(Line::End) | Err(_) => return,
                Ok(Line::TooLong) => {
                    let _ = fault.send(format!("wrote a report of more than {RANK_LINE_BYTES_MAX} bytes"));
                    return;
                }
            };
            match report {
                Ok(report) => {
                    if matches!(report, RankReport::Loaded { .. } | RankReport::Failed { .. }) {
                        // Dropping the sender says it.
                        unloaded.take();
                    }
                    if self.events.send((self.key, RankEvent::Report(report))).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    let _ = fault.send(format!("wrote what is no report: {error}"));
                    return;
                }
            }
        }
    }
}

fn told(status: std::io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => told_status(status),
        Err(error) => format!("ended, nobody knows how: {error}"),
    }
}

#[cfg(unix)]
fn told_status(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match status.signal() {
        Some(signal) => format!("ended by signal {signal} ({})", named(signal)),
        None => status.to_string(),
    }
}

#[cfg(not(unix))]
fn told_status(status: ExitStatus) -> String {
    status.to_string()
}

/// What a signal means to whoever reads of it.
#[cfg(unix)]
fn named(signal: i32) -> &'static str {
    match signal {
        4 => "illegal instruction",
        6 => "aborted",
        7 | 10 => "bus error: a model file was cut short while it was mapped",
        8 => "arithmetic error",
        9 => "killed",
        11 => "invalid memory access",
        15 => "terminated",
        _ => "unexpected",
    }
}
