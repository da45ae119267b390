//! What a Rust file of this repository looks like.

/// Beyond this a file holds more than one thing.
const LINES_MAX: usize = 800;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "manager", "misc"];

/// Left over from work that is not done.
const UNFINISHED: &[&str] = &["todo!", "unimplemented!", "dbg!"];

/// Where `unsafe` may stand: the verbs, and the kernels.
const UNSAFE_HOMES: &[&str] = &["crates/transport/src/", "crates/engine-candle/src/kernels"];

/// Crates whose result depends on their arguments alone, and what would make it depend on something else.
const PURE_HOMES: &[&str] = &["crates/domain/src/", "crates/planner/src/", "crates/control/src/"];
const IMPURE: &[&str] = &[
    "Instant::now",
    "SystemTime",
    "std::fs",
    "std::thread",
    "std::env",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "HashMap",
    "HashSet",
];

pub fn complaints(path: &str, text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut complain = |line_idx: usize, what: String| out.push(format!("{path}:{}: {what}", line_idx + 1));

    if !text.starts_with("//! ") {
        complain(0, "starts without a `//!` header that says what it holds".to_owned());
    }
    let n_lines = text.lines().count();
    if n_lines > LINES_MAX {
        complain(LINES_MAX, format!("{n_lines} lines, at most {LINES_MAX}: split it by concept"));
    }
    if let Some(name) = path.split(['/', '.']).find(|part| EMPTY_NAMES.contains(part)) {
        complain(0, format!("`{name}` names nothing: call it after what it holds"));
    }
    if !text.is_empty() && !text.ends_with('\n') {
        complain(n_lines.saturating_sub(1), "no newline at the end".to_owned());
    }
    let mut is_pure = is_in(path, PURE_HOMES);
    for (idx, line) in text.lines().enumerate() {
        // Tests come last in a file, and bring the clock that the code is given.
        is_pure &= line != "#[cfg(test)]";
        if line.ends_with([' ', '\t', '\r']) {
            complain(idx, "trailing white space".to_owned());
        }
        // Comments and quoted text may say anything.
        let code = code_of(line);
        for what in words_in(&code, path) {
            complain(idx, what);
        }
        for word in IMPURE.iter().filter(|word| is_pure && code.contains(*word)) {
            complain(idx, format!("`{word}` in a pure crate: let the caller pass what it would say"));
        }
    }
    out
}

/// Complaints about the code of one line.
fn words_in(code: &str, path: &str) -> Vec<String> {
    let mut out = Vec::new();
    for word in UNFINISHED.iter().filter(|word| code.contains(*word)) {
        out.push(format!("`{word}` is not finished work"));
    }
    let opens_unsafe = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"].iter().any(|form| code.contains(form));
    if opens_unsafe && !is_in(path, UNSAFE_HOMES) {
        out.push(format!("`unsafe` belongs in {}", UNSAFE_HOMES.join(" or ")));
    }
    out
}

/// The line without its string literals and its comment. Good enough for lines that rustfmt has laid out.
fn code_of(line: &str) -> String {
    let mut code = String::with_capacity(line.len());
    let mut is_quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if is_quoted => drop(chars.next()),
            '"' => is_quoted = !is_quoted,
            '/' if !is_quoted && chars.peek() == Some(&'/') => break,
            _ if !is_quoted => code.push(c),
            _ => {}
        }
    }
    code
}

fn is_in(path: &str, homes: &[&str]) -> bool {
    homes.iter().any(|home| path.starts_with(home))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, text: &str) -> String {
        complaints(path, text).join("\n")
    }

    #[test]
    fn a_tidy_file_passes() {
        let text = "//! Knots.\n\n// A todo! in a comment, `dbg!` in text: fine.\nconst SAID: &str = \"unsafe { todo!() }\";\n";
        assert_eq!(of("crates/node/src/knot.rs", text), "");
        assert_eq!(of("crates/transport/src/verbs/ffi.rs", "//! Verbs.\nfn f() { unsafe { g() } }\n"), "");
    }

    #[test]
    fn each_rule_can_fail() {
        let path = "crates/node/src/knot.rs";
        assert!(of(path, "fn f() {}\n").contains(":1: starts without"));
        assert!(of(path, &format!("//! Long.\n{}", "\n".repeat(LINES_MAX))).contains("801 lines"));
        assert!(of(path, "//! Open.\nfn f() {}").contains("no newline"));
        assert!(of(path, "//! Spaced.\nfn f() {} \n").contains(":2: trailing"));
        assert!(of(path, "//! Undone.\nfn f() { todo!() }\n").contains(":2: `todo!`"));
        assert!(of(path, "//! Loud.\nfn f() { dbg!(1); }\n").contains("`dbg!`"));
        assert!(of(path, "//! Bold.\nfn f() { unsafe { g() } }\n").contains("`unsafe` belongs"));
        assert!(of("crates/node/src/utils/knot.rs", "//! Knots.\n").contains("`utils` names nothing"));
        assert!(of("crates/node/src/common.rs", "//! Knots.\n").contains("`common` names nothing"));
    }

    #[test]
    fn pure_crates_read_no_clock_and_no_hash_order() {
        let text = "//! Members.\nfn f() { let now = Instant::now(); let m = HashMap::new(); }\n";
        assert_eq!(complaints("crates/control/src/members.rs", text).len(), 2);
        let tested = text.replace("fn f()", "#[cfg(test)]\nfn f()");
        assert_eq!(of("crates/control/src/members.rs", &tested), "");
        assert_eq!(of("crates/node/src/members.rs", text), "");
    }
}
