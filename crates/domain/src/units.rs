//! Bytes, rates and token counts as types, each with one way to be read aloud.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An amount of memory or of data, in bytes. Shown in binary units: `1.5 GiB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Bytes(u64);

impl Bytes {
    pub const ZERO: Self = Self(0);

    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    pub const fn from_gib(gib: u64) -> Self {
        Self(gib << 30)
    }

    pub const fn as_u64(self) -> u64 {
        self.0
    }

    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `self * numerator / denominator`, without overflow. `denominator` of zero gives zero.
    pub fn scaled(self, numerator: u64, denominator: u64) -> Self {
        if denominator == 0 {
            return Self::ZERO;
        }
        let scaled = u128::from(self.0) * u128::from(numerator) / u128::from(denominator);
        Self(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 999.95 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        write!(f, "{value:.1} {}", UNITS[unit])
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Self;
    /// Saturates: memory that is not there is none, not a wrapped number.
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl Div<BytesPerSec> for Bytes {
    type Output = Duration;
    /// How long these bytes take at that rate. A rate of zero takes for ever (`Duration::MAX`).
    fn div(self, rate: BytesPerSec) -> Duration {
        if rate.0 == 0 {
            return Duration::MAX;
        }
        Duration::try_from_secs_f64(self.0 as f64 / rate.0 as f64).unwrap_or(Duration::MAX)
    }
}

impl Div<Duration> for Bytes {
    type Output = BytesPerSec;
    fn div(self, time: Duration) -> BytesPerSec {
        BytesPerSec((self.0 as f64 / time.as_secs_f64().max(1e-9)) as u64)
    }
}

/// A rate of data, in bytes per second. Shown as a link's speed is: `80.0 Gbit/s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BytesPerSec(u64);

impl BytesPerSec {
    pub const fn new(bytes_per_sec: u64) -> Self {
        Self(bytes_per_sec)
    }

    pub const fn from_gbit(gbit_per_sec: u64) -> Self {
        Self(gbit_per_sec * 125_000_000)
    }

    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for BytesPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0 as f64 * 8.0;
        if bits < 1e6 {
            write!(f, "{:.1} kbit/s", bits / 1e3)
        } else if bits < 1e9 {
            write!(f, "{:.1} Mbit/s", bits / 1e6)
        } else {
            write!(f, "{:.1} Gbit/s", bits / 1e9)
        }
    }
}

/// A number of tokens: a prompt's length, a context's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TokenCount(pub u32);

impl fmt::Display for TokenCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("1 token"),
            n => write!(f, "{n} tokens"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_reads_in_binary_units() {
        let shown = |bytes| Bytes::new(bytes).to_string();
        assert_eq!(shown(0), "0 B");
        assert_eq!(shown(1023), "1023 B");
        assert_eq!(shown(1024), "1.0 KiB");
        assert_eq!(shown(1536 << 20), "1.5 GiB");
        assert_eq!(shown(1000 << 20), "1.0 GiB", "never four digits before the point");
        assert_eq!(Bytes::from_gib(512).to_string(), "512.0 GiB");
    }

    #[test]
    fn links_read_in_decimal_bits() {
        assert_eq!(BytesPerSec::from_gbit(80).to_string(), "80.0 Gbit/s");
        assert_eq!(BytesPerSec::new(12_500_000).to_string(), "100.0 Mbit/s");
        assert_eq!(BytesPerSec::new(1_000).to_string(), "8.0 kbit/s");
    }

    #[test]
    fn bytes_by_rate_is_time() {
        assert_eq!(Bytes::new(10_000_000_000) / BytesPerSec::from_gbit(80), Duration::from_secs(1));
        assert_eq!(Bytes::new(1) / BytesPerSec::new(0), Duration::MAX);
        assert_eq!(Bytes::new(500) / Duration::from_millis(500), BytesPerSec::new(1000));
    }

    #[test]
    fn arithmetic_never_wraps() {
        assert_eq!(Bytes::new(1) - Bytes::new(2), Bytes::ZERO);
        assert_eq!(Bytes::new(u64::MAX) + Bytes::new(1), Bytes::new(u64::MAX));
        assert_eq!(Bytes::new(u64::MAX).scaled(1, 2), Bytes::new(u64::MAX / 2));
        assert_eq!(Bytes::new(7).scaled(1, 0), Bytes::ZERO);
    }
}
