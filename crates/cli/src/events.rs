//! Server-sent events out of a response's bytes.

use anyhow::{Result, ensure};

/// A longer event is not ours: the largest is the view of a whole cluster, some 50 kB.
const EVENT_BYTES_MAX: usize = 4 << 20;

/// Takes pieces cut anywhere, gives the `data` of whole events. Our server ends lines with `\n` and sends one line of
/// data for each event.
#[derive(Default)]
pub struct EventParser {
    rest: Vec<u8>,
}

impl EventParser {
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<String>> {
        self.rest.extend_from_slice(piece);
        let mut events = Vec::new();
        while let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            if let Some(data) = line.trim_end().strip_prefix("data:") {
                events.push(data.trim_start().to_owned());
            }
        }
        ensure!(self.rest.len() <= EVENT_BYTES_MAX, "the node sent an event of more than {EVENT_BYTES_MAX} bytes");
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_whole_wherever_the_pieces_are_cut() {
        let stream = ": still working\n\ndata: {\"a\":\"é\"}\n\nid: 7\ndata: [DONE]\n\n".as_bytes();
        for cut in 0..stream.len() {
            let mut parser = EventParser::default();
            let mut events = parser.push(&stream[..cut]).expect("small");
            events.extend(parser.push(&stream[cut..]).expect("small"));
            assert_eq!(events, ["{\"a\":\"é\"}", "[DONE]"], "cut at {cut}");
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        assert!(EventParser::default().push(&vec![b'x'; EVENT_BYTES_MAX + 1]).is_err());
    }
}
