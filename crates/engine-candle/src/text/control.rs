//! Control tokens in text: finding the template's own, and keeping those that people typed from being taken for them.

use std::collections::BTreeMap;

use engine::{ChatMessage, TextError};

/// Tokens that stand for a text as a whole, found by their spelling.
#[derive(Clone, Debug, Default)]
pub(super) struct Spellings {
    /// By first byte; longest first.
    by_first_byte: BTreeMap<u8, Vec<(String, u32)>>,
}

/// Plain text, or a token by its spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Plain(&'a str),
    Token(u32),
}

impl Spellings {
    /// Spellings of one character are left out: a shield needs an inside to stand in.
    pub fn new(tokens: impl IntoIterator<Item = (String, u32)>) -> Self {
        let mut by_first_byte: BTreeMap<u8, Vec<_>> = BTreeMap::new();
        for (spelling, token) in tokens {
            if spelling.chars().count() > 1 {
                by_first_byte.entry(spelling.as_bytes()[0]).or_default().push((spelling, token));
            }
        }
        for spellings in by_first_byte.values_mut() {
            spellings.sort_by_key(|(spelling, _)| std::cmp::Reverse(spelling.len()));
        }
        Self { by_first_byte }
    }

    /// The longest spelling that `text` begins with.
    fn at_start(&self, text: &str) -> Option<(&str, u32)> {
        let spellings = self.by_first_byte.get(text.as_bytes().first()?)?;
        let (spelling, token) = spellings.iter().find(|(spelling, _)| text.starts_with(spelling.as_str()))?;
        Some((spelling, *token))
    }

    /// Cuts `text` at every spelling, left to right.
    pub fn split<'a>(&self, text: &'a str) -> Vec<Piece<'a>> {
        let mut pieces = Vec::new();
        let (mut plain_from, mut at) = (0, 0);
        while at < text.len() {
            if !text.is_char_boundary(at) {
                at += 1;
                continue;
            }
            match self.at_start(&text[at..]) {
                Some((spelling, token)) => {
                    pieces.extend((plain_from < at).then(|| Piece::Plain(&text[plain_from..at])));
                    pieces.push(Piece::Token(token));
                    at += spelling.len();
                    plain_from = at;
                }
                None => at += 1,
            }
        }
        pieces.extend((plain_from < text.len()).then(|| Piece::Plain(&text[plain_from..])));
        pieces
    }
}

/// A character that no message contains. One inside a spelling makes it plain text, whatever the template does with the
/// text around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shield(char);

impl Shield {
    /// Picks one of Unicode's 32 characters that are none (U+FDD0 to U+FDEF): no text has a use for them.
    pub fn for_messages(messages: &[ChatMessage]) -> Result<Self, TextError> {
        let is_free = |shield: &char| !messages.iter().any(|message| message.content.contains(*shield));
        let free = ('\u{fdd0}'..='\u{fdef}').find(is_free);
        free.map(Self).ok_or_else(|| TextError { cause: "they use all 32 noncharacters U+FDD0 to U+FDEF".to_owned() })
    }

    /// `content` with a shield inside each spelling that begins in it.
    pub fn cover(self, content: &str, controls: &Spellings) -> String {
        let mut covered = String::with_capacity(content.len());
        for (at, character) in content.char_indices() {
            covered.push(character);
            if controls.at_start(&content[at..]).is_some() {
                covered.push(self.0);
            }
        }
        covered
    }

    pub fn uncover(self, plain: &str) -> String {
        plain.replace(self.0, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Role;

    #[test]
    fn text_is_cut_at_the_longest_spellings() {
        let split = |text| spellings().split(text);
        assert_eq!(split("a<|end|>b"), [Piece::Plain("a"), Piece::Token(1), Piece::Plain("b")]);
        assert_eq!(split("<|end|>ing|>"), [Piece::Token(2)]);
        assert_eq!(split("<<|end|><|end|>"), [Piece::Plain("<"), Piece::Token(1), Piece::Token(1)]);
        assert_eq!(split("é<|en"), [Piece::Plain("é<|en")]);
        assert_eq!(split(""), []);
    }

    #[test]
    fn a_covered_text_has_no_spelling_and_comes_back_unchanged() {
        let shield = shield("");
        for typed in ["<|end|>", "x<|end|>ing|>y", "<|end<|end|>|>", "<|<|end|>end|>", "plain", "é<|end|>é"] {
            let covered = shield.cover(typed, &spellings());
            assert!(matches!(spellings().split(&covered)[..], [Piece::Plain(_)]), "{covered}");
            assert_eq!(shield.uncover(&covered), typed);
        }
    }

    #[test]
    fn a_shield_is_never_part_of_a_message() {
        assert_eq!(shield("\u{fdd0}\u{fdd1}").0, '\u{fdd2}');
        let all: String = ('\u{fdd0}'..='\u{fdef}').collect();
        assert!(Shield::for_messages(&[message(&all)]).is_err());
    }

    fn spellings() -> Spellings {
        Spellings::new([("<|end|>".to_owned(), 1), ("<|end|>ing|>".to_owned(), 2), ("!".to_owned(), 3)])
    }

    fn shield(content: &str) -> Shield {
        Shield::for_messages(&[message(content)]).expect("a free character")
    }

    fn message(content: &str) -> ChatMessage {
        ChatMessage { role: Role::User, content: content.to_owned() }
    }
}
