//! What one process holds of physical memory.

use domain::Bytes;

/// By the system's counters, which cost no walk over the process's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessMemory {
    /// All of it, mapped files included.
    pub resident: Bytes,
    /// Without mapped files, which the system takes back when it needs the room. Zero where it does not tell.
    pub anonymous: Bytes,
}

impl ProcessMemory {
    pub fn of_self() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// `None` once the process is gone.
    #[cfg(target_os = "linux")]
    pub fn of(pid: u32) -> Option<Self> {
        parse(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
    }

    /// `None` once the process is gone.
    #[cfg(not(target_os = "linux"))]
    pub fn of(pid: u32) -> Option<Self> {
        use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};
        let mut system = System::new().ok()?;
        let pid = Pid::from_u32(pid);
        let memory = ProcessRefreshKind::nothing().with_memory();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, memory);
        Some(Self { resident: Bytes::new(system.process(pid)?.memory()), anonymous: Bytes::ZERO })
    }
}

/// Reads `/proc/<pid>/status`; counters are in KiB there.
#[cfg(target_os = "linux")]
fn parse(status: &str) -> Option<ProcessMemory> {
    let counter = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok().map(|kib: u64| Bytes::new(kib << 10))
    };
    let anonymous = counter("RssAnon")? + counter("RssShmem")?;
    Some(ProcessMemory { resident: anonymous + counter("RssFile")?, anonymous })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_holds_memory_and_one_that_is_gone_none() {
        let here = ProcessMemory::of_self().expect("this process");
        assert!(here.resident > Bytes::from_mib(1) && here.resident >= here.anonymous, "{here:?}");
        assert_eq!(ProcessMemory::of(u32::MAX >> 2), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn mapped_files_are_told_apart() {
        let status =
            "Name:\tx\nVmRSS:\t    9000 kB\nRssAnon:\t    1024 kB\nRssFile:\t    7168 kB\nRssShmem:\t       0 kB\n";
        let expected = ProcessMemory { resident: Bytes::from_mib(8), anonymous: Bytes::from_mib(1) };
        assert_eq!(parse(status), Some(expected));
        assert_eq!(parse("Name:\tkernel thread\n"), None);
    }
}
