//! How much memory a Mac lets its GPU hold.

use domain::Bytes;

/// A ceiling, beside what is free, on what models may take.
pub(super) trait WiredLimit {
    /// For a machine of `total` memory; `None` where there is no such ceiling.
    fn limit(&self, total: Bytes) -> Option<Bytes>;
}

pub(super) fn of_this_system() -> Box<dyn WiredLimit> {
    if cfg!(target_os = "macos") { Box::new(MeasuredFractions) } else { Box::new(NoLimit) }
}

/// Linux maps weights as files, and no ceiling but memory itself is set on those.
pub(super) struct NoLimit;

impl WiredLimit for NoLimit {
    fn limit(&self, _total: Bytes) -> Option<Bytes> {
        None
    }
}

/// The working set that Metal recommends, as measured on Macs of each size while macOS is left as it comes.
pub(super) struct MeasuredFractions;

/// Memory in GiB from which on, and the limit in thousandths of it. Sizes between are read as the next smaller one:
/// too little is safe. The first is Apple's older rule, which still holds for 8 GB Macs.
const FRACTIONS: [(u64, u64); 6] = [(0, 667), (16, 740), (32, 780), (64, 810), (128, 840), (512, 906)];

impl WiredLimit for MeasuredFractions {
    fn limit(&self, total: Bytes) -> Option<Bytes> {
        let fits = FRACTIONS.iter().rev().find(|(from_gib, _)| total >= Bytes::from_gib(*from_gib));
        fits.map(|(_, thousandths)| total.scaled(*thousandths, 1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_that_macs_report_within_two_percent() {
        // Decimal megabytes, as Metal reported them on Macs of that many GiB.
        let measured = [
            (16, 12_713),
            (24, 19_069),
            (32, 26_800),
            (36, 30_150),
            (48, 40_200),
            (64, 55_662),
            (128, 115_448),
            (512, 498_216),
        ];
        for (gib, megabytes) in measured {
            let limit = MeasuredFractions.limit(Bytes::from_gib(gib)).expect("a limit").as_u64() as f64 / 1e6;
            assert!((limit / f64::from(megabytes) - 1.0).abs() < 0.02, "{gib} GiB: {limit} MB, measured {megabytes}");
        }
    }

    #[test]
    fn unknown_sizes_take_the_safer_fraction() {
        assert_eq!(MeasuredFractions.limit(Bytes::from_gib(256)), Some(Bytes::from_gib(256).scaled(840, 1_000)));
        assert_eq!(MeasuredFractions.limit(Bytes::from_gib(8)), Some(Bytes::from_gib(8).scaled(667, 1_000)));
    }
}
