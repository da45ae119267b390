//! The menu of the tray icon as a value: a pure function of what is known of the cluster.

use crate::summary::{ModelLine, NodeLine, Presence, Stage, Summary, WarningLine, Weight};

/// Longer texts make a menu as wide as a screen; what is cut off can be read in the window.
const CHARS_MAX: usize = 70;

/// Rows of each kind: a menu is looked at, not read. What is left out is counted.
const ROWS_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Menu {
    pub icon: Icon,
    pub tooltip: String,
    pub rows: Vec<Row>,
}

/// Most urgent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Icon {
    Idle,
    /// A model is on its way.
    Busy,
    Problem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// To be read only.
    Text(String),
    Choice {
        label: String,
        action: Action,
    },
    /// Opens to its rows.
    Group {
        label: String,
        rows: Vec<Row>,
    },
    Separator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    OpenWindow,
    CopyApiAddress,
    Quit,
}

impl Action {
    const ALL: [Self; 3] = [Self::OpenWindow, Self::CopyApiAddress, Self::Quit];

    /// By which the system says what was chosen.
    pub const fn id(self) -> &'static str {
        match self {
            Self::OpenWindow => "open-window",
            Self::CopyApiAddress => "copy-api-address",
            Self::Quit => "quit",
        }
    }

    pub fn of_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.id() == id)
    }
}

pub fn menu(summary: &Summary) -> Menu {
    let mut rows = vec![choice("Open Macramé", Action::OpenWindow), Row::Separator];
    rows.extend(limited(&summary.nodes, node_row));
    rows.push(Row::Separator);
    rows.extend(limited(&summary.models, model_row));
    if summary.models.is_empty() {
        rows.push(Row::Text("No model is running".to_owned()));
    }
    if !summary.warnings.is_empty() {
        rows.push(Row::Separator);
        rows.extend(limited(&summary.warnings, warning_row));
    }
    rows.push(Row::Separator);
    rows.push(choice("Copy API Address", Action::CopyApiAddress));
    rows.push(choice("Quit Macramé", Action::Quit));
    Menu { icon: icon(summary), tooltip: tooltip(summary), rows }
}

fn icon(summary: &Summary) -> Icon {
    let failed = summary.models.iter().any(|model| model.stage == Stage::Failed);
    let coming = summary.n_downloads > 0 || summary.models.iter().any(|model| model.stage == Stage::Coming);
    if failed || summary.warnings.iter().any(|warning| warning.weight == Weight::Problem) {
        Icon::Problem
    } else if coming {
        Icon::Busy
    } else {
        Icon::Idle
    }
}

fn tooltip(summary: &Summary) -> String {
    let n_here = summary.nodes.iter().filter(|node| node.presence == Presence::Here).count();
    let n_serving = summary.models.iter().filter(|model| model.stage == Stage::Serving).count();
    format!("Macramé: {}, {}", counted(n_here, "node"), counted(n_serving, "model"))
}

fn node_row(node: &NodeLine) -> Row {
    let state = match (node.presence, &node.memory) {
        (Presence::Here, Some(memory)) => memory.as_str(),
        (Presence::Here, None) => "memory not known yet",
        (Presence::Silent, _) => "does not answer",
        (Presence::Away, _) => "away",
    };
    Row::Text(shortened(&format!("{}: {state}", node.name)))
}

fn model_row(model: &ModelLine) -> Row {
    let state = match model.stage {
        Stage::Coming => "on its way".to_owned(),
        Stage::Serving => format!("on {}", counted(model.n_nodes, "node")),
        Stage::Failed => "failed".to_owned(),
    };
    // The owner of the repository is of no use here, and makes the name too long.
    let name = model.model.rsplit('/').next().unwrap_or(&model.model);
    Row::Text(shortened(&format!("{name}: {state}")))
}

fn warning_row(warning: &WarningLine) -> Row {
    let mark = match warning.weight {
        Weight::Note => "",
        Weight::Warning | Weight::Problem => "⚠ ",
    };
    let label = shortened(&format!("{mark}{}", warning.text));
    Row::Group { label, rows: vec![Row::Text(shortened(&warning.fix)), choice("Show…", Action::OpenWindow)] }
}

/// A row for each of the first [`ROWS_MAX`], and how many more there are.
fn limited<T>(lines: &[T], row: impl Fn(&T) -> Row) -> Vec<Row> {
    let mut rows: Vec<Row> = lines.iter().take(ROWS_MAX).map(row).collect();
    if lines.len() > ROWS_MAX {
        rows.push(Row::Text(format!("and {} more", lines.len() - ROWS_MAX)));
    }
    rows
}

