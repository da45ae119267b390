//! Turns drawn tokens into text that may be shown.
//!
//! A token may end in the middle of a character, and a stop text may begin in one token and end in another. Text is held
//! back until neither can change it any more, and what was handed out is never taken back.

use std::collections::VecDeque;

use crate::TokenLogprob;

/// The text of one answer while it grows.
#[derive(Debug)]
pub(crate) struct Answer {
    stop: Vec<String>,
    /// Bytes of a character whose rest has not come yet; at most three.
    partial: Vec<u8>,
    /// Whole characters not handed out yet, as they may begin a stop text.
    held: String,
    /// Bytes of text handed out.
    n_sent: usize,
    /// Tokens whose text is not wholly handed out.
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    /// Where the token's text begins and ends in the answer, in bytes.
    start: usize,
    end: usize,
    logprob: TokenLogprob,
}

/// Text that may be shown, and the tokens it came from if their log-probabilities are wanted.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Chunk {
    pub text: String,
    pub logprobs: Vec<TokenLogprob>,
}

/// What a token did to the answer. Chunks may be empty.
#[derive(Debug, PartialEq)]
pub(crate) enum Pushed {
    Grown(Chunk),
    /// A stop text is complete: the chunk is what stood before it, and the answer has ended.
    Stopped(Chunk),
}

impl Answer {
    pub fn new(stop: Vec<String>) -> Self {
        Self { stop, partial: Vec::new(), held: String::new(), n_sent: 0, waiting: VecDeque::new() }
    }

    /// Adds a token's bytes.
    pub fn push(&mut self, bytes: &[u8], logprob: Option<TokenLogprob>) -> Pushed {
        let start = self.n_sent + self.held.len();
        self.partial.extend_from_slice(bytes);
        take_whole_characters(&mut self.partial, &mut self.held);
        if let Some(logprob) = logprob {
            // A token that ends inside a character ends, as far as can be seen, with the text that follows.
            let end = self.n_sent + self.held.len() + usize::from(!self.partial.is_empty());
            self.waiting.push_back(Waiting { start, end, logprob });
        }
        match self.stop.iter().filter_map(|stop| self.held.find(stop.as_str())).min() {
            Some(stop_at) => {
                self.held.truncate(stop_at);
                self.partial.clear();
                let end = self.n_sent + stop_at;
                self.waiting.retain(|token| token.start < end);
                Pushed::Stopped(self.take(stop_at))
            }
            None => {
                let n_back = self.stop.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
                Pushed::Grown(self.take(self.held.len() - n_back))
            }
        }
    }

    /// What was held back, once nothing can follow. A character that never came whole reads as `�`.
    pub fn finish(mut self) -> Chunk {
        let rest = std::mem::take(&mut self.partial);
        self.held.push_str(&String::from_utf8_lossy(&rest));
        let n_bytes = self.held.len();
        let mut chunk = self.take(n_bytes);
        chunk.logprobs.extend(self.waiting.into_iter().map(|token| token.logprob));
        chunk
    }

    fn take(&mut self, n_bytes: usize) -> Chunk {
        let rest = self.held.split_off(n_bytes);
        let text = std::mem::replace(&mut self.held, rest);
        self.n_sent += n_bytes;
        let n_whole = self.waiting.iter().take_while(|token| token.end <= self.n_sent).count();
        Chunk { text, logprobs: self.waiting.drain(..n_whole).map(|token| token.logprob).collect() }
    }
}

/// Moves whole characters from `bytes` to `text`; bytes that can be no part of a character become `�`.
fn take_whole_characters(bytes: &mut Vec<u8>, text: &mut String) {
    let mut rest = bytes.as_slice();
    loop {
        match std::str::from_utf8(rest) {
            Ok(whole) => {
                text.push_str(whole);
                bytes.clear();
                return;
            }
            Err(error) => {
                let (whole, after) = rest.split_at(error.valid_up_to());
                text.push_str(&String::from_utf8_lossy(whole));
                match error.error_len() {
                    Some(n_bad) => {
                        text.push(char::REPLACEMENT_CHARACTER);
                        rest = &after[n_bad..];
                    }
                    None => {
                        let n_done = bytes.len() - after.len();
                        bytes.drain(..n_done);
                        return;
                    }
                }
            }
        }
    }
}

