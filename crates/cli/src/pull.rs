//! `macrame pull`: a model from the hub to this machine's disk. The running node does it, if there is one, so that
//! its UI shows it too; else this process.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use api::wire::{DownloadRequest, DownloadView, ModelView};
use domain::ModelId;
use indicatif::{ProgressBar, ProgressStyle};
use node::{DownloadStatus, Models};
use tokio::time::sleep;

use crate::advice::{Advise as _, Advised};
use crate::client::Client;
use crate::flags::ModelsFolder;
use crate::models::{model_id, models_dir, open};
use crate::terminal;

/// Between two looks at a download: as smooth as a bar need be.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

pub async fn pull(home: &Path, model: &str, folder: ModelsFolder) -> Result<()> {
    let model = model_id(model)?;
    let by = match (&folder.models_dir, Client::connect(home)) {
        (None, Ok(client)) => By::Node(client),
        (Some(_), _) | (None, Err(_)) => By::Us(open(&models_dir(home, folder).await?)?),
    };
    let bar = bar(&model)?;
    let done = tokio::select! {
        done = follow(&by, &model, &bar) => done,
        pressed = tokio::signal::ctrl_c() => {
            pressed.context("cannot hear Ctrl-C")?;
            by.cancel(&model).await?;
            bar.abandon();
            Err(Advised::new("stopped", "run the same command again: what has come is kept").into())
        }
    };
    if done.is_ok() {
        bar.finish_and_clear();
        terminal::line(&format!("`{model}` is on this machine"))?;
    }
    done
}

/// Who downloads.
enum By {
    Node(Client),
    Us(Models),
}

/// How far it is.
enum State {
    Running { done_bytes: u64, total_bytes: u64 },
    Done,
}

async fn follow(by: &By, model: &ModelId, bar: &ProgressBar) -> Result<()> {
    by.start(model).await?;
    loop {
        match by.state(model).await? {
            State::Running { done_bytes, total_bytes } => {
                bar.set_length(total_bytes);
                bar.set_position(done_bytes);
            }
            State::Done => return Ok(()),
        }
        sleep(LOOK_PAUSE).await;
    }
}

impl By {
    async fn start(&self, model: &ModelId) -> Result<()> {
        match self {
            Self::Node(client) => {
                client.order("/v1/cluster/downloads", &DownloadRequest { model: model.to_string() }).await
            }
            Self::Us(models) => models.download(model.clone()).context("cannot begin the download"),
        }
    }

    /// A download that is no longer listed has ended; well, if the model is there now.
    async fn state(&self, model: &ModelId) -> Result<State> {
        match self {
            Self::Node(client) => {
                let view = client.view().await?;
                match view.downloads.into_iter().find(|download| download.model == model.as_str()) {
                    Some(DownloadView { error: Some(error), .. }) => bail!("{error}"),
                    Some(DownloadView { done_bytes, total_bytes, .. }) => {
                        Ok(State::Running { done_bytes, total_bytes })
                    }
                    None if is_on_disk(client, model).await? => Ok(State::Done),
                    None => {
                        Err(Advised::new("the download was stopped", "begin it again: what has come is kept").into())
                    }
                }
            }
            Self::Us(models) => match models.downloads().into_iter().find(|download| download.model == *model) {
                Some(download) => match download.status {
                    DownloadStatus::Running => {
                        Ok(State::Running { done_bytes: download.done.as_u64(), total_bytes: download.total.as_u64() })
                    }
                    DownloadStatus::Failed { error, hints } => Err(Advised::with_hints(error, hints).into()),
                },
                None => models.files(model.clone()).await.advise().map(|_| State::Done),
            },
        }
    }

    async fn cancel(&self, model: &ModelId) -> Result<()> {
        match self {
            Self::Node(client) => client.cancel_download(model.as_str()).await,
            Self::Us(models) => {
                models.cancel_download(model);
                Ok(())
            }
        }
    }
}

async fn is_on_disk(client: &Client, model: &ModelId) -> Result<bool> {
    let models: Vec<ModelView> = client.get("/v1/cluster/models").await?;
    // One file of a repository that holds several is listed with its name.
    let with_file = format!("{model}:");
    Ok(models.iter().any(|found| found.id == model.as_str() || found.id.starts_with(&with_file)))
}

/// Bytes, speed, time left. Nothing is drawn where standard error is no terminal.
fn bar(model: &ModelId) -> Result<ProgressBar> {
    let style = "{msg} {wide_bar} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";
    let style = ProgressStyle::with_template(style).context("the progress bar's template")?;
    Ok(ProgressBar::new(0).with_style(style).with_message(model.to_string()))
}
