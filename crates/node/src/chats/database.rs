//! The chats' tables. All calls block on the disk.
//!
//! A chat is one row: it is always read and written whole, and its messages have no life outside it.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Chat, ChatId, ChatSummary, ChatsError};

/// What `PRAGMA user_version` is once all of [`MIGRATIONS`] have run.
const VERSION: u32 = MIGRATIONS.len() as u32;

/// Step `i` makes version `i + 1` out of version `i`. Never changed once released, only added to.
const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE chats (
        id            TEXT PRIMARY KEY NOT NULL,
        title         TEXT NOT NULL,
        model         TEXT,
        messages      TEXT NOT NULL, -- JSON array of ChatMessage
        n_messages    INTEGER NOT NULL,
        updated_at_ms INTEGER NOT NULL,
        deleted_at_ms INTEGER        -- NULL while it is not deleted
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX chats_by_age ON chats (updated_at_ms DESC) WHERE deleted_at_ms IS NULL;
"];

/// How long a deleted chat can be brought back.
const DELETED_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// For another process that holds the file: a back-up, a shell.
const BUSY_LIMIT: Duration = Duration::from_secs(5);

/// Chats in one list. At ten a day it takes three years to get there; older ones stay kept.
const LISTED_MAX: u32 = 10_000;

pub(super) struct Database {
    connection: Connection,
    path: PathBuf,
}

impl Database {
    pub fn open(path: &Path, now: Timestamp) -> Result<Self, ChatsError> {
        create_private(path).map_err(|source| ChatsError::Create { path: path.to_owned(), source })?;
        let opened = Connection::open(path).map_err(|error| ChatsError::of(path, error))?;
        let mut database = Self { connection: opened, path: path.to_owned() };
        database.run(|connection| {
            connection.busy_timeout(BUSY_LIMIT)?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            // With WAL, a loss of power can cost the last chats, never the file.
            connection.pragma_update(None, "synchronous", "NORMAL")
        })?;
        database.migrate()?;
        database.purge(now)?;
        Ok(database)
    }

    pub fn list(&mut self) -> Result<Vec<ChatSummary>, ChatsError> {
        self.run(|connection| {
            let mut select = connection.prepare_cached(
                "SELECT id, title, updated_at_ms, n_messages FROM chats
                 WHERE deleted_at_ms IS NULL ORDER BY updated_at_ms DESC, id LIMIT ?1",
            )?;
            let rows = select.query_map([LISTED_MAX], |row| {
                Ok(ChatSummary {
                    id: chat_id(row)?,
                    title: row.get("title")?,
                    updated_at: timestamp(row)?,
                    n_messages: row.get("n_messages")?,
                })
            })?;
            rows.collect()
        })
    }

    pub fn get(&mut self, id: &ChatId) -> Result<Option<Chat>, ChatsError> {
        self.run(|connection| {
            let mut select = connection.prepare_cached(
                "SELECT id, title, model, messages, updated_at_ms FROM chats WHERE id = ?1 AND deleted_at_ms IS NULL",
            )?;
            let found = select.query_row([id.as_str()], |row| {
                let messages: String = row.get("messages")?;
                let messages = serde_json::from_str(&messages)
                    .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))?;
                Ok(Chat {
                    id: chat_id(row)?,
                    title: row.get("title")?,
                    model: row.get("model")?,
                    messages,
                    updated_at: timestamp(row)?,
                })
            });
            found.optional()
        })
    }

    pub fn put(&mut self, chat: &Chat) -> Result<(), ChatsError> {
        let messages = chat.messages_json()?;
        self.run(|connection| {
            let mut upsert = connection.prepare_cached(
                "INSERT INTO chats (id, title, model, messages, n_messages, updated_at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (id) DO UPDATE SET title = excluded.title, model = excluded.model,
                 messages = excluded.messages, n_messages = excluded.n_messages, updated_at_ms = excluded.updated_at_ms",
            )?;
            let updated_at_ms = i64::try_from(chat.updated_at.0).unwrap_or(i64::MAX);
            upsert.execute(params![
                chat.id.as_str(),
                chat.title,
                chat.model,
                messages,
                u32::try_from(chat.messages.len()).unwrap_or(u32::MAX),
                updated_at_ms
            ])?;
            Ok(())
        })
    }

    pub fn delete(&mut self, id: &ChatId, now: Timestamp) -> Result<bool, ChatsError> {
        let hidden = self.run(|connection| {
            let now_ms = i64::try_from(now.0).unwrap_or(i64::MAX);
            let update = "UPDATE chats SET deleted_at_ms = ?2 WHERE id = ?1 AND deleted_at_ms IS NULL";
            connection.execute(update, params![id.as_str(), now_ms])
        })?;
        self.purge(now)?;
        Ok(hidden > 0)
    }

    pub fn restore(&mut self, id: &ChatId) -> Result<bool, ChatsError> {
        let update = "UPDATE chats SET deleted_at_ms = NULL WHERE id = ?1 AND deleted_at_ms IS NOT NULL";
        let shown = self.run(|connection| connection.execute(update, [id.as_str()]))?;
        Ok(shown > 0)
    }

    /// Forgets for good what was deleted long ago.
    fn purge(&mut self, now: Timestamp) -> Result<(), ChatsError> {
        let kept_ms = u64::try_from(DELETED_KEPT.as_millis()).unwrap_or(u64::MAX);
        let limit_ms = i64::try_from(now.0.saturating_sub(kept_ms)).unwrap_or(i64::MAX);
        self.run(|connection| connection.execute("DELETE FROM chats WHERE deleted_at_ms < ?1", [limit_ms]))?;
        Ok(())
    }

    fn migrate(&mut self) -> Result<(), ChatsError> {
        let found: u32 =
            self.run(|connection| connection.pragma_query_value(None, "user_version", |row| row.get(0)))?;
        if found > VERSION {
            return Err(ChatsError::Newer { path: self.path.clone(), found, known: VERSION });
        }
        self.run(|connection| {
            for (step, version) in MIGRATIONS[found as usize..].iter().zip(found + 1..) {
                let migration = connection.transaction()?;
                migration.execute_batch(step)?;
                migration.pragma_update(None, "user_version", version)?;
                migration.commit()?;
            }
            Ok(())
        })
    }

    fn run<T>(&mut self, work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, ChatsError> {
        work(&mut self.connection).map_err(|error| ChatsError::of(&self.path, error))
    }
}

