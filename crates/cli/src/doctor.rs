//! `macrame doctor`: looks at everything that keeps a machine from working well, and says what to do about it.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use domain::{Bytes, NodeFacts, RdmaFacts};
use node::{API_PORT_DEFAULT, Survey, SurveyOptions};
use serde::Serialize;

use crate::client::Client;
use crate::flags::ModelsFolder;
use crate::models::{models_dir, on_disk};
use crate::terminal::{self, Format};

/// Less than this and no model of use fits beside the system.
const MEMORY_MIN: Bytes = Bytes::from_gib(2);

/// Less than this and no model of use can be downloaded.
const DISK_MIN: Bytes = Bytes::from_gib(5);

/// Where mDNS speaks.
const MDNS_GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 251);

/// One thing looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Check {
    what: &'static str,
    finding: Finding,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "state")]
enum Finding {
    Good {
        text: String,
    },
    /// Works, but could be better or is worth knowing.
    Note {
        text: String,
    },
    Problem {
        text: String,
        fix: String,
    },
}

pub async fn doctor(home: &Path, folder: ModelsFolder, format: Format) -> Result<ExitCode> {
    let models_dir = models_dir(home, folder).await?;
    let client = Client::connect(home);
    let facts = Survey::new(SurveyOptions { models_dir: models_dir.clone(), memory_limit: None });
    let facts = facts.facts("this machine", Vec::new()).await;
    let mut checks = vec![
        home_rights(home),
        running(&client),
        api_port(&client),
        multicast(),
        memory(&facts),
        disk(&facts),
        rdma(&facts),
    ];
    checks.push(models(&models_dir).await);
    if let Ok(client) = &client {
        checks.extend(warnings(client).await?);
    }
    match format {
        Format::Json => terminal::json(&checks)?,
        Format::People => terminal::write(&rendered(&checks))?,
    }
    let is_problem = |check: &Check| matches!(check.finding, Finding::Problem { .. });
    Ok(if checks.iter().any(is_problem) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn good(text: impl Into<String>) -> Finding {
    Finding::Good { text: text.into() }
}

fn note(text: impl Into<String>) -> Finding {
    Finding::Note { text: text.into() }
}

fn problem(text: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding::Problem { text: text.into(), fix: fix.into() }
}

fn home_rights(home: &Path) -> Check {
    let shown = home.display();
    let finding = match std::fs::metadata(home) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            note(format!("{shown} is made at the first start"))
        }
        Err(error) => problem(format!("{shown} cannot be read: {error}"), format!("see that {shown} is yours")),
        Ok(found) => match found.permissions().mode() & 0o777 {
            mode if mode & 0o077 == 0 => good(format!("{shown}, readable by you alone")),
            mode => problem(
                format!("{shown} holds keys and chats, and others may read it (mode {mode:03o})"),
                format!("chmod 700 '{shown}'"),
            ),
        },
    };
    Check { what: "folder", finding }
}

fn running(client: &Result<Client>) -> Check {
    let finding = match client {
        Ok(client) => good(format!("runs, at {}", client.url())),
        Err(error) => note(format!("{error}; start one with `macrame serve`")),
    };
    Check { what: "node", finding }
}

fn api_port(client: &Result<Client>) -> Check {
    let finding = match (client, TcpListener::bind((Ipv4Addr::LOCALHOST, API_PORT_DEFAULT))) {
        (Ok(_), _) => good("the node has its port"),
        (Err(_), Ok(_)) => good(format!("{API_PORT_DEFAULT} is free")),
        (Err(_), Err(error)) => note(format!("{API_PORT_DEFAULT} is taken ({error}); the next free port is used")),
    };
    Check { what: "API port", finding }
}

/// Whether this machine may speak to others of its network at all. On a Mac without the permission, sending fails.
fn multicast() -> Check {
    let tried = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.join_multicast_v4(&MDNS_GROUP, &Ipv4Addr::UNSPECIFIED)?;
        // Not a query: an empty datagram, which every listener drops.
        socket.send_to(&[], (MDNS_GROUP, 5353)).map(drop)
    });
    let finding = match tried {
        Ok(()) => good("multicast to the local network works"),
        Err(error) => problem(
            format!("multicast to the local network fails ({error}), so nodes cannot find each other"),
            "connect to a network; on a Mac, allow Macramé under System Settings › Privacy & Security › Local Network; \
             or pair by address with `macrame pair --code … --address HOST:PORT`",
        ),
    };
    Check { what: "discovery", finding }
}

