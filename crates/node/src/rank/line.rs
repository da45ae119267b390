//! Lines of a limited length, from a pipe.

use std::io::{self, BufRead};

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// What the next bytes of a pipe are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A whole one, without its end, is in the buffer.
    Read,
    /// The pipe has ended; a line without an end was no line.
    End,
    /// Longer than allowed. What of it was read is in the buffer, the rest is still to come.
    TooLong,
}

/// Puts the next line into `line`, whose old contents go.
pub(super) fn read(input: &mut impl BufRead, line: &mut Vec<u8>, len_max: usize) -> io::Result<Line> {
    line.clear();
    loop {
        let available = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            available => available?,
        };
        let (n_used, found) = take(available, line, len_max);
        input.consume(n_used);
        if let Some(found) = found {
            return Ok(found);
        }
    }
}

/// The same of an async pipe. Not safe to drop half-way: the part read is lost.
pub(super) async fn read_async(
    input: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    len_max: usize,
) -> io::Result<Line> {
    line.clear();
    loop {
        let (n_used, found) = take(input.fill_buf().await?, line, len_max);
        input.consume(n_used);
        if let Some(found) = found {
            return Ok(found);
        }
    }
}

/// Moves bytes into `line` up to its end. Returns how many were used, and what they made, if it is known.
fn take(available: &[u8], line: &mut Vec<u8>, len_max: usize) -> (usize, Option<Line>) {
    if available.is_empty() {
        return (0, Some(Line::End));
    }
    let end = available.iter().position(|&byte| byte == b'\n');
    let n_wanted = end.unwrap_or(available.len());
    let n_taken = n_wanted.min(len_max - line.len());
    line.extend_from_slice(&available[..n_taken]);
    if n_taken < n_wanted {
        return (n_taken, Some(Line::TooLong));
    }
    match end {
        Some(end) => (end + 1, Some(Line::Read)),
        None => (n_taken, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, len_max: usize) -> Vec<(Line, String)> {
        // A small buffer, so that lines span several reads.
        let mut input = io::BufReader::with_capacity(3, text.as_bytes());
        let mut found = Vec::new();
        let mut line = Vec::new();
        loop {
            let next = read(&mut input, &mut line, len_max).expect("memory does not fail");
            found.push((next, String::from_utf8(line.clone()).expect("text")));
            if next != Line::Read {
                return found;
            }
        }
    }

    #[test]
    fn lines_come_whole_and_an_unended_one_not_at_all() {
        let found = lines("one\n\nthree\nfour", 100);
        let read: Vec<_> =
            found.iter().filter(|(kind, _)| *kind == Line::Read).map(|(_, text)| text.as_str()).collect();
        assert_eq!(read, ["one", "", "three"]);
        assert_eq!(found.last().map(|(kind, _)| *kind), Some(Line::End));
    }

    #[test]
    fn a_line_may_be_as_long_as_allowed_and_no_longer() {
        assert_eq!(lines("12345\n", 5)[0], (Line::Read, "12345".to_owned()));
        assert_eq!(lines("123456\n", 5)[0], (Line::TooLong, "12345".to_owned()));
        assert_eq!(lines("123456789", 5)[0].0, Line::TooLong, "noticed before its end comes");
    }

    #[tokio::test]
    async fn async_lines_are_the_same() {
        let mut input = tokio::io::BufReader::with_capacity(3, "one\n123456\n".as_bytes());
        let mut line = Vec::new();
        assert_eq!(read_async(&mut input, &mut line, 5).await.expect("memory"), Line::Read);
        assert_eq!(line, b"one");
        assert_eq!(read_async(&mut input, &mut line, 5).await.expect("memory"), Line::TooLong);
    }
}
