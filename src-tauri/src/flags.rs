//! The command line, of which people use nothing: the app is started by a click. Tests and `cargo xtask run` use it.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::quit::Parent;

#[derive(Debug)]
pub struct Flags {
    pub node: node::Flags,
    pub at_start: AtStart,
    pub parent: Parent,
}

/// What is shown when the app has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtStart {
    /// The icon in the menu bar alone, as after a login.
    Tray,
    Window,
}

impl Flags {
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut flags = Self { node: node::Flags::default(), at_start: AtStart::Tray, parent: Parent::None };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("`{arg}` needs a value"));
            match arg.as_str() {
                "--show" => flags.at_start = AtStart::Window,
                "--parent-stdin" => flags.parent = Parent::OnStdin,
                "--home" => flags.node.home = Some(PathBuf::from(value()?)),
                "--models-dir" => flags.node.models_dir = Some(PathBuf::from(value()?)),
                "--name" => flags.node.name = Some(value()?),
                "--port" => {
                    let text = value()?;
                    flags.node.port = Some(text.parse().with_context(|| format!("`{text}` is not a port"))?);
                }
                "--discovery" => flags.node.discovery = Some(value()?.parse()?),
                other => bail!("there is no flag `{other}`"),
            }
        }
        Ok(flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Flags> {
        Flags::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_click_gives_no_flags_and_gets_the_tray() {
        let flags = parsed("").unwrap();
        assert_eq!((flags.at_start, flags.parent), (AtStart::Tray, Parent::None));
        assert!(flags.node.home.is_none());
    }

    #[test]
    fn a_local_cluster_starts_the_app_like_a_node() {
        let flags = parsed("--show --home h --name studio --port 0 --discovery loopback --models-dir m --parent-stdin")
            .unwrap();
        assert_eq!((flags.at_start, flags.parent), (AtStart::Window, Parent::OnStdin));
        assert_eq!((flags.node.port, flags.node.discovery), (Some(0), Some(node::Discovery::Loopback)));
        assert_eq!(flags.node.name.as_deref(), Some("studio"));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        assert_eq!(parsed("--shwo").unwrap_err().to_string(), "there is no flag `--shwo`");
        assert_eq!(parsed("--port x").unwrap_err().to_string(), "`x` is not a port");
        assert_eq!(parsed("--home").unwrap_err().to_string(), "`--home` needs a value");
    }
}
