//! The program starts where the verbs library is missing: it is loaded when asked for, not before.
#![cfg(target_os = "linux")]

use domain::RdmaFacts;

fn verbs_library_is_loaded() -> bool {
    std::fs::read_to_string("/proc/self/maps").expect("this process's memory map").contains("libibverbs")
}

#[test]
fn the_verbs_library_is_loaded_when_asked_for() {
    assert!(!verbs_library_is_loaded(), "the program is linked to libibverbs");
    match transport::rdma_devices() {
        RdmaFacts::NoLibrary => assert!(!verbs_library_is_loaded()),
        RdmaFacts::Devices(_) => assert!(verbs_library_is_loaded()),
    }
}
