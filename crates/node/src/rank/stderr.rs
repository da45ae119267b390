//! What a rank writes to standard error: into the node's log, and its last lines kept for when it ends badly.

use std::collections::VecDeque;

use tokio::io::{AsyncRead, BufReader};

use super::RankKey;
use super::line::{self, Line};

/// Lines kept: a panic's message and where it happened, with room for a back trace's first frames.
const TAIL_LINES: usize = 20;
/// Longer lines are cut. A log line is a few hundred bytes.
const LINE_BYTES_MAX: usize = 8 << 10;

/// Reads to the end, and returns the last lines.
pub(super) async fn follow(key: RankKey, stderr: impl AsyncRead + Unpin) -> Vec<String> {
    let mut input = BufReader::new(stderr);
    let mut tail = VecDeque::with_capacity(TAIL_LINES);
    let mut bytes = Vec::new();
    // An error of the pipe is its end: nothing more will come.
    while let Ok(Line::Read | Line::TooLong) = line::read_async(&mut input, &mut bytes, LINE_BYTES_MAX).await {
        let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        if text.is_empty() {
            continue;
        }
        tracing::debug!(rank = %key, "{text}");
        if tail.len() == TAIL_LINES {
            tail.pop_front();
        }
        tail.push_back(text);
    }
    tail.into()
}