/// The longest end of `text`, in bytes, that is a proper beginning of `stop`.
fn overlap(text: &str, stop: &str) -> usize {
    let n_max = text.len().min(stop.len() - 1);
    (1..=n_max).rev().find(|&n| text.as_bytes().ends_with(&stop.as_bytes()[..n])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TokenScore;

    #[test]
    fn text_is_handed_out_as_it_comes() {
        assert_eq!(told(&[], &[b"Red", b", ", b"blue"]), ["Red", ", ", "blue"]);
    }

    #[test]
    fn a_character_is_shown_whole() {
        let snowman = "☃".as_bytes();
        assert_eq!(told(&[], &[&snowman[..1], &snowman[1..2], &snowman[2..], b"!"]), ["", "", "☃", "!"]);
        assert_eq!(told(&[], &[b"a\xff", b"b"]), ["a\u{fffd}", "b"], "a byte that is no text");
        assert_eq!(told(&[], &[&snowman[..2], b"x"]), ["", "\u{fffd}x"], "a character that breaks off");
        assert_eq!(told(&[], &[b"a", &snowman[..2]]), ["a", "", "\u{fffd}"], "and one at the end");
    }

    #[test]
    fn a_stop_text_is_found_across_tokens_and_never_shown() {
        assert_eq!(told(&["END"], &[b"one E", b"N", b"D two"]), ["one ", "", "", "<stopped>"]);
        assert_eq!(told(&["END"], &[b"one E", b"N", b"ough"]), ["one ", "", "ENough"]);
        assert_eq!(told(&["\n\n"], &[b"a\n", b"b\n", b"\nc"]), ["a", "\nb", "", "<stopped>"]);
        assert_eq!(told(&["END"], &[b"E"]), ["", "E"], "what was held back comes at the end");
        assert_eq!(told(&["aab"], &[b"a", b"a", b"a", b"b"]), ["", "", "a", "", "<stopped>"]);
    }

    #[test]
    fn of_several_stop_texts_the_first_in_the_answer_counts() {
        assert_eq!(told(&["three", "two"], &[b"one two three"]), ["one ", "<stopped>"]);
        assert_eq!(
            told(&["é"], &[b"caf\xc3", b"\xa9!"]),
            ["caf", "", "<stopped>"],
            "stop texts in halves of characters"
        );
    }

    #[test]
    fn logprobs_travel_with_the_text_they_belong_to() {
        let mut answer = Answer::new(vec!["END".to_owned()]);
        assert_eq!(grown(answer.push("☃".as_bytes().split_at(1).0, score("1"))), ("".to_owned(), vec![]));
        let (text, tokens) = grown(answer.push("☃E".as_bytes().split_at(1).1, score("2")));
        assert_eq!((text.as_str(), tokens), ("☃", vec!["1".to_owned()]), "token 2 still holds the E");
        let stopped = answer.push(b"ND", score("3"));
        let Pushed::Stopped(chunk) = stopped else { panic!("{stopped:?}") };
        assert_eq!(chunk.text, "");
        assert!(chunk.logprobs.iter().all(|logprob| logprob.token.text != "3"), "the stop text's own token is dropped");
    }

    fn told(stop: &[&str], tokens: &[&[u8]]) -> Vec<String> {
        let mut answer = Answer::new(stop.iter().map(|&stop| stop.to_owned()).collect());
        let mut told = Vec::new();
        for token in tokens {
            match answer.push(token, None) {
                Pushed::Grown(chunk) => told.push(chunk.text),
                Pushed::Stopped(chunk) => {
                    told.extend([chunk.text, "<stopped>".to_owned()]);
                    return told;
                }
            }
        }
        let rest = answer.finish().text;
        told.extend((!rest.is_empty()).then_some(rest));
        told
    }

    fn score(text: &str) -> Option<TokenLogprob> {
        let token = TokenScore { text: text.to_owned(), bytes: Vec::new(), logprob: 0.0 };
        Some(TokenLogprob { token, top: Vec::new() })
    }

    fn grown(pushed: Pushed) -> (String, Vec<String>) {
        match pushed {
            Pushed::Grown(chunk) => {
                (chunk.text, chunk.logprobs.into_iter().map(|logprob| logprob.token.text).collect())
            }
            Pushed::Stopped(chunk) => panic!("stopped at {chunk:?}"),
        }
    }
}
