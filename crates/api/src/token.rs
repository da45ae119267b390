//! The secret that opens the control routes. A node keeps it in its home, where only its user can read it.

use std::fmt;
use std::hint::black_box;

use rand::RngExt as _;

/// 256 random bits as hexadecimal digits, as a rule.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    pub fn random() -> Self {
        let bytes: [u8; 32] = rand::rng().random();
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// One that is kept elsewhere.
    pub fn of(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The secret itself, for whoever may hold it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Takes as long for a wrong token as for the right one, so that its digits cannot be found one by one.
    pub fn matches(&self, got: &str) -> bool {
        let (own, got) = (self.0.as_bytes(), got.as_bytes());
        let differing = own.iter().enumerate().fold(own.len() ^ got.len(), |differing, (idx, byte)| {
            differing | usize::from(byte ^ black_box(got.get(idx).copied().unwrap_or(0)))
        });
        black_box(differing) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_matches() {
        let token = Token::random();
        let text = token.reveal().to_owned();
        assert_eq!(text.len(), 64);
        assert!(token.matches(&text));
        assert!(!token.matches(""));
        assert!(!token.matches(&text[..63]));
        assert!(!token.matches(&format!("{text}0")));
        assert!(!token.matches(&text.to_uppercase().replace(|c: char| c.is_ascii_digit(), "x")));
        assert_ne!(token, Token::random());
        assert_eq!(format!("{token:?}"), "Token(…)");
    }
}