fn choice(label: &str, action: Action) -> Row {
    Row::Choice { label: label.to_owned(), action }
}

fn counted(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= CHARS_MAX {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(CHARS_MAX - 1).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[test]
    fn a_lone_node_without_a_model() {
        let summary = Summary { nodes: vec![node("studio", Presence::Here)], ..Summary::default() };
        check(
            &summary,
            expect![[r#"
                Idle, Macramé: 1 node, 0 models
                [Open Macramé]
                ---
                studio: 12.0 GiB of 48.0 GiB for models
                ---
                No model is running
                ---
                [Copy API Address]
                [Quit Macramé]
            "#]],
        );
    }

    #[test]
    fn a_cluster_that_serves_while_one_node_is_away() {
        let summary = Summary {
            nodes: vec![node("studio", Presence::Here), node("mini", Presence::Silent), node("laptop", Presence::Away)],
            models: vec![
                model("HuggingFaceTB/SmolLM2-135M-Instruct", Stage::Serving),
                model("org/next", Stage::Coming),
            ],
            warnings: vec![warning(Weight::Warning)],
            n_downloads: 0,
        };
        check(
            &summary,
            expect![[r#"
                Busy, Macramé: 1 node, 1 model
                [Open Macramé]
                ---
                studio: 12.0 GiB of 48.0 GiB for models
                mini: does not answer
                laptop: away
                ---
                SmolLM2-135M-Instruct: on 2 nodes
                next: on its way
                ---
                ⚠ `mini` holds layers of `m` and does not answer >
                  wake `mini` or stop `m`
                  [Show…]
                ---
                [Copy API Address]
                [Quit Macramé]
            "#]],
        );
    }

    #[test]
    fn the_icon_shows_the_worst() {
        let with = |models: Vec<ModelLine>, warnings: Vec<WarningLine>, n_downloads| {
            icon(&Summary { nodes: Vec::new(), models, warnings, n_downloads })
        };
        assert_eq!(with(vec![model("m", Stage::Serving)], vec![warning(Weight::Warning)], 0), Icon::Idle);
        assert_eq!(with(Vec::new(), Vec::new(), 1), Icon::Busy);
        assert_eq!(with(vec![model("m", Stage::Coming)], vec![warning(Weight::Problem)], 0), Icon::Problem);
        assert_eq!(with(vec![model("m", Stage::Failed)], Vec::new(), 1), Icon::Problem);
    }

    #[test]
    fn a_large_cluster_and_long_texts_stay_a_menu() {
        let mut summary = Summary { nodes: vec![node(&"n".repeat(200), Presence::Here); 20], ..Summary::default() };
        summary.nodes[0].memory = None;
        let texts: Vec<String> = menu(&summary).rows.iter().map(|row| rendered(row, "")).collect();
        assert_eq!(texts.iter().filter(|text| text.starts_with("nnn")).count(), ROWS_MAX);
        assert!(texts.contains(&"and 12 more\n".to_owned()));
        assert!(texts.iter().all(|text| text.trim_end().chars().count() <= CHARS_MAX), "{texts:?}");
    }

    #[test]
    fn every_action_is_found_by_its_id() {
        for action in Action::ALL {
            assert_eq!(Action::of_id(action.id()), Some(action));
        }
        assert_eq!(Action::of_id("reboot"), None);
    }

    fn check(summary: &Summary, wanted: Expect) {
        let menu = menu(summary);
        let rows: String = menu.rows.iter().map(|row| rendered(row, "")).collect();
        wanted.assert_eq(&format!("{:?}, {}\n{rows}", menu.icon, menu.tooltip));
    }

    fn rendered(row: &Row, indent: &str) -> String {
        match row {
            Row::Text(text) => format!("{indent}{text}\n"),
            Row::Choice { label, .. } => format!("{indent}[{label}]\n"),
            Row::Group { label, rows } => {
                let inner: String = rows.iter().map(|row| rendered(row, "  ")).collect();
                format!("{indent}{label} >\n{inner}")
            }
            Row::Separator => format!("{indent}---\n"),
        }
    }

    fn node(name: &str, presence: Presence) -> NodeLine {
        NodeLine { name: name.to_owned(), presence, memory: Some("12.0 GiB of 48.0 GiB for models".to_owned()) }
    }

    fn model(model: &str, stage: Stage) -> ModelLine {
        ModelLine { model: model.to_owned(), stage, n_nodes: 2 }
    }

    fn warning(weight: Weight) -> WarningLine {
        let text = "`mini` holds layers of `m` and does not answer".to_owned();
        WarningLine { text, fix: "wake `mini` or stop `m`".to_owned(), weight }
    }
}
