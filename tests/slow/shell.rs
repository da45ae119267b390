//! The real app in a real window: chats in it with a real model, and quits it.

mod desktop;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fantoccini::key::Key;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use xtask::command::run_quietly;
use xtask::{places, starter};

use desktop::Desktop;

/// For each step that waits: a window opens in seconds, but two cores may be busy with something else.
const PATIENCE: Duration = Duration::from_secs(60);

const POLL: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn the_app_chats_in_its_window_and_quits_cleanly() -> Result<()> {
    let starter = starter::fetched()?;
    let mut desktop = Desktop::start()?;
    let folder = tempfile::tempdir()?;
    let app = App::prepare(folder.path())?;

    let client = app.open(&mut desktop, &starter.models_dir).await?;
    let pid = app.wait_for_api()?;
    deploy(&app.home, &starter.model)?;
    chat(&client).await?;
    the_page_reaches_the_shell(&client).await?;

    desktop::terminate(pid);
    let status = app.wait_for_status()?;
    // The driver finds its window gone, which it may call an error.
    let _ = client.close().await;
    ensure!(status == "0", "the app ended with status {status}");
    ensure!(!app.home.join("api.json").exists(), "the app ended without taking its address back");
    let left = processes_that_name(&app.home)?;
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

/// The app's program behind a script, since the driver starts it and keeps its exit status to itself.
struct App {
    script: PathBuf,
    home: PathBuf,
    status: PathBuf,
    /// The app's standard input: as long as it is open, this test is alive.
    _alive: File,
}

impl App {
    fn prepare(folder: &Path) -> Result<Self> {
        let (script, home, status, pipe) =
            (folder.join("app.sh"), folder.join("home"), folder.join("status"), folder.join("alive"));
        run_quietly(Command::new("mkfifo").arg(&pipe))?;
        // For reading too, or opening it would wait for the app.
        let alive = OpenOptions::new().read(true).write(true).open(&pipe).context("cannot open the pipe")?;
        let program = places::built_program("macrame-app")?;
        let text = format!(
            "#!/bin/sh\n'{}' \"$@\" <'{}' &\nwait $!\necho $? >'{}'\n",
            program.display(),
            pipe.display(),
            status.display()
        );
        fs::write(&script, text)?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700))?;
        Ok(Self { script, home, status, _alive: alive })
    }

    async fn open(&self, desktop: &mut Desktop, models_dir: &Path) -> Result<Client> {
        let args = ["--show", "--parent-stdin", "--name", "studio", "--port", "0", "--discovery", "off"];
        let paths = [("--home", self.home.as_path()), ("--models-dir", models_dir)];
        let paths = paths.into_iter().flat_map(|(flag, path)| [flag.to_owned(), path.display().to_string()]);
        let args: Vec<String> = args.into_iter().map(str::to_owned).chain(paths).collect();
        let options = json!({ "browserName": "wry", "tauri:options": { "application": self.script, "args": args } });
        let Value::Object(capabilities) = options else { bail!("capabilities are an object") };

        let deadline = Instant::now() + PATIENCE;
        loop {
            desktop.check()?;
            let mut builder = ClientBuilder::new(HttpConnector::new());
            match builder.capabilities(capabilities.clone()).connect(&desktop.driver_url()).await {
                Ok(client) => return Ok(client),
                // The driver may not listen yet.
                Err(error) if Instant::now() >= deadline => return Err(error).context("no window was opened"),
                Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// Returns the app's process id once its API listens.
    fn wait_for_api(&self) -> Result<u32> {
        let text = wait_for_file(&self.home.join("api.json"))?;
        let api: Value = serde_json::from_str(&text).context("`api.json` is not JSON")?;
        let pid = api["pid"].as_u64().context("`api.json` has no `pid`")?;
        u32::try_from(pid).context("`pid` is too large")
    }

    fn wait_for_status(&self) -> Result<String> {
        Ok(wait_for_file(&self.status)?.trim().to_owned())
    }
}

fn wait_for_file(path: &Path) -> Result<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match fs::read_to_string(path) {
            Ok(text) if !text.is_empty() => return Ok(text),
            Ok(_) | Err(_) if Instant::now() < deadline => std::thread::sleep(POLL),
            Ok(_) | Err(_) => bail!("`{}` was not there after {PATIENCE:?}", path.display()),
        }
    }
}

fn deploy(home: &Path, model: &str) -> Result<()> {
    let mut deploy = Command::new(places::built_program("macrame")?);
    deploy.args(["deploy", model, "--wait", "--home"]).arg(home);
    run_quietly(&mut deploy).map(drop)
}

async fn chat(client: &Client) -> Result<()> {
    let wait = || client.wait().at_most(PATIENCE);
    // The field takes a question once the page knows of the model.
    wait().for_element(Locator::Css("textarea[aria-label='Message'][placeholder='Ask anything']")).await?;
    let field = client.find(Locator::Css("textarea[aria-label='Message']")).await?;
    field.send_keys("Name three primary colours.").await?;
    field.send_keys(&Key::Enter.to_string()).await?;
    let facts = wait().for_element(Locator::Css("ul[aria-label='How this answer was made']")).await?;
    let answer = client.find(Locator::Css("article[aria-label='Answer'] .markdown")).await?.text().await?;
    let names_one = ["red", "blue", "yellow", "green"].iter().any(|colour| answer.to_lowercase().contains(colour));
    ensure!(names_one, "the answer names no colour: `{answer}`");
    let facts = facts.text().await?;
    ensure!(facts.contains("tokens/s"), "no speed under the answer: `{facts}`");
    Ok(())
}

/// The page may ask the shell for what it needs, and for nothing else.
async fn the_page_reaches_the_shell(client: &Client) -> Result<()> {
    const ASK: &str = "const [command, args, done] = arguments;
        window.__TAURI_INTERNALS__.invoke(command, args).then(
            (value) => done({ value }), (error) => done({ error: String(error) }));";
    let ask = async |command: &str, args: Value| client.execute_async(ASK, vec![json!(command), args]).await;
    let autostart = ask("autostart", json!({})).await?;
    ensure!(autostart["value"].is_boolean(), "`autostart` said {autostart}");
    let file = ask("reveal_folder", json!({ "path": "/bin/sh" })).await?;
    ensure!(
        file["error"].as_str().is_some_and(|error| error.contains("is not a folder")),
        "`reveal_folder` said {file}"
    );
    let denied = ask("plugin:opener|open_path", json!({ "path": "/bin/sh" })).await?;
    ensure!(denied["error"].is_string(), "the page may open any program: {denied}");
    Ok(())
}

fn processes_that_name(path: &Path) -> Result<Vec<String>> {
    let listed = run_quietly(Command::new("ps").args(["-eo", "pid,args"]))?;
    let name = path.display().to_string();
    Ok(listed.lines().filter(|line| line.contains(&name)).map(str::to_owned).collect())
}
