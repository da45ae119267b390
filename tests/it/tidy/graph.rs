//! The dependency table of the architecture: edges among our crates, and which of them may hold which outside crate.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata};

/// What each of our crates may use of the others. One that is not listed here may not exist.
const MAY_USE: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("planner", &["domain"]),
    ("control", &["domain", "planner"]),
    ("transport", &["domain"]),
    ("store", &["domain"]),
    ("engine", &["domain", "transport"]),
    ("engine-candle", &["domain", "engine", "transport"]),
    ("node", &["control", "domain", "engine", "engine-candle", "planner", "store", "transport"]),
    // `engine` for the values of a request: what a node generates from is what a rank is told.
    ("api", &["domain", "engine", "node"]),
    ("cli", &["api", "domain", "node"]),
    ("macrame-app", &["api", "node"]),
    ("xtask", &[]),
];

/// Tests look at everything.
const UNBOUND: &str = "scenarios";

/// An outside crate, by name or by `prefix*`, and the only crates that may hold it.
const HELD_BY: &[(&str, &[&str])] = &[
    ("candle-*", &["engine-candle"]),
    ("tokenizers", &["engine-candle"]),
    ("minijinja*", &["engine-candle"]),
    ("memmap2", &["engine-candle"]),
    ("ibverbs", &["transport"]),
    ("hf-hub", &["store"]),
    // The internet is the store's; the command line asks the node on its own machine.
    ("reqwest", &["store", "cli"]),
    ("quinn", &["node"]),
    ("mdns-sd", &["node"]),
    ("spake2", &["node"]),
    ("sysinfo", &["node"]),
    ("rusqlite", &["node"]),
    ("axum*", &["api"]),
    ("ts-rs", &["api"]),
    ("rust-embed", &["api"]),
    ("clap*", &["cli"]),
    ("tauri*", &["macrame-app"]),
    // The data plane is synchronous.
    ("tokio*", &["store", "node", "api", "cli", "macrame-app"]),
];

/// Crates without effects, and all that they may use from outside: nothing there has a clock, a file, a socket or chance.
const PURE: &[&str] = &["domain", "planner", "control"];
const PURE_MAY_USE: &[&str] = &["serde", "serde_json", "thiserror"];

/// What `xtask` may use: it must build before anything is installed.
const XTASK_MAY_USE: &[&str] = &["anyhow", "serde_json"];

/// What the product is built on, each held directly by one crate at least.
const FOUNDATIONS: &[&str] = &[
    "axum",
    "candle-core",
    "candle-nn",
    "candle-transformers",
    "hf-hub",
    "ibverbs",
    "mdns-sd",
    "sysinfo",
    "tauri",
    "tokenizers",
];

/// The crates of the workspace with the names of what they need to be built; what only their tests need is left out.
pub type Packages = BTreeMap<String, BTreeSet<String>>;

pub fn packages(metadata: &Metadata) -> Packages {
    let needs = |package: &cargo_metadata::Package| {
        let built_with =
            package.dependencies.iter().filter(|dependency| dependency.kind != DependencyKind::Development);
        built_with.map(|dependency| dependency.name.clone()).collect()
    };
    metadata.workspace_packages().into_iter().map(|package| (package.name.to_string(), needs(package))).collect()
}

pub fn complaints(packages: &Packages) -> Vec<String> {
    let bound = packages.iter().filter(|(name, _)| *name != UNBOUND);
    let edges = bound.flat_map(|(name, needs)| needs.iter().map(move |need| (name.as_str(), need.as_str())));
    let mut out: Vec<String> = edges.filter_map(|(name, need)| edge_complaint(packages, name, need)).collect();
    for name in packages.keys().filter(|name| *name != UNBOUND && allowed(name).is_none()) {
        out.push(format!("`{name}` is not in the architecture's table"));
    }
    for foundation in FOUNDATIONS {
        if !packages.values().any(|needs| needs.contains(*foundation)) {
            out.push(format!("no crate uses `{foundation}`"));
        }
    }
    out
}

fn edge_complaint(packages: &Packages, name: &str, need: &str) -> Option<String> {
    if packages.contains_key(need) {
        let fine = allowed(name).is_some_and(|allowed| allowed.contains(&need));
        return (!fine).then(|| format!("`{name}` may not use `{need}`"));
    }
    if PURE.contains(&name) && !PURE_MAY_USE.contains(&need) {
        return Some(format!("`{name}` is pure and may not use `{need}`"));
    }
    if name == "xtask" && !XTASK_MAY_USE.contains(&need) {
        return Some(format!("`xtask` must build before anything is installed, and may not use `{need}`"));
    }
    let (_, holders) = HELD_BY.iter().find(|(pattern, _)| matches(pattern, need))?;
    (!holders.contains(&name)).then(|| format!("`{need}` belongs in {}, not in `{name}`", holders.join(", ")))
}

fn allowed(name: &str) -> Option<&'static [&'static str]> {
    MAY_USE.iter().find(|(known, _)| *known == name).map(|(_, allowed)| *allowed)
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace that has its foundations, and these edges.
    fn workspace(edges: &[(&str, &str)]) -> Packages {
        let mut packages: Packages = MAY_USE.iter().map(|(name, _)| ((*name).to_owned(), BTreeSet::new())).collect();
        packages.insert(UNBOUND.to_owned(), FOUNDATIONS.iter().map(|name| (*name).to_owned()).collect());
        for (name, need) in edges {
            packages.entry((*name).to_owned()).or_default().insert((*need).to_owned());
        }
        packages
    }

    #[test]
    fn the_edges_of_the_table_pass() {
        let edges: Vec<(&str, &str)> =
            MAY_USE.iter().flat_map(|(name, needs)| needs.iter().map(|need| (*name, *need))).collect();
        assert_eq!(complaints(&workspace(&edges)), Vec::<String>::new());
        assert_eq!(
            complaints(&workspace(&[("node", "quinn"), ("node", "rand"), (UNBOUND, "engine")])),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_new_edge_is_a_complaint() {
        let of = |name, need| complaints(&workspace(&[(name, need)]));
        assert_eq!(of("engine", "control"), ["`engine` may not use `control`"]);
        assert_eq!(of("domain", "planner"), ["`domain` may not use `planner`"]);
        assert_eq!(of("node", "candle-core"), ["`candle-core` belongs in engine-candle, not in `node`"]);
        assert_eq!(of("transport", "tokio-util").len(), 1);
        assert_eq!(of("control", "rand"), ["`control` is pure and may not use `rand`"]);
        assert_eq!(of("xtask", "tokio").len(), 1);
    }

    #[test]
    fn a_crate_outside_the_table_and_a_lost_foundation_are_complaints() {
        assert_eq!(complaints(&workspace(&[("glue", "domain")])).len(), 2);
        let mut packages = workspace(&[]);
        packages.insert(UNBOUND.to_owned(), BTreeSet::new());
        assert_eq!(complaints(&packages).len(), FOUNDATIONS.len());
    }
}
