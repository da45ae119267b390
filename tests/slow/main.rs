//! Slow scenarios.

// The window can be driven where WebKit has a driver.
#[cfg(target_os = "linux")]
mod shell;
