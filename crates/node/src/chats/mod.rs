//! The chats of this node's user, in one SQLite file of the home.
//!
//! The file is the truth and the screen a copy of it: a chat is put whole, and deleted so that it can come back.
//! Chats never leave the machine.

mod chat;
mod database;
mod error;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use domain::Timestamp;
use tokio::task::spawn_blocking;

pub use chat::{BadChat, BadChatId, Chat, ChatId, ChatMessage, ChatRole, ChatSummary};
use database::Database;
pub use error::ChatsError;

/// The chats, for async callers. Cheap to clone; calls take turns, each some milliseconds.
#[derive(Clone)]
pub struct Chats {
    database: Arc<Mutex<Database>>,
}

impl Chats {
    /// Opens or makes the file. Blocks on the disk: call it while starting.
    pub fn open(path: &Path) -> Result<Self, ChatsError> {
        let database = Database::open(path, now())?;
        Ok(Self { database: Arc::new(Mutex::new(database)) })
    }

    /// Newest first, without the deleted ones.
    pub async fn list(&self) -> Result<Vec<ChatSummary>, ChatsError> {
        self.with(|database| database.list()).await
    }

    /// `None` if there is none, or it is deleted.
    pub async fn get(&self, id: ChatId) -> Result<Option<Chat>, ChatsError> {
        self.with(move |database| database.get(&id)).await
    }

    /// Keeps the chat as it is given, in place of what was there, and dates it now.
    ///
    /// A deleted chat takes the new content and stays deleted: an answer that was still being written when its chat
    /// was deleted must not bring it back.
    pub async fn put(&self, mut chat: Chat) -> Result<Chat, ChatsError> {
        chat.check()?;
        chat.updated_at = now();
        self.with(move |database| database.put(&chat).map(|()| chat)).await
    }

    /// Hides the chat, which [`Self::restore`] can undo for 30 days. Whether there was one.
    pub async fn delete(&self, id: ChatId) -> Result<bool, ChatsError> {
        self.with(move |database| database.delete(&id, now())).await
    }

    /// Brings a deleted chat back. Whether there was one.
    pub async fn restore(&self, id: ChatId) -> Result<bool, ChatsError> {
        self.with(move |database| database.restore(&id)).await
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Database) -> Result<T, ChatsError> + Send + 'static,
    ) -> Result<T, ChatsError> {
        let database = Arc::clone(&self.database);
        // SQLite rolls back what a panic interrupted, so what a poisoned lock guards is sound.
        let done = spawn_blocking(move || work(&mut database.lock().unwrap_or_else(PoisonError::into_inner)));
        done.await.map_err(|_| ChatsError::Stopping)?
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_chat_is_kept_dated_deleted_and_brought_back() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("chats.db");
        let chats = Chats::open(&path).expect("opens");
        let id: ChatId = "chat-0001".parse().expect("an id");
        let chat = Chat::of(id.clone(), "Colours", &["Name three.", "Red, yellow, blue."]);
        let kept = chats.put(chat.clone()).await.expect("kept");
        assert!(kept.updated_at > Timestamp(0));
        drop(chats);
        let chats = Chats::open(&path).expect("opens again");
        assert_eq!(chats.get(id.clone()).await.expect("read"), Some(kept));
        assert!(chats.delete(id.clone()).await.expect("deleted"));
        assert_eq!(chats.list().await.expect("read"), []);
        assert!(chats.restore(id.clone()).await.expect("restored"));
        assert_eq!(chats.list().await.expect("read").len(), 1);
    }

    #[tokio::test]
    async fn a_chat_beyond_its_limits_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let chats = Chats::open(&dir.path().join("chats.db")).expect("opens");
        let chat = Chat::of("chat-0001".parse().expect("an id"), &"x".repeat(201), &[]);
        assert!(matches!(chats.put(chat).await, Err(ChatsError::Bad(BadChat::TitleLong { .. }))));
        assert_eq!(chats.list().await.expect("read"), []);
    }
}
