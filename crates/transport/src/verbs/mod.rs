//! RDMA on this machine: which devices its verbs library knows.
//!
//! The library is looked up when it is first needed, so the program starts where it is missing. All of this crate's
//! `unsafe` is below this module.
#![allow(unsafe_code, reason = "a C library is called through pointers looked up at run time")]

#[cfg(target_os = "macos")]
mod darwin;
#[cfg(target_os = "linux")]
mod shim;

use domain::RdmaFacts;

/// The verbs library's devices. Cheap enough to ask every few seconds: on Linux it reads a few files of `/sys`.
#[cfg(target_os = "linux")]
pub fn rdma_devices() -> RdmaFacts {
    if !shim::is_available() {
        return RdmaFacts::NoLibrary;
    }
    match ibverbs::devices() {
        Ok(devices) => {
            let name = |device: ibverbs::Device<'_>| Some(device.name()?.to_string_lossy().into_owned());
            RdmaFacts::Devices(devices.iter().filter_map(name).collect())
        }
        Err(error) => {
            // `ENOSYS`: the kernel has no RDMA, which is as good as no device.
            tracing::debug!(%error, "the verbs library lists no devices");
            RdmaFacts::Devices(Vec::new())
        }
    }
}

/// The verbs library's devices: one for each Thunderbolt 5 port, and none on older machines.
#[cfg(target_os = "macos")]
pub fn rdma_devices() -> RdmaFacts {
    match darwin::device_names() {
        Some(names) => RdmaFacts::Devices(names),
        None => RdmaFacts::NoLibrary,
    }
}

/// No verbs elsewhere.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub fn rdma_devices() -> RdmaFacts {
    RdmaFacts::NoLibrary
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each device that the kernel shows is listed, and nothing else; twice, for the library is loaded once.
    #[test]
    #[cfg(target_os = "linux")]
    fn devices_are_those_of_the_kernel() {
        let mut kernel: Vec<String> = match std::fs::read_dir("/sys/class/infiniband") {
            Ok(entries) => entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect(),
            Err(_) => Vec::new(),
        };
        kernel.sort();
        for _ in 0..2 {
            match rdma_devices() {
                RdmaFacts::NoLibrary => assert!(!shim::is_available()),
                RdmaFacts::Devices(mut names) => {
                    names.sort();
                    assert_eq!(names, kernel);
                }
            }
        }
    }
}
