//! `macrame chat`: a conversation in the terminal. It is kept nowhere: not on disk, not in the node.

use anyhow::{Context as _, Result, bail};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use crate::answer::{Message, Wishes, ask};
use crate::client::Client;
use crate::names;
use crate::terminal;

const PROMPT: &str = "› ";

const WELCOME: &str = "Ctrl-C stops an answer, Ctrl-D ends; /new begins a new chat.";

pub async fn chat(client: &Client, model: Option<&str>) -> Result<()> {
    let model = names::served_model(&client.view().await?, model)?;
    converse(client, &model, Wishes::default()).await
}

pub async fn converse(client: &Client, model: &str, wishes: Wishes) -> Result<()> {
    if !terminal::is_interactive() {
        bail!("a chat needs a terminal; for one answer use `macrame run --prompt`");
    }
    terminal::note(&format!("{model}. {WELCOME}"));
    let mut editor = DefaultEditor::new().context("cannot read lines from this terminal")?;
    let mut messages = Vec::new();
    loop {
        let line;
        (editor, line) = next_line(editor).await?;
        let Some(line) = line else { return Ok(()) };
        match line.trim() {
            "" => {}
            "/new" => {
                messages.clear();
                terminal::note("A new chat.");
            }
            text => turn(client, model, wishes, &mut messages, text).await?,
        }
    }
}

/// One question and its answer. A stopped answer stays in the conversation as far as it got; one that failed does
/// not, and neither does its question.
async fn turn(client: &Client, model: &str, wishes: Wishes, messages: &mut Vec<Message>, text: &str) -> Result<()> {
    messages.push(Message::user(text));
    let mut answer = String::new();
    let ended = {
        let asked = ask(client, model, messages, wishes, |piece| {
            answer += piece;
            terminal::write(piece)
        });
        tokio::select! {
            ended = asked => ended.map(Some),
            pressed = tokio::signal::ctrl_c() => pressed.context("cannot hear Ctrl-C").map(|()| None),
        }
    };
    terminal::line("")?;
    match ended {
        Ok(Some(speed)) => terminal::note(&speed.rendered()),
        Ok(None) => terminal::note("stopped"),
        Err(error) => {
            messages.pop();
            crate::advice::report(&error);
            return Ok(());
        }
    }
    messages.push(Message::assistant(&answer));
    Ok(())
}

/// Reading a line blocks, so it has a thread of its own. `None` at the end of the input.
async fn next_line(mut editor: DefaultEditor) -> Result<(DefaultEditor, Option<String>)> {
    let read = move || loop {
        match editor.readline(PROMPT) {
            Ok(line) => {
                // Without its history the editor works as well.
                let _ = editor.add_history_entry(&line);
                return Ok((editor, Some(line)));
            }
            // Ctrl-C empties the line, as in a shell.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return Ok((editor, None)),
            Err(error) => return Err(error),
        }
    };
    let read = tokio::task::spawn_blocking(read).await.context("the reader of lines broke down")?;
    read.context("cannot read a line from this terminal")
}
