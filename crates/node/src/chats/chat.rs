//! What a chat is, and how large it may be.

use std::fmt;
use std::str::FromStr;

use domain::{Bytes, Timestamp};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq)]
pub struct Chat {
    pub id: ChatId,
    pub title: String,
    /// The model last chatted with.
    pub model: Option<String>,
    pub messages: Vec<ChatMessage>,
    pub updated_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    pub role: ChatRole,
    pub text: String,
    /// How an answer was made, as whoever shows it understands it; kept as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<serde_json::Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatRole {
    System,
    User,
    Assistant,
}

/// A chat without its messages, for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatSummary {
    pub id: ChatId,
    pub title: String,
    pub updated_at: Timestamp,
    pub n_messages: u32,
}

impl Chat {
    /// A line of a list; longer ones are cut on every screen.
    pub const TITLE_CHARS_MAX: usize = 200;
    /// No one reads a chat of more; without a limit a loop at the client could fill the disk.
    pub const MESSAGES_MAX: usize = 5_000;
    /// All messages as they are kept. A context of 128k tokens is some 600 KiB of text.
    pub const SIZE_MAX: Bytes = Bytes::from_mib(4);

    /// Whether it is within the limits, its size excepted.
    pub(super) fn check(&self) -> Result<(), BadChat> {
        let n_chars = self.title.chars().count();
        if n_chars > Self::TITLE_CHARS_MAX {
            return Err(BadChat::TitleLong { n_chars });
        }
        if self.messages.len() > Self::MESSAGES_MAX {
            return Err(BadChat::TooMany { n_messages: self.messages.len() });
        }
        Ok(())
    }

    /// The messages as they are kept, if they are not too large.
    pub(super) fn messages_json(&self) -> Result<String, BadChat> {
        let json = serde_json::to_string(&self.messages).map_err(|_| BadChat::NotJson)?;
        let size = Bytes::new(json.len() as u64);
        if size > Self::SIZE_MAX { Err(BadChat::TooLarge { size }) } else { Ok(json) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadChat {
    #[error("the chat's title has {n_chars} characters; at most {} are kept", Chat::TITLE_CHARS_MAX)]
    TitleLong { n_chars: usize },
    #[error("the chat has {n_messages} messages; at most {} are kept", Chat::MESSAGES_MAX)]
    TooMany { n_messages: usize },
    #[error("the chat takes {size}; at most {} are kept", Chat::SIZE_MAX)]
    TooLarge { size: Bytes },
    #[error("the chat's messages cannot be written as JSON")]
    NotJson,
}

/// Chosen by the client that began the chat.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChatId(String);

impl ChatId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ChatId {
    type Err = BadChatId;

    fn from_str(text: &str) -> Result<Self, BadChatId> {
        let allowed = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'z' | b'-');
        if (8..=64).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadChatId { got: text.chars().filter(|c| !c.is_control()).take(80).collect() })
        }
    }
}

impl fmt::Display for ChatId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a chat's id (expected 8 to 64 of `0`–`9`, `a`–`z`, `-`): `{got}`")]
pub struct BadChatId {
    got: String,
}

#[cfg(test)]
impl Chat {
    /// A chat of these texts, of the user and the model in turn.
    pub(super) fn of(id: ChatId, title: &str, texts: &[&str]) -> Self {
        let roles = [ChatRole::User, ChatRole::Assistant].into_iter().cycle();
        let messages = roles.zip(texts).map(|(role, text)| ChatMessage { role, text: (*text).to_owned(), facts: None });
        Self { id, title: title.to_owned(), model: None, messages: messages.collect(), updated_at: Timestamp(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_said_with_numbers() {
        let id: ChatId = "chat-0001".parse().expect("an id");
        let long = Chat::of(id.clone(), &"é".repeat(201), &[]).check().expect_err("too long");
        assert_eq!(long.to_string(), "the chat's title has 201 characters; at most 200 are kept");
        let many = Chat::of(id.clone(), "", &["x"; 5_001]).check().expect_err("too many");
        assert_eq!(many, BadChat::TooMany { n_messages: 5_001 });
        let large = "x".repeat(5 << 20);
        let large = Chat::of(id, "", &[&large]).messages_json().expect_err("too large");
        assert!(matches!(large, BadChat::TooLarge { .. }));
    }

    #[test]
    fn ids_are_plain() {
        assert!("0b8f6a52-uuid-like".parse::<ChatId>().is_ok());
        for bad in ["short", "", "UPPERCASE", "../../../etc", "with space", &"x".repeat(65)] {
            assert!(bad.parse::<ChatId>().is_err(), "{bad:?}");
        }
    }
}
