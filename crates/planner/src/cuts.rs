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

/// Cuts so that each node's share is within its cap; earlier nodes are filled first.
fn filled(needs: &Needs<'_>, caps: &[Bytes]) -> Option<Vec<u32>> {
    let reach = Reach::new(needs, caps);
    let last = caps.len().checked_sub(1)?;
    // `ends[i]`: where the first `i` nodes can have come to.
    let mut ends = vec![reach.nowhere()];
    for node in 0..last {
        ends.push(reach.extend(&ends[node], node));
    }
    let mut end = reach.start_of_last(&ends[last], last)?;
    let mut cuts = Vec::with_capacity(last);
    for node in (0..last).rev() {
        cuts.push(end);
        end = reach.start_before(&ends[node], node, end)?;
    }
    cuts.reverse();
    Some(cuts)
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

/// How far each node comes from each layer on, within its cap.
struct Reach {
    n_layers: u32,
    /// By node, by start: the furthest end before the last layer's; the start itself if not one layer fits.
    furthest: Vec<Vec<u32>>,
    /// By node, by start: whether all the rest fits, with the head.
    holds_rest: Vec<Vec<bool>>,
}

/// A set of layers, one entry for each of `0..n_layers`: those up to which some nodes can hold all.
type Ends = Vec<bool>;

impl Reach {
    fn new(needs: &Needs<'_>, caps: &[Bytes]) -> Self {
        let n_layers = needs.n_layers();
        let furthest = |&cap: &Bytes| (0..n_layers).map(|start| furthest(needs, start, cap)).collect();
        let holds_rest = |&cap: &Bytes| (0..n_layers).map(|start| needs.of(start, n_layers) <= cap).collect();
        Self {
            n_layers,
            furthest: caps.iter().map(furthest).collect(),
            holds_rest: caps.iter().map(holds_rest).collect(),
        }
    }

    /// Where no node at all comes to.
    fn nowhere(&self) -> Ends {
        (0..self.n_layers).map(|end| end == 0).collect()
    }

    /// Where `node` comes to after nodes that came to `starts`, with one layer at least.
    fn extend(&self, starts: &Ends, node: usize) -> Ends {
        let mut ends = vec![false; starts.len()];
        let mut marked_to = 0;
        for start in (0..starts.len()).filter(|&start| starts[start]) {
            let end_max = self.furthest[node][start] as usize;
            let from = (start + 1).max(marked_to + 1);
            if from <= end_max {
                ends[from..=end_max].fill(true);
            }
            marked_to = marked_to.max(end_max);
        }
        ends
    }

    /// The last of `starts` from which `node` comes to `end`.
    fn start_before(&self, starts: &Ends, node: usize, end: u32) -> Option<u32> {
        (0..end).rev().find(|&start| starts[start as usize] && self.furthest[node][start as usize] >= end)
    }

    /// The last of `starts` from which `node` holds all the rest.
    fn start_of_last(&self, starts: &Ends, node: usize) -> Option<u32> {
        (0..self.n_layers).rev().find(|&start| starts[start as usize] && self.holds_rest[node][start as usize])
    }
}

fn furthest(needs: &Needs<'_>, start: u32, cap: Bytes) -> u32 {
    let (mut fits, mut beyond) = (start, needs.n_layers());
    while beyond - fits > 1 {
        let middle = fits + (beyond - fits) / 2;
        if needs.of(start, middle) <= cap { fits = middle } else { beyond = middle }
    }
    fits
}

/// An order of `n_used` of the nodes in which their memory holds all layers; `first` begins if given. Exact: if there
/// is none, no choice, order and cuts of that many nodes fit.
///
/// Of each set of nodes it is enough to know up to which layers they can hold all, in whatever order.
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
    let reach = Reach::new(needs, memory);
    // By set of nodes, as bits.
    let mut ends_of: Vec<Option<Ends>> = vec![None; 1 << n_nodes];
    ends_of[0] = Some(reach.nowhere());
    for set in 0usize..1 << n_nodes {
        let n_placed = set.count_ones() as usize;
        if n_placed >= n_used {
            continue;
        }
        let Some(starts) = ends_of[set].take() else { continue };
        let may_follow =
            |&node: &usize| set & (1 << node) == 0 && (n_placed > 0 || first.is_none_or(|first| first == node));
        for node in (0..n_nodes).filter(may_follow) {
            if n_placed + 1 < n_used {
                let mut ends = reach.extend(&starts, node);
                let known = ends_of[set | 1 << node].take().unwrap_or_default();
                ends.iter_mut().zip(known).for_each(|(end, known)| *end |= known);
                ends_of[set | 1 << node] = Some(ends);
            } else if let Some(start) = reach.start_of_last(&starts, node) {
                let mut order = order_to(&reach, &ends_of, set, start)?;
                order.push(node);
                return Some(order);
            }
        }
        ends_of[set] = Some(starts);
    }
    None
}

/// The nodes of `set` in an order in which they come to `end`.
fn order_to(reach: &Reach, ends_of: &[Option<Ends>], mut set: usize, mut end: u32) -> Option<Vec<usize>> {
    let mut order = Vec::new();
    while set != 0 {
        let nodes = (0..reach.furthest.len()).filter(|node| set & (1 << node) != 0);
        let (node, start) = nodes.into_iter().find_map(|node| {
            let starts = ends_of[set & !(1 << node)].as_ref()?;
            Some((node, reach.start_before(starts, node, end)?))
        })?;
        order.push(node);
        set &= !(1 << node);
        end = start;
    }
    order.reverse();
    Some(order)
}
