//! One node of a local cluster, spoken to through the command line as a person would.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::POLL;
use crate::cluster_view::ClusterView;
use crate::command::run_quietly;

/// A node drains at its end: it tells the others and ends its ranks. Longer than its own deadline for that.
const STOP_MAX: Duration = Duration::from_secs(15);

pub struct LocalNode {
    name: String,
    macrame: PathBuf,
    home: PathBuf,
    child: Child,
    api: OnceCell<Api>,
    id: OnceCell<String>,
}

/// What a running node writes into its home.
struct Api {
    url: String,
    token: String,
}

impl LocalNode {
    /// Starts `macrame serve`, or the app, with a home called after its name.
    pub(super) fn spawn(
        macrame: &Path,
        app: Option<&Path>,
        homes: &Path,
        name: &str,
        models_dir: &Path,
    ) -> Result<Self> {
        let home = homes.join(name);
        fs::create_dir_all(&home).with_context(|| format!("cannot create `{}`", home.display()))?;
        // Of an earlier run that was killed: its address would be taken for this one's.
        let _ = fs::remove_file(home.join("api.json"));
        let mut command = match app {
            Some(app) => {
                let mut command = Command::new(app);
                command.arg("--show");
                command
            }
            None => {
                let mut command = Command::new(macrame);
                command.arg("serve");
                command
            }
        };
        command.arg("--home").arg(&home).args(["--name", name, "--port", "0", "--discovery", "loopback"]);
        command.arg("--models-dir").arg(models_dir).arg("--parent-stdin");
        let log = File::create(home.join("terminal.log")).context("cannot create the node's terminal log")?;
        let child = command
            .stdin(Stdio::piped())
            .stdout(log.try_clone().context("cannot share the node's terminal log")?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start node `{name}`"))?;
        let (api, id) = (OnceCell::new(), OnceCell::new());
        Ok(Self { name: name.to_owned(), macrame: macrame.to_owned(), home, child, api, id })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Of the node's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Base address of its API, `http://127.0.0.1:4747`.
    pub fn url(&self) -> Result<&str> {
        self.api().map(|api| api.url.as_str())
    }

    pub fn token(&self) -> Result<&str> {
        self.api().map(|api| api.token.as_str())
    }

    /// The address that opens its UI in a browser.
    pub fn ui_url(&self) -> Result<String> {
        let api = self.api()?;
        Ok(format!("{}/#token={}", api.url.trim_end_matches('/'), api.token))
    }

    /// The node's id, as the API writes it.
    pub fn id(&self) -> Result<&str> {
        if let Some(id) = self.id.get() {
            return Ok(id);
        }
        let id = self.view()?.self_id()?.to_owned();
        Ok(self.id.get_or_init(|| id))
    }

    /// How this node sees the cluster now.
    pub fn view(&self) -> Result<ClusterView> {
        ClusterView::parse(&run_quietly(self.cli("status").arg("--json"))?)
    }

    /// `macrame SUBCOMMAND`, aimed at this node.
    pub fn cli(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.macrame);
        command.args(subcommand.split_whitespace()).arg("--home").arg(&self.home);
        command
    }

    /// Deploys a model over `n_ranks` nodes and waits until it is served.
    pub fn deploy(&self, model: &str, n_ranks: usize) -> Result<()> {
        if self.view()?.serves(model, n_ranks) {
            return Ok(());
        }
        let mut deploy = self.cli("deploy");
        deploy.args([model, "--wait"]);
        if n_ranks > 1 {
            deploy.arg("--spread");
        }
        run_quietly(&mut deploy).map(drop)
    }

    pub(super) fn show_code(&self) -> Result<String> {
        let said = run_quietly(self.cli("pair").args(["--show", "--json"]))?;
        let said: Value = serde_json::from_str(&said).with_context(|| format!("not JSON: `{said}`"))?;
        Ok(said["code"].as_str().context("`macrame pair --show --json` printed no `code`")?.to_owned())
    }

    pub(super) fn type_code(&self, code: &str, id: &str) -> Result<()> {
        run_quietly(self.cli("pair").args(["--code", code, "--node", id])).map(drop)
    }

    pub(super) fn wait_for_api(&mut self, deadline: Instant) -> Result<()> {
        while self.read_api().is_err() {
            if let Some(status) = self.child.try_wait().context("cannot ask after the node")? {
                bail!("node `{}` ended at its start with {status}:\n{}", self.name, self.last_words());
            }
            if Instant::now() >= deadline {
                bail!("node `{}` has no API yet:\n{}", self.name, self.last_words());
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn api(&self) -> Result<&Api> {
        if let Some(api) = self.api.get() {
            return Ok(api);
        }
        let api = self.read_api()?;
        Ok(self.api.get_or_init(|| api))
    }

    fn read_api(&self) -> Result<Api> {
        let file = self.home.join("api.json");
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
        let api: Value = serde_json::from_str(&text).with_context(|| format!("`{}` is not JSON", file.display()))?;
        let text = |key: &str| api[key].as_str().with_context(|| format!("`{}` has no `{key}`", file.display()));
        Ok(Api { url: text("url")?.to_owned(), token: text("token")?.to_owned() })
    }

    /// What the node last wrote to its terminal.
    fn last_words(&self) -> String {
        const BYTES_MAX: usize = 4000;
        let log = fs::read_to_string(self.home.join("terminal.log")).unwrap_or_default();
        let from = log.len().saturating_sub(BYTES_MAX);
        log.get(from..).unwrap_or(&log).trim_end().to_owned()
    }

    /// Closes its standard input, which tells it to drain and end.
    pub fn begin_stop(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits for its end, and ends it by force if it does not come.
    pub fn wait_for_stop(&mut self) -> Result<()> {
        let deadline = Instant::now() + STOP_MAX;
        loop {
            match self.child.try_wait().context("cannot ask after the node")? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("node `{}` ended with {status}:\n{}", self.name, self.last_words()),
                None if Instant::now() < deadline => thread::sleep(POLL),
                None => break,
            }
        }
        self.kill();
        bail!("node `{}` had not ended {STOP_MAX:?} after it was told to:\n{}", self.name, self.last_words())
    }

    /// Waits until it ends by itself: quit from its menu, or stopped by a signal.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        // `Child::wait` would close its standard input, which is what keeps it running.
        loop {
            if let Some(status) = self.child.try_wait().context("cannot ask after the node")? {
                return Ok(status);
            }
            thread::sleep(POLL);
        }
    }

    /// Ends the process at once, as a crash would.
    pub fn kill(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for LocalNode {
    fn drop(&mut self) {
        self.begin_stop();
        let _ = self.wait_for_stop();
    }
}
