//! Where the hub and its cache are, by the variables that every program of the hub reads.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How to reach the hub.
#[derive(Clone, Debug)]
pub struct HubOptions {
    pub endpoint: String,
    pub token: Option<Token>,
    pub access: Access,
    /// Before the first new try after a broken connection; doubled each time.
    pub retry_pause: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Online,
    /// Use what is on disk and ask nobody.
    Offline,
}

impl HubOptions {
    /// `HF_ENDPOINT`, `HF_TOKEN` (or the file of `huggingface-cli login`) and `HF_HUB_OFFLINE`.
    pub fn from_env() -> Self {
        Self::from_vars(&|name| std::env::var_os(name))
    }

    fn from_vars(var: &Vars<'_>) -> Self {
        let endpoint = text(var, "HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned());
        let offline = text(var, "HF_HUB_OFFLINE").is_some_and(|value| is_on(&value));
        Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token: token(var),
            access: if offline { Access::Offline } else { Access::Online },
            retry_pause: Duration::from_secs(1),
        }
    }
}

/// A user's key to the hub; never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    pub fn new(token: String) -> Self {
        Self(token)
    }

    pub(crate) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The hub cache of this user: `HF_HUB_CACHE`, or `hub` in `HF_HOME`, or `~/.cache/huggingface/hub`.
pub fn default_cache_dir() -> PathBuf {
    cache_dir(&|name| std::env::var_os(name))
}

fn cache_dir(var: &Vars<'_>) -> PathBuf {
    path(var, "HF_HUB_CACHE").or_else(|| path(var, "HUGGINGFACE_HUB_CACHE")).unwrap_or_else(|| hf_home(var).join("hub"))
}

fn hf_home(var: &Vars<'_>) -> PathBuf {
    path(var, "HF_HOME")
        .or_else(|| path(var, "XDG_CACHE_HOME").map(|cache| cache.join("huggingface")))
        .unwrap_or_else(|| path(var, "HOME").unwrap_or_default().join(".cache/huggingface"))
}

fn token(var: &Vars<'_>) -> Option<Token> {
    if text(var, "HF_HUB_DISABLE_IMPLICIT_TOKEN").is_some_and(|value| is_on(&value)) {
        return None;
    }
    let file =
        || std::fs::read_to_string(path(var, "HF_TOKEN_PATH").unwrap_or_else(|| hf_home(var).join("token"))).ok();
    let token = text(var, "HF_TOKEN").or_else(file)?.trim().to_owned();
    (!token.is_empty()).then_some(Token(token))
}

/// How a variable is looked up: the environment, or a table in tests.
type Vars<'a> = dyn Fn(&str) -> Option<OsString> + 'a;

fn path(var: &Vars<'_>, name: &str) -> Option<PathBuf> {
    var(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn text(var: &Vars<'_>, name: &str) -> Option<String> {
    var(name).and_then(|value| value.into_string().ok()).filter(|value| !value.is_empty())
}

/// As the hub's own library reads a switch.
fn is_on(value: &str) -> bool {
    ["1", "ON", "YES", "TRUE"].contains(&value.to_ascii_uppercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars<'a>(table: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        move |name| table.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
    }

    #[test]
    fn the_cache_is_where_the_hubs_own_library_has_it() {
        let cases: [(&[(&str, &str)], &str); 5] = [
            (&[("HF_HUB_CACHE", "/a"), ("HF_HOME", "/b"), ("HOME", "/h")], "/a"),
            (&[("HF_HUB_CACHE", ""), ("HF_HOME", "/b"), ("HOME", "/h")], "/b/hub"),
            (&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")], "/x/huggingface/hub"),
            (&[("HOME", "/h")], "/h/.cache/huggingface/hub"),
            (&[("HUGGINGFACE_HUB_CACHE", "/old"), ("HOME", "/h")], "/old"),
        ];
        for (table, expected) in cases {
            assert_eq!(cache_dir(&vars(table)), PathBuf::from(expected), "{table:?}");
        }
    }

    #[test]
    fn the_variables_of_the_hub_are_heard() {
        let none = HubOptions::from_vars(&vars(&[("HOME", "/nonexistent")]));
        assert_eq!(none.endpoint, "https://huggingface.co");
        assert_eq!((none.token, none.access), (None, Access::Online));
        let table = [("HF_ENDPOINT", "http://mirror/"), ("HF_TOKEN", " hf_x\n"), ("HF_HUB_OFFLINE", "true")];
        let all = HubOptions::from_vars(&vars(&table));
        assert_eq!(all.endpoint, "http://mirror");
        assert_eq!(all.token, Some(Token("hf_x".to_owned())));
        assert_eq!(all.access, Access::Offline);
        assert!(!format!("{all:?}").contains("hf_x"), "a token is never shown");
    }
}