/// Makes the file readable by its owner alone; SQLite gives the files beside it the same rights.
fn create_private(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(|_| ())
}

fn chat_id(row: &Row<'_>) -> rusqlite::Result<ChatId> {
    let text: String = row.get("id")?;
    text.parse().map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))
}

fn timestamp(row: &Row<'_>) -> rusqlite::Result<Timestamp> {
    let ms: i64 = row.get("updated_at_ms")?;
    Ok(Timestamp(u64::try_from(ms).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 24 * 60 * 60 * 1000;
    const NOW: Timestamp = Timestamp(1_000 * DAY_MS);

    fn database() -> (tempfile::TempDir, Database) {
        let dir = tempfile::tempdir().expect("a folder");
        let database = Database::open(&dir.path().join("chats.db"), NOW).expect("opens");
        (dir, database)
    }

    fn chat(id: &str, updated_at: Timestamp) -> Chat {
        let mut chat = Chat::of(id.parse().expect("an id"), id, &["question", "answer"]);
        chat.updated_at = updated_at;
        chat.messages[1].facts = Some(serde_json::json!({ "tokensPerSec": 12.5 }));
        chat
    }

    #[test]
    fn the_newest_chat_is_first_and_a_put_replaces() {
        let (_dir, mut database) = database();
        database.put(&chat("chat-old", Timestamp(1))).expect("kept");
        database.put(&chat("chat-new", Timestamp(2))).expect("kept");
        let ids = |database: &mut Database| -> Vec<String> {
            database.list().expect("listed").iter().map(|chat| chat.id.to_string()).collect()
        };
        assert_eq!(ids(&mut database), ["chat-new", "chat-old"]);
        let longer = Chat { title: "renamed".to_owned(), ..chat("chat-old", Timestamp(3)) };
        database.put(&longer).expect("kept");
        assert_eq!(ids(&mut database), ["chat-old", "chat-new"]);
        assert_eq!(database.get(&longer.id).expect("read"), Some(longer));
        assert_eq!(database.list().expect("listed")[0].n_messages, 2);
    }

    #[test]
    fn a_deleted_chat_is_kept_thirty_days_and_its_late_answer_does_not_bring_it_back() {
        let (_dir, mut database) = database();
        let chat = chat("chat-0001", NOW);
        database.put(&chat).expect("kept");
        assert!(database.delete(&chat.id, NOW).expect("deleted"));
        assert!(!database.delete(&chat.id, NOW).expect("already deleted"));
        let late = Chat { title: "answered".to_owned(), ..chat.clone() };
        database.put(&late).expect("kept");
        assert_eq!(database.get(&chat.id).expect("read"), None);
        database.purge(Timestamp(NOW.0 + 29 * DAY_MS)).expect("purged");
        assert!(database.restore(&chat.id).expect("restored"));
        assert_eq!(database.get(&chat.id).expect("read"), Some(late));
        database.delete(&chat.id, NOW).expect("deleted");
        database.purge(Timestamp(NOW.0 + 31 * DAY_MS)).expect("purged");
        assert!(!database.restore(&chat.id).expect("gone"));
    }

    #[test]
    fn a_damaged_file_is_named_and_left_alone() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("chats.db");
        let damaged = b"not a database at all, but somebody's bytes ".repeat(40);
        std::fs::write(&path, &damaged).expect("written");
        let error = Database::open(&path, NOW).err().expect("refused");
        assert!(matches!(error, ChatsError::Damaged { .. }), "{error:?}");
        assert!(error.to_string().contains("chats.db"));
        assert_eq!(std::fs::read(&path).expect("read"), damaged);
    }

    #[test]
    fn a_newer_file_is_not_touched() {
        let (dir, database) = database();
        database.connection.pragma_update(None, "user_version", 99).expect("set");
        drop(database);
        let error = Database::open(&dir.path().join("chats.db"), NOW).err().expect("refused");
        assert!(matches!(error, ChatsError::Newer { found: 99, known: VERSION, .. }), "{error:?}");
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_may_read_the_file() {
        use std::os::unix::fs::PermissionsExt;
        let (dir, mut database) = database();
        database.put(&chat("chat-0001", NOW)).expect("kept");
        for entry in std::fs::read_dir(dir.path()).expect("listed").flatten() {
            let mode = entry.metadata().expect("its rights").permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}", entry.path().display());
        }
    }
}
