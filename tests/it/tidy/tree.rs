//! What lies at the top of the repository, and what each crate's manifest must say.

use std::collections::BTreeSet;

/// The top level, without what is hidden: the architecture's list and the lock file.
const TOP_LEVEL: &[&str] =
    &["Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "assets", "crates", "src-tauri", "tests", "ui"];

pub fn top_level_complaints(paths: &[String]) -> Vec<String> {
    let tops: BTreeSet<&str> = paths.iter().filter_map(|path| path.split('/').next()).collect();
    let shown: BTreeSet<&str> = tops.into_iter().filter(|name| !name.starts_with('.')).collect();
    let listed: BTreeSet<&str> = TOP_LEVEL.iter().copied().collect();
    let unlisted = shown.difference(&listed).map(|name| format!("`{name}` is not on the list of the top level"));
    let absent = listed.difference(&shown).map(|name| format!("`{name}` is missing at the top level"));
    unlisted.chain(absent).collect()
}

pub fn manifest_complaints(path: &str, text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if !text.contains("[lints]\nworkspace = true\n") {
        out.push(format!("{path}: does not take the workspace's lints: `[lints]`, `workspace = true`"));
    }
    let mut is_table_of_dependencies = false;
    for (idx, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            is_table_of_dependencies = line.ends_with("dependencies]");
        } else if is_table_of_dependencies && line.contains(" = ") && !line.contains("workspace = true") {
            out.push(format!("{path}:{}: `{line}` has a version of its own: say `name.workspace = true`", idx + 1));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_level_is_exact() {
        let mut paths: Vec<String> = TOP_LEVEL.iter().map(|name| format!("{name}/x")).collect();
        paths.push(".ci/run".to_owned());
        assert_eq!(top_level_complaints(&paths), Vec::<String>::new());
        paths.push("scripts/deploy.sh".to_owned());
        paths.retain(|path| !path.starts_with("README.md"));
        let said = top_level_complaints(&paths);
        assert_eq!(said, ["`scripts` is not on the list of the top level", "`README.md` is missing at the top level"]);
    }

    #[test]
    fn a_manifest_takes_lints_and_versions_from_the_workspace() {
        let good = "[package]\nname = \"x\"\n\n[lints]\nworkspace = true\n\n[dependencies]\nserde.workspace = true\nrand = { workspace = true }\n";
        assert_eq!(manifest_complaints("x/Cargo.toml", good), Vec::<String>::new());
        let bad = "[package]\nname = \"x\"\n\n[dev-dependencies]\nserde = \"1\"\n";
        assert_eq!(manifest_complaints("x/Cargo.toml", bad).len(), 2);
    }
}
