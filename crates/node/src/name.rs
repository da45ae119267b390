//! The name a person gave this node, kept in its home.

use crate::home::{Home, HomeError};
use crate::secure::shown_name;

/// As much as other nodes show.
pub const CHARS_MAX: usize = 64;

const NAME_FILE: &str = "name";

/// The kept name, or `otherwise` if nobody chose one.
pub(crate) fn kept(home: &Home, otherwise: &str) -> Result<String, HomeError> {
    let chosen = home.read_text(NAME_FILE, 4 * CHARS_MAX)?;
    Ok(shown_name(chosen.as_deref().unwrap_or(otherwise)))
}

pub(crate) fn keep(home: &Home, name: &str) -> Result<(), HomeError> {
    home.write_text(NAME_FILE, name)
}
