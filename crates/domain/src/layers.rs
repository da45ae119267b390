//! Layers, counted and in ranges.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The place of a layer in its model, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LayerIdx(pub u32);

/// How many layers a model has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LayerCount(pub u32);

/// Layers `start..end` of a model; never empty. Shown with both ends included: `0–14`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "(u32, u32)", into = "(u32, u32)")]
pub struct LayerRange {
    start: u32,
    end: u32,
}

impl LayerRange {
    pub fn new(start: LayerIdx, end: LayerIdx) -> Result<Self, BadLayers> {
        if start < end {
            Ok(Self { start: start.0, end: end.0 })
        } else {
            Err(BadLayers { start: start.0, end: end.0 })
        }
    }

    pub fn start(self) -> LayerIdx {
        LayerIdx(self.start)
    }

    pub fn end(self) -> LayerIdx {
        LayerIdx(self.end)
    }

    pub fn count(self) -> u32 {
        self.end - self.start
    }

    pub fn iter(self) -> impl Iterator<Item = LayerIdx> {
        (self.start..self.end).map(LayerIdx)
    }
}

impl fmt::Display for LayerRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}–{}", self.start, self.end - 1)
    }
}

impl TryFrom<(u32, u32)> for LayerRange {
    type Error = BadLayers;
    fn try_from((start, end): (u32, u32)) -> Result<Self, BadLayers> {
        Self::new(LayerIdx(start), LayerIdx(end))
    }
}

impl From<LayerRange> for (u32, u32) {
    fn from(range: LayerRange) -> Self {
        (range.start, range.end)
    }
}

/// A range that holds no layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("layers {start}..{end} are no range: the end must lie after the start")]
pub struct BadLayers {
    pub start: u32,
    pub end: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_never_empty() {
        let range = LayerRange::try_from((3, 5)).expect("two layers");
        assert_eq!((range.count(), range.to_string().as_str()), (2, "3–4"));
        assert_eq!(range.iter().collect::<Vec<_>>(), [LayerIdx(3), LayerIdx(4)]);
        assert_eq!(LayerRange::try_from((5, 5)), Err(BadLayers { start: 5, end: 5 }));
        assert!(LayerRange::try_from((6, 5)).is_err());
    }
}