fn memory(facts: &NodeFacts) -> Check {
    let finding = match facts.memory.value() {
        None => problem(
            "this machine's memory cannot be measured",
            "report this with the output of `macrame doctor --json`",
        ),
        Some(memory) if memory.usable < MEMORY_MIN => problem(
            format!("{} of {} usable, too little for most models", memory.usable, memory.total),
            format!("close programs: others hold {}", memory.used_by_others),
        ),
        Some(memory) => good(format!("{} of {} usable", memory.usable, memory.total)),
    };
    Check { what: "memory", finding }
}

fn disk(facts: &NodeFacts) -> Check {
    let finding = match facts.disk_free.value() {
        None => note("the free space of the models' disk is unknown"),
        Some(&free) if free < DISK_MIN => problem(
            format!("{free} free for models"),
            "delete models with `macrame models remove`, or choose another disk with `--models-dir`",
        ),
        Some(free) => good(format!("{free} free for models")),
    };
    Check { what: "disk", finding }
}

fn rdma(facts: &NodeFacts) -> Check {
    let finding = match facts.rdma.value() {
        None => note("unknown"),
        Some(RdmaFacts::NoLibrary) => note("no verbs library; links run over TCP"),
        Some(RdmaFacts::Devices(devices)) if devices.is_empty() => {
            note("the library is there but no device; links run over TCP")
        }
        Some(RdmaFacts::Devices(devices)) => good(devices.join(", ")),
    };
    Check { what: "RDMA", finding }
}

async fn models(models_dir: &Path) -> Check {
    let finding = match on_disk(models_dir).await {
        Err(error) => problem(format!("{error:#}"), format!("see that `{}` is yours to read", models_dir.display())),
        Ok(models) => match models.iter().filter(|model| model.obstacle.is_none()).count() {
            0 => note(format!("none in {}; download one with `macrame pull MODEL`", models_dir.display())),
            n => good(format!("{n} that can be run, in {}", models_dir.display())),
        },
    };
    Check { what: "models", finding }
}

/// What the running node says of the cluster.
async fn warnings(client: &Client) -> Result<Vec<Check>> {
    let view = client.view().await?;
    let checks = view.warnings.into_iter().map(|warning| {
        let finding = match warning.severity {
            api::wire::Severity::Note => note(warning.text),
            api::wire::Severity::Warning | api::wire::Severity::Problem => problem(warning.text, warning.fix),
        };
        Check { what: "cluster", finding }
    });
    Ok(checks.collect())
}

fn rendered(checks: &[Check]) -> String {
    let mut text = String::new();
    for Check { what, finding } in checks {
        text += &match finding {
            Finding::Good { text } => format!("ok       {what}: {text}\n"),
            Finding::Note { text } => format!("note     {what}: {text}\n"),
            Finding::Problem { text, fix } => format!("problem  {what}: {text}\n         try: {fix}\n"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use domain::{Fact, Memory, Timestamp};
    use expect_test::expect;

    use super::*;

    fn facts(usable: Bytes) -> NodeFacts {
        let memory = Memory { total: Bytes::from_gib(16), used_by_others: Bytes::from_gib(15), usable };
        NodeFacts {
            memory: Fact::known(memory, Timestamp(0)),
            rdma: Fact::known(RdmaFacts::NoLibrary, Timestamp(0)),
            ..NodeFacts::named("mini")
        }
    }

    #[test]
    fn each_finding_says_what_to_do() {
        let (rich, poor) = (facts(Bytes::from_gib(12)), facts(Bytes::from_gib(1)));
        let checks = [memory(&rich), memory(&poor), disk(&rich), rdma(&rich)];
        expect![[r"
            ok       memory: 12.0 GiB of 16.0 GiB usable
            problem  memory: 1.0 GiB of 16.0 GiB usable, too little for most models
                     try: close programs: others hold 15.0 GiB
            note     disk: the free space of the models' disk is unknown
            note     RDMA: no verbs library; links run over TCP
        "]]
        .assert_eq(&rendered(&checks));
    }

    #[test]
    fn a_folder_that_others_may_read_is_a_problem() {
        let home = tempfile::tempdir().expect("a folder");
        let with_mode = |mode| {
            std::fs::set_permissions(home.path(), PermissionsExt::from_mode(mode)).expect("ours");
            home_rights(home.path()).finding
        };
        assert!(matches!(with_mode(0o700), Finding::Good { .. }));
        let Finding::Problem { fix, .. } = with_mode(0o755) else { panic!("others may read it") };
        assert!(fix.starts_with("chmod 700"), "{fix}");
        assert!(matches!(home_rights(&home.path().join("none")).finding, Finding::Note { .. }));
    }
}
