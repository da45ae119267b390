//! The first thing each end of a connection says.

use rand::random;
use serde::{Deserialize, Serialize};

/// Names longer than this do not fit where names are shown.
const NAME_CHARS_MAX: usize = 64;
/// `1.2.3-rc.4+build` and some.
const VERSION_CHARS_MAX: usize = 32;

/// Who is speaking. The node itself is not in here: TLS has proven it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Drawn at each start: tells a second connection of one run from the first of the next.
    pub(super) session: u64,
    pub(super) name: String,
    /// Of the program. Versions that cannot talk to each other share no ALPN protocol and never get here.
    pub(super) version: String,
}

impl Hello {
    pub(super) fn new(name: &str, version: &str) -> Self {
        Self { session: random(), name: name.to_owned(), version: version.to_owned() }.cleaned()
    }

    /// Without what a screen or a log should not get from another machine.
    pub(super) fn cleaned(self) -> Self {
        Self { session: self.session, name: shown_name(&self.name), version: shown_version(&self.version) }
    }
}

/// A machine's name as it may be shown: one line, not too long, never empty.
pub fn shown_name(raw: &str) -> String {
    match shown(raw, NAME_CHARS_MAX) {
        name if name.is_empty() => "unnamed".to_owned(),
        name => name,
    }
}

pub(crate) fn shown_version(raw: &str) -> String {
    shown(raw, VERSION_CHARS_MAX)
}

fn shown(raw: &str, n_chars_max: usize) -> String {
    let visible: String = raw.chars().filter(|c| !c.is_control() && !turns_text(*c)).take(n_chars_max).collect();
    visible.trim().to_owned()
}

/// The marks by which text changes its direction: with them a name can show as another one.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_safe_to_show() {
        assert_eq!(shown_name("  Léa’s Mac Studio "), "Léa’s Mac Studio");
        assert_eq!(shown_name("a\u{1b}[2Jb\nc\u{202e}d"), "a[2Jbcd");
        assert_eq!(shown_name("\n\t"), "unnamed");
        assert_eq!(shown_name(&"x".repeat(1000)).len(), NAME_CHARS_MAX);
        assert_ne!(Hello::new("a", "1").session, Hello::new("a", "1").session);
    }
}
