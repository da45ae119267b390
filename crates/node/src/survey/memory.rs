//! How much memory there is, and how much of it is Macramé's to use.

use domain::{Bytes, Memory};
use sysinfo::{MemoryRefreshKind, System};

use super::wired::WiredLimit;

/// Left to the system and to whoever starts a program next: the larger of 1 GiB and a twentieth. Below that, macOS
/// and Linux alike begin to swap or to kill.
const RESERVE_MIN: Bytes = Bytes::from_gib(1);
const RESERVE_DIVISOR: u64 = 20;

/// What the system's counters say.
#[derive(Clone, Copy, Debug)]
struct Reading {
    total: Bytes,
    /// What a new program could have without swapping. File pages count as available, so mapped weights are in it.
    available: Bytes,
    /// What the ranks of this node hold beside mapped files: keys and values, workspace.
    ours: Bytes,
}

pub(super) fn measure(system: &mut System, ours: Bytes, wired: &dyn WiredLimit, limit: Option<Bytes>) -> Memory {
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    memory_of(read(system, ours), wired, limit)
}

fn read(system: &System, ours: Bytes) -> Reading {
    let total = Bytes::new(system.total_memory());
    // On macOS, what `sysinfo` calls available counts pages that other programs use right now; what is used is exact.
    let available = if cfg!(target_os = "macos") {
        total - Bytes::new(system.used_memory())
    } else {
        Bytes::new(system.available_memory())
    };
    match system.cgroup_limits() {
        None => Reading { total, available, ours },
        // A container: it has what its group may take, and no more than the machine has left.
        Some(group) => Reading {
            total: total.min(Bytes::new(group.total_memory)),
            available: available.min(Bytes::new(group.free_memory)),
            ours,
        },
    }
}

fn memory_of(reading: Reading, wired: &dyn WiredLimit, limit: Option<Bytes>) -> Memory {
    let Reading { total, available, ours } = reading;
    let without_others = (available + ours).min(total);
    let reserve = RESERVE_MIN.max(total.scaled(1, RESERVE_DIVISOR));
    let ceilings = [wired.limit(total), limit];
    let usable = ceilings.into_iter().flatten().fold(without_others - reserve, Bytes::min);
    Memory { total, used_by_others: total - without_others, usable }
}

#[cfg(test)]
mod tests {
    use super::super::wired::{MeasuredFractions, NoLimit};
    use super::*;

    const fn gib(n: u64) -> Bytes {
        Bytes::from_gib(n)
    }

    fn reading(total: u64, available: u64, ours: u64) -> Reading {
        Reading { total: gib(total), available: gib(available), ours: gib(ours) }
    }

    #[test]
    fn what_is_ours_already_counts_as_usable_and_not_as_others() {
        let memory = memory_of(reading(64, 40, 10), &NoLimit, None);
        assert_eq!(memory.used_by_others, gib(14));
        assert_eq!(memory.usable, gib(50) - gib(64).scaled(1, 20));
        let more = memory_of(reading(64, 30, 20), &NoLimit, None);
        assert_eq!(more, memory, "taking memory does not change what could be taken in all");
    }

    #[test]
    fn a_busy_machine_has_nothing_to_give() {
        let memory = memory_of(reading(8, 1, 0), &NoLimit, None);
        assert_eq!((memory.usable, memory.used_by_others), (Bytes::ZERO, gib(7)));
    }

    #[test]
    fn the_lowest_ceiling_holds() {
        let free = reading(64, 62, 0);
        assert_eq!(memory_of(free, &MeasuredFractions, None).usable, gib(64).scaled(81, 100));
        assert_eq!(memory_of(free, &MeasuredFractions, Some(gib(3))).usable, gib(3));
        assert_eq!(memory_of(free, &NoLimit, Some(gib(100))).usable, gib(62) - gib(64).scaled(1, 20));
    }

    #[test]
    fn counters_that_disagree_do_no_harm() {
        let memory = memory_of(reading(8, 16, 4), &NoLimit, None);
        assert_eq!((memory.used_by_others, memory.usable), (Bytes::ZERO, gib(7)));
    }
}
