//! `macrame models`: what is on this machine's disk. Works without a node.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use api::wire::{ModelView, SettingsView};
use domain::{BadId, Bytes, ModelId};
use node::{Config, HubOptions, Models, RepoId};

use crate::advice::{Advise as _, Advised};
use crate::client::Client;
use crate::flags::{ModelsAction, ModelsFolder};
use crate::table::{Align, Table};
use crate::terminal::{self, Format};

pub async fn models(home: &Path, action: Option<ModelsAction>, folder: ModelsFolder, format: Format) -> Result<()> {
    match action {
        None => {
            let models = on_disk(&models_dir(home, folder).await?).await?;
            match format {
                Format::Json => terminal::json(&models),
                Format::People => terminal::write(&rendered(&models)),
            }
        }
        Some(ModelsAction::Import { file, id }) => {
            let repo: RepoId = id.parse().with_context(|| format!("`{id}` cannot be a model's name"))?;
            let file =
                std::path::absolute(&file).with_context(|| format!("no absolute path for `{}`", file.display()))?;
            let adopted = open(&models_dir(home, folder).await?)?.adopt(repo, file).await.advise()?;
            terminal::line(adopted.id.as_str())
        }
        Some(ModelsAction::Remove { model }) => {
            let freed = open(&models_dir(home, folder).await?)?.delete(model_id(&model)?).await.advise()?;
            terminal::line(&format!("removed `{model}`: {freed} freed"))
        }
    }
}

/// The folder that is asked for, that of the running node, or this user's hub cache.
pub async fn models_dir(home: &Path, folder: ModelsFolder) -> Result<PathBuf> {
    if folder.models_dir.is_none()
        && let Ok(client) = Client::connect(home)
    {
        let settings: SettingsView = client.get("/v1/settings").await?;
        return Ok(settings.models_folder.into());
    }
    Ok(Config::resolve(&node::Flags { models_dir: folder.models_dir, ..node::Flags::default() })?.models_dir)
}

pub fn open(models_dir: &Path) -> Result<Models> {
    Models::new(models_dir.to_owned(), HubOptions::from_env()).advise()
}

pub async fn on_disk(models_dir: &Path) -> Result<Vec<ModelView>> {
    Ok(open(models_dir)?.list().await.advise()?.into_iter().map(ModelView::from).collect())
}

pub fn model_id(text: &str) -> Result<ModelId> {
    text.parse()
        .map_err(|error: BadId| Advised::new(error.to_string(), "`macrame models` lists those on this machine").into())
}

fn rendered(models: &[ModelView]) -> String {
    if models.is_empty() {
        return "no models; download one with `macrame pull MODEL`\n".to_owned();
    }
    let mut table = Table::new(&[
        ("model", Align::Left),
        ("size", Align::Right),
        ("layers", Align::Right),
        ("context", Align::Right),
        ("weights", Align::Left),
        ("in", Align::Left),
    ]);
    for model in models {
        let number = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
        table.row([
            model.id.clone(),
            Bytes::new(model.size_bytes).to_string(),
            number(model.n_layers),
            number(model.context_max),
            match (&model.quantisation, &model.obstacle) {
                (_, Some(obstacle)) => format!("cannot be run: {obstacle}"),
                (quantisation, None) => quantisation.clone().unwrap_or_default(),
            },
            model.source.clone(),
        ]);
    }
    table.rendered("")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn model(id: &str, obstacle: Option<&str>) -> ModelView {
        let known = obstacle.is_none();
        ModelView {
            id: id.to_owned(),
            architecture: known.then(|| "llama".to_owned()),
            quantisation: known.then(|| "Q4_1".to_owned()),
            size_bytes: 94 << 20,
            n_layers: known.then_some(30),
            context_max: known.then_some(8192),
            source: "Hugging Face cache".to_owned(),
            obstacle: obstacle.map(str::to_owned),
            deployment_id: None,
        }
    }

    #[test]
    fn models_are_listed_with_what_keeps_them_from_running() {
        let models = [model("org/tiny", None), model("org/other", Some("the engine has no architecture `mamba`"))];
        expect![[r"
            model          size  layers  context  weights                                                in
            org/tiny   94.0 MiB      30     8192  Q4_1                                                   Hugging Face cache
            org/other  94.0 MiB                   cannot be run: the engine has no architecture `mamba`  Hugging Face cache
        "]]
        .assert_eq(&rendered(&models));
        assert!(rendered(&[]).contains("macrame pull"));
    }
}
