//! Which sequence lies in which slot, and what a slot still holds of earlier ones.

use crate::SlotIdx;

/// The head's view of the slots that every rank keeps.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    /// Counts uses, so that the slot unused for longest can be told.
    clock: u64,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    /// Tokens whose keys and values the ranks hold, or will once the steps under way are done.
    held: Vec<u32>,
    in_use: bool,
    used_at: u64,
}

/// A slot taken for a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub slot: SlotIdx,
    /// Tokens at the prompt's beginning that need no computing.
    pub n_cached: usize,
}

impl Slots {
    pub fn new(n_slots: usize) -> Self {
        Self { slots: vec![Slot::default(); n_slots], clock: 0 }
    }

    /// Takes the free slot that shares the longest beginning with `prompt`; of equals, the one unused for longest.
    ///
    /// At least the prompt's last token is left to compute: its scores are what the first draw needs.
    pub fn take(&mut self, prompt: &[u32]) -> Option<Taken> {
        let reusable = &prompt[..prompt.len().saturating_sub(1)];
        let free = self.slots.iter_mut().enumerate().filter(|(_, slot)| !slot.in_use);
        let (n_cached, idx, slot) = free
            .map(|(idx, slot)| (common_prefix(&slot.held, reusable), idx, slot))
            .max_by_key(|(n_cached, idx, slot)| (*n_cached, u64::MAX - slot.used_at, usize::MAX - idx))?;
        slot.in_use = true;
        slot.held.truncate(n_cached);
        Some(Taken { slot: SlotIdx(u32::try_from(idx).expect("slots are few")), n_cached })
    }

    /// Notes that the ranks get `tokens` after what the slot holds.
    pub fn extend(&mut self, slot: SlotIdx, tokens: &[u32]) {
        self.slots[slot.idx()].held.extend_from_slice(tokens);
    }

    /// The slot is free; what it holds may serve a later prompt.
    pub fn release(&mut self, slot: SlotIdx) {
        self.clock += 1;
        let slot = &mut self.slots[slot.idx()];
        slot.in_use = false;
        slot.used_at = self.clock;
    }
}

fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_with_the_longest_shared_beginning_is_taken() {
        let mut slots = Slots::new(2);
        fill(&mut slots, &[1, 2, 3]);
        let second = slots.take(&[9, 9]).expect("a free slot");
        slots.extend(second.slot, &[9, 9]);
        slots.release(second.slot);
        assert_eq!(slots.take(&[9, 9, 9]), Some(Taken { slot: second.slot, n_cached: 2 }));
        assert_eq!(slots.take(&[1, 2, 4]).map(|taken| taken.n_cached), Some(2));
        assert_eq!(slots.take(&[1]), None, "all are in use");
    }

    #[test]
    fn the_last_token_is_always_computed() {
        let mut slots = Slots::new(1);
        fill(&mut slots, &[1, 2, 3]);
        assert_eq!(slots.take(&[1, 2, 3]).map(|taken| taken.n_cached), Some(2));
    }

    #[test]
    fn what_was_rewound_is_forgotten() {
        let mut slots = Slots::new(1);
        fill(&mut slots, &[1, 2, 3]);
        fill(&mut slots, &[1, 7]);
        assert_eq!(slots.take(&[1, 2, 3, 4]).map(|taken| taken.n_cached), Some(1));
    }

    #[test]
    fn of_equals_the_one_unused_for_longest_is_taken() {
        let mut slots = Slots::new(2);
        fill(&mut slots, &[1]);
        fill(&mut slots, &[2]);
        let taken = slots.take(&[5, 5]).expect("a free slot");
        slots.release(taken.slot);
        assert_eq!(taken.slot, SlotIdx(0));
        assert_eq!(slots.take(&[6, 6]).map(|taken| taken.slot), Some(SlotIdx(1)));
    }

    fn fill(slots: &mut Slots, tokens: &[u32]) {
        let taken = slots.take(tokens).expect("a free slot");
        slots.extend(taken.slot, &tokens[taken.n_cached..]);
        slots.release(taken.slot);
    }
}
