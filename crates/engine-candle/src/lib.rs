//! engine-candle
