//! Ways out of an error, as data: whoever shows the error decides how they look.

/// What can be done about an error, most helpful first. Each is one sentence without a final stop.
pub type Hints = Vec<String>;

/// An error that knows its way out.
pub trait Hint {
    fn hints(&self) -> Hints;
}
