//! Reads the node's commands, and knows first when the node is gone.

use std::io::BufRead;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use engine::rank_protocol::RANK_LINE_BYTES_MAX;
use engine::{RankCommand, StageCommand};
use transport::Cancel;

use super::line::{self, Line};

/// From the end of the commands to the end of the process, however busy it is.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Commands read that the stage, which looks between two steps, has not taken yet. The node asks for no more requests
/// than the scheduler queues; more is a fault of the node.
const COMMANDS_MAX: usize = 1_024;

/// The reading of commands, from another thread's side. While this lives, the rank does.
pub(super) struct Commands {
    /// Thrown when the rank should end: frees it from waiting for its neighbours.
    pub cancel: Cancel,
    fault: Arc<Mutex<Option<String>>>,
    _alive: SyncSender<()>,
}

impl Commands {
    /// Starts to read. The receiver ends when the commands do: the node closed the pipe, is gone, or sent nonsense.
    /// If [`Commands`] is still there [`END_LIMIT`] later, `give_up` is called.
    pub fn read(
        input: impl BufRead + Send + 'static,
        give_up: impl FnOnce() + Send + 'static,
    ) -> (Self, Receiver<RankCommand>) {
        let (commands, to_obey) = mpsc::sync_channel(COMMANDS_MAX);
        let (alive, ended) = mpsc::sync_channel::<()>(0);
        let (cancel, fault) = (Cancel::new(), Arc::new(Mutex::new(None)));
        let mut reader = Reader { input, commands, cancel: cancel.clone() };
        let noted = Arc::clone(&fault);
        thread::spawn(move || {
            if let Err(found) = reader.read() {
                tracing::error!("the node sent {found}");
                noted.lock().unwrap_or_else(PoisonError::into_inner).replace(found);
            }
            reader.cancel.cancel();
            // Only now do the commands end: whoever sees that must find the fault.
            drop(reader);
            if ended.recv_timeout(END_LIMIT) == Err(RecvTimeoutError::Timeout) {
                tracing::warn!(limit = ?END_LIMIT, "the rank does not end in order: ending it");
                give_up();
            }
        });
        (Self { cancel, fault, _alive: alive }, to_obey)
    }

    /// What was wrong with the last command, if the commands ended by that.
    pub fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Reader<I> {
    input: I,
    commands: SyncSender<RankCommand>,
    cancel: Cancel,
}

impl<I: BufRead> Reader<I> {
    /// Reads to the end; an error is the node's fault, in words that follow "the node sent".
    fn read(&mut self) -> Result<(), String> {
        let mut bytes = Vec::new();
        loop {
            match line::read(&mut self.input, &mut bytes, RANK_LINE_BYTES_MAX) {
                Ok(Line::Read) => {}
                // An error of the pipe is its end.
                Ok(Line::End) | Err(_) => return Ok(()),
                Ok(Line::TooLong) => return Err(format!("a command of more than {RANK_LINE_BYTES_MAX} bytes")),
            }
            let command: RankCommand =
                serde_json::from_slice(&bytes).map_err(|error| format!("what is no command: {error}"))?;
            let ends = matches!(command, RankCommand::Stage(StageCommand::Shutdown | StageCommand::Abort { .. }));
            match self.commands.try_send(command) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => return Err(format!("more than {COMMANDS_MAX} commands at once")),
                // The rank has ended by itself.
                Err(TrySendError::Disconnected(_)) => return Ok(()),
            }
            if ends {
                self.cancel.cancel();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write};
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_end_of_the_pipe_ends_the_commands_and_what_waits() {
        let (input, mut output) = std::io::pipe().expect("a pipe");
        let (commands, to_obey) = Commands::read(BufReader::new(input), || panic!("ended in time"));
        writeln!(output, r#"{{"stage":{{"cancel":{{"id":4}}}}}}"#).expect("written");
        assert!(matches!(to_obey.recv(), Ok(RankCommand::Stage(StageCommand::Cancel { .. }))));
        assert!(!commands.cancel.is_cancelled());
        drop(output);
        assert!(to_obey.recv().is_err());
        assert!(commands.cancel.is_cancelled());
        assert_eq!(commands.fault(), None);
    }

    #[test]
    fn a_rank_that_does_not_end_is_given_up() {
        let (gave_up, given_up) = mpsc::channel();
        let (commands, _to_obey) = Commands::read(&b""[..], move || gave_up.send(()).expect("the test waits"));
        let started = Instant::now();
        given_up.recv_timeout(Duration::from_secs(10)).expect("given up");
        assert!(started.elapsed() >= END_LIMIT);
        drop(commands);
    }

    #[test]
    fn nonsense_is_a_fault_of_the_node() {
        let (commands, to_obey) = Commands::read(&b"{\"sing\":1}\n"[..], || {});
        assert!(to_obey.recv().is_err());
        assert!(commands.fault().is_some_and(|fault| fault.starts_with("what is no command")));
    }
}
