//! Where to cut the layers, for nodes in a given order; and in which order nodes can hold them at all.

use domain::Bytes;

use crate::need::Needs;

/// Fill ratios are compared in parts of this many: a millionth of a node's memory is less than a layer of any model.
const RATIO_PARTS: u64 = 1 << 20;

/// Up to this many nodes every order is tried (by subset, some 2¹² · 12 steps); beyond, only the natural one.
pub(crate) const ORDERS_NODES_MAX: usize = 12;

/// The cuts over `memory` (one entry a node, in order) that fit and leave the fullest node as empty as can be.
pub(crate) fn balanced(needs: &Needs<'_>, memory: &[Bytes]) -> Option<Vec<u32>> {
    let at = |parts: u64| {
        let caps: Vec<_> = memory.iter().map(|bytes| bytes.scaled(parts, RATIO_PARTS)).collect();
        filled(needs, &caps)
    };
    let parts = least(RATIO_PARTS, |parts| at(parts).is_some())?;
    at(parts)
}

/// The cuts over `memory` that would fit if every node had `extra` more, for the smallest `extra`.
pub(crate) fn least_short(needs: &Needs<'_>, memory: &[Bytes]) -> Option<Vec<u32>> {
    let whole = needs.of(0, needs.n_layers()).as_u64();
    let at = |extra: u64| {
        let caps: Vec<_> = memory.iter().map(|&bytes| bytes + Bytes::new(extra)).collect();
        filled(needs, &caps)
    };
    let extra = least(whole, |extra| at(extra).is_some())?;
    at(extra)
}

/// Fills node after node up to its cap, leaving one layer at least for each later one. The cuts, one fewer than
/// nodes; `None` if the last node cannot hold the rest.
fn filled(needs: &Needs<'_>, caps: &[Bytes]) -> Option<Vec<u32>> {
    let n_nodes = u32::try_from(caps.len()).ok()?;
    let (&last, firsts) = caps.split_last()?;
    let mut cuts = Vec::with_capacity(firsts.len());
    let mut start = 0;
    for (idx, &cap) in (1..).zip(firsts) {
        let end_max = needs.n_layers().checked_sub(n_nodes - idx)?;
        start = reach(needs, start, end_max, cap)?;
        cuts.push(start);
    }
    (start < needs.n_layers() && needs.of(start, needs.n_layers()) <= last).then_some(cuts)
}

/// The furthest end in `start + 1..=end_max` so that `start..end` fits `cap`.
fn reach(needs: &Needs<'_>, start: u32, end_max: u32, cap: Bytes) -> Option<u32> {
    let (mut fits, mut beyond) = (start, end_max + 1);
    while beyond - fits > 1 {
        let middle = fits + (beyond - fits) / 2;
        if needs.of(start, middle) <= cap { fits = middle } else { beyond = middle }
    }
    (fits > start).then_some(fits)
}

/// The smallest of `0..=max` for which `holds`, which once true stays true.
fn least(max: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if !holds(max) {
        return None;
    }
    let (mut low, mut high) = (0, max);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    Some(low)
}

/// An order of `n_used` of the nodes in which their memory holds all layers; `first` begins if given. Exact: if there
/// is none, no choice, order and cuts of that many nodes fit.
///
/// For each set of nodes only the longest run of first layers that they can hold in some order matters: a longer
/// run leaves less for the others.
pub(crate) fn any_order(
    needs: &Needs<'_>,
    memory: &[Bytes],
    n_used: usize,
    first: Option<usize>,
) -> Option<Vec<usize>> {
    let n_nodes = memory.len();
    if n_used == 0 || n_used > n_nodes || n_nodes > ORDERS_NODES_MAX {
        return None;
    }
    let n_layers = needs.n_layers();
    // By set, as bits: the end of the longest run, and who holds its last part.
    let mut longest: Vec<Option<(u32, usize)>> = vec![None; 1 << n_nodes];
    longest[0] = Some((0, usize::MAX));
    for set in 0usize..1 << n_nodes {
        let n_placed = set.count_ones() as usize;
        let Some((start, _)) = longest[set] else { continue };
        if n_placed >= n_used {
            continue;
        }
        let is_last = n_placed + 1 == n_used;
        let n_later = u32::try_from(n_used - n_placed - 1).ok()?;
        for node in (0..n_nodes).filter(|node| set & (1 << node) == 0) {
            if n_placed == 0 && first.is_some_and(|first| first != node) {
                continue;
            }
            let end = if is_last {
                (start < n_layers && needs.of(start, n_layers) <= memory[node]).then_some(n_layers)
            } else {
                n_layers
                    .checked_sub(n_later)
                    .filter(|&max| max > start)
                    .and_then(|max| reach(needs, start, max, memory[node]))
            };
            let Some(end) = end else { continue };
            let slot = &mut longest[set | 1 << node];
            if slot.is_none_or(|(known, _)| known < end) {
                *slot = Some((end, node));
            }
        }
    }
    let is_whole =
        |set: &usize| set.count_ones() as usize == n_used && longest[*set].is_some_and(|(end, _)| end == n_layers);
    let mut set = (0usize..1 << n_nodes).find(is_whole)?;
    let mut order = Vec::with_capacity(n_used);
    while set != 0 {
        let (_, node) = longest[set]?;
        order.push(node);
        set &= !(1 << node);
    }
    order.reverse();
    Some(order)
}
