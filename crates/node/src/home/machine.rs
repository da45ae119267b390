//! Which machine this is, so that a home copied to another one is noticed.
//!
//! A disk cloned or migrated to a new machine carries the node key with it, and two nodes with one key would be
//! one node to all others (exo #1599). So the home remembers a fingerprint of the machine it was made on.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use ring::digest::{SHA256, digest};

/// A hash of the machine's own id, never the id itself: that one is not ours to copy around.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MachineFingerprint(String);

impl MachineFingerprint {
    /// `None` where the system names no id (a bare container): then nothing can be compared.
    pub(super) fn of_this_machine() -> Option<Self> {
        let id = if cfg!(target_os = "macos") { platform_uuid() } else { machine_id() };
        id.map(|id| Self::of(&id))
    }

    pub(super) fn of(machine_id: &str) -> Self {
        let hash = digest(&SHA256, format!("macrame machine {machine_id}").as_bytes());
        Self(hash.as_ref().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
            text
        }))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

fn machine_id() -> Option<String> {
    let read = |path| fs::read_to_string(path).ok().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty());
    read("/etc/machine-id").or_else(|| read("/var/lib/dbus/machine-id"))
}

fn platform_uuid() -> Option<String> {
    let output = Command::new("/usr/sbin/ioreg").args(["-rd1", "-c", "IOPlatformExpertDevice"]).output().ok()?;
    platform_uuid_in(&String::from_utf8_lossy(&output.stdout))
}

fn platform_uuid_in(ioreg: &str) -> Option<String> {
    let line = ioreg.lines().find(|line| line.contains("\"IOPlatformUUID\""))?;
    line.split('"').nth(3).filter(|uuid| !uuid.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uuid_is_found_in_what_ioreg_prints() {
        let printed = "+-o Mac15,9  <class IOPlatformExpertDevice>\n    {\n      \"IOPlatformSerialNumber\" = \"ABC\"\n      \
                       \"IOPlatformUUID\" = \"0C9B1C2D-1111-2222-3333-444455556666\"\n    }\n";
        assert_eq!(platform_uuid_in(printed).as_deref(), Some("0C9B1C2D-1111-2222-3333-444455556666"));
        assert_eq!(platform_uuid_in("nothing"), None);
    }

    #[test]
    fn machines_differ_and_the_id_itself_is_not_kept() {
        let fingerprint = MachineFingerprint::of("abc");
        assert_eq!(fingerprint, MachineFingerprint::of("abc"));
        assert_ne!(fingerprint, MachineFingerprint::of("abd"));
        assert_eq!(fingerprint.as_str().len(), 64);
        assert!(!fingerprint.as_str().contains("abc"));
    }
}
