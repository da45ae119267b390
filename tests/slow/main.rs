//! Slow scenarios: real processes, a real model, a real window.

#[cfg(target_os = "linux")]
mod lost_rank;
// Looks into `/proc`, and so do those beside it.
#[cfg(target_os = "linux")]
mod served;
// The window can be driven where WebKit has a driver.
#[cfg(target_os = "linux")]
mod shell;
#[cfg(target_os = "linux")]
mod split;
#[cfg(target_os = "linux")]
mod strangers;
