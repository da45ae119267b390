//! One node per home: a lock that the kernel lets go of however its holder ends.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::HomeError;
use super::files::private_options;

const LOCK_FILE: &str = "lock";
/// Whoever only asks whether a node runs holds the lock for an instant; a start waits that out.
const TRIES: u32 = 5;
const TRY_EVERY: Duration = Duration::from_millis(20);
/// The file holds a process id and nothing else.
const PID_LEN_MAX: u64 = 20;

/// Held while this value lives. Children do not inherit it: the file closes when they start.
#[derive(Debug)]
pub(super) struct HomeLock {
    _file: File,
}

impl HomeLock {
    pub(super) fn take(home: &Path) -> Result<Self, HomeError> {
        let path = home.join(LOCK_FILE);
        let io = |action| HomeError::io(action, &path);
        let mut file =
            private_options().read(true).write(true).create(true).truncate(false).open(&path).map_err(io("open"))?;
        for n_tries in 1.. {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(io("lock")(error)),
                Err(TryLockError::WouldBlock) if n_tries < TRIES => thread::sleep(TRY_EVERY),
                Err(TryLockError::WouldBlock) => {
                    return Err(HomeError::InUse { path: home.to_owned(), pid: pid_in(&file) });
                }
            }
        }
        file.set_len(0).map_err(io("write"))?;
        file.rewind().map_err(io("write"))?;
        write!(file, "{}", std::process::id()).map_err(io("write"))?;
        Ok(Self { _file: file })
    }

    /// Whether some process holds the lock now.
    pub(super) fn is_held(home: &Path) -> Result<bool, HomeError> {
        let path = home.join(LOCK_FILE);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(HomeError::io("open", path)(error)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(HomeError::io("lock", path)(error)),
        }
    }
}

fn pid_in(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.take(PID_LEN_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_learns_who_the_first_is() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!HomeLock::is_held(folder.path()).unwrap());
        let first = HomeLock::take(folder.path()).unwrap();
        assert!(HomeLock::is_held(folder.path()).unwrap());
        let error = HomeLock::take(folder.path()).unwrap_err();
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        assert!(!HomeLock::is_held(folder.path()).unwrap());
        HomeLock::take(folder.path()).unwrap();
    }
}
