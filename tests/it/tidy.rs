//! Tidiness: who may use whom, what a source file looks like, what lies where.
//!
//! Each rule is a function from text to complaints, tried on bad samples too; the tests below feed it the repository.

mod graph;
mod sources;
mod tree;

use std::path::Path;
use std::process::Command;

use cargo_metadata::{Metadata, MetadataCommand};
use xtask::places;

#[test]
fn dependencies_point_only_where_the_architecture_says() {
    assert_none(graph::complaints(&graph::packages(&metadata())));
}

#[test]
fn every_crate_takes_the_workspace_lints() {
    let manifests = files(".toml").into_iter().filter(|(path, _)| path.ends_with("/Cargo.toml"));
    assert_none(manifests.flat_map(|(path, text)| tree::manifest_complaints(&path, &text)).collect());
}

#[test]
fn source_files_keep_the_house_rules() {
    assert_none(files(".rs").iter().flat_map(|(path, text)| sources::complaints(path, text)).collect());
}

#[test]
fn the_top_level_is_what_the_architecture_lists() {
    assert_none(tree::top_level_complaints(&tracked()));
}

fn metadata() -> Metadata {
    let mut command = MetadataCommand::new();
    command.manifest_path(places::repository().join("Cargo.toml")).no_deps();
    command.exec().expect("cargo reads its own workspace")
}

/// Paths of all files that git has or would take, with forward slashes, relative to the repository.
fn tracked() -> Vec<String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(places::repository());
    let output = git.output().expect("git is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).expect("paths are UTF-8");
    listed.split_terminator('\0').map(str::to_owned).collect()
}

/// Those of [`tracked`] with that ending that are there, with their text.
fn files(ending: &str) -> Vec<(String, String)> {
    let read = |path: String| {
        std::fs::read_to_string(places::repository().join(Path::new(&path))).ok().map(|text| (path, text))
    };
    let files: Vec<_> = tracked().into_iter().filter(|path| path.ends_with(ending)).filter_map(read).collect();
    assert!(files.len() > 10, "only {} files end with `{ending}`: the rules were applied to nothing", files.len());
    files
}

#[track_caller]
fn assert_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}
