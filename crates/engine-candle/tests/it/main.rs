//! The engine's candle half, by files: tiny random models that the tests write, damaged ones, and the starter model.

mod damaged;
mod smollm2;
mod tiny;
mod tiny_model;
mod words;
