//! System packages: installed on Debian and its kin, listed by name elsewhere.

use std::process::Command;

use anyhow::{Result, bail};

use super::Purpose;
use crate::command::{command, run_quietly, succeeds};
use crate::progress::say;

/// To build: compilers; what Tauri's window and tray link to; the verbs' headers and the generator of their bindings.
const DEBIAN_BUILD: &[&str] = &[
    "build-essential",
    "cmake",
    "pkg-config",
    "clang",
    "libclang-dev",
    "libwebkit2gtk-4.1-dev",
    "libayatana-appindicator3-dev",
    "librsvg2-dev",
    "libxdo-dev",
    "libibverbs-dev",
    "libnl-3-dev",
    "libnl-route-3-dev",
];

/// To test: a browser, a driver for the app's window, a display and a session bus without a screen, and a font to draw with.
const DEBIAN_TEST: &[&str] =
    &["chromium", "webkit2gtk-driver", "xvfb", "xauth", "dbus", "dbus-x11", "fonts-dejavu-core", "procps"];

/// What must answer on macOS, and how it gets there.
const MACOS_NEEDS: &[(&str, &str)] = &[
    ("cc --version", "the Xcode command line tools: xcode-select --install"),
    ("cmake --version", "cmake: brew install cmake"),
    ("node --version", "Node.js 20.19 or newer: brew install node"),
    ("python3 --version", "Python 3: brew install python"),
];

/// What must answer on a Linux without apt, and the packages that bring it in Fedora's and Arch's names.
const LINUX_NEEDS: &[(&str, &str)] = &[
    ("cc --version", "a C compiler: gcc gcc-c++ make (Arch: base-devel)"),
    ("cmake --version", "cmake"),
    ("clang --version", "clang: clang clang-devel (Arch: clang)"),
    ("pkg-config --version", "pkg-config: pkgconf"),
    ("pkg-config --exists webkit2gtk-4.1", "WebKitGTK 4.1: webkit2gtk4.1-devel (Arch: webkit2gtk-4.1)"),
    (
        "pkg-config --exists ayatana-appindicator3-0.1",
        "the tray: libayatana-appindicator-gtk3-devel (Arch: libayatana-appindicator)",
    ),
    ("pkg-config --exists librsvg-2.0", "SVG icons: librsvg2-devel (Arch: librsvg)"),
    ("pkg-config --exists libibverbs", "the verbs: rdma-core-devel (Arch: rdma-core)"),
    ("node --version", "Node.js 20.19 or newer: nodejs npm"),
    ("python3 --version", "Python 3: python3 python3-pip (Arch: python python-pip)"),
];

pub fn ensure(purpose: Purpose) -> Result<()> {
    if cfg!(target_os = "macos") {
        return demand("macOS", MACOS_NEEDS);
    }
    if !succeeds(&mut command("dpkg-query --version")) {
        return demand("this Linux", LINUX_NEEDS);
    }
    let wanted: Vec<&str> = match purpose {
        Purpose::Run => DEBIAN_BUILD.to_vec(),
        Purpose::Test => [DEBIAN_BUILD, DEBIAN_TEST].concat(),
    };
    let missing = missing_on_debian(&wanted);
    if missing.is_empty() {
        return Ok(());
    }
    say(&format!("      installing {}", missing.join(" ")));
    apt_get("update", &[])?;
    apt_get("install", &missing)
}

/// dpkg's status of a package, `install ok installed` if it is there; an unknown name is missing too.
fn missing_on_debian<'a>(wanted: &[&'a str]) -> Vec<&'a str> {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${Package} ${Status}\\n"]).args(wanted);
    // It fails if any name is unknown, and lists the others all the same.
    let listed = query.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    not_installed(wanted, &listed)
}

fn not_installed<'a>(wanted: &[&'a str], listed: &str) -> Vec<&'a str> {
    let is_installed =
        |name: &str| listed.lines().any(|line| line.split_once(' ') == Some((name, "install ok installed")));
    wanted.iter().copied().filter(|name| !is_installed(name)).collect()
}

fn apt_get(verb: &str, names: &[&str]) -> Result<()> {
    let is_root = run_quietly(&mut command("id -u")).is_ok_and(|uid| uid.trim() == "0");
    let mut apt = Command::new(if is_root { "env" } else { "sudo" });
    apt.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=600", "-y", "-qq", verb])
        .args(names);
    run_quietly(&mut apt).map(drop)
}

fn demand(system: &str, needs: &[(&str, &str)]) -> Result<()> {
    let missing: Vec<String> =
        needs.iter().filter(|(probe, _)| !succeeds(&mut command(probe))).map(|(_, fix)| format!("  {fix}")).collect();
    if missing.is_empty() {
        return Ok(());
    }
    bail!("on {system} please install\n{}\nand start again", missing.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_installs_count() {
        let listed = "cmake install ok installed\nclang deinstall ok config-files\nclang-19 install ok installed\n";
        assert_eq!(not_installed(&["cmake", "clang", "xvfb"], listed), ["clang", "xvfb"]);
    }

    #[test]
    fn what_is_missing_is_listed_with_its_fix() {
        let needs = [("true", "nothing"), ("macrame-of-nowhere --version", "a knot: tie-install knot")];
        let error = demand("this system", &needs).unwrap_err().to_string();
        assert!(error.contains("tie-install knot") && !error.contains("nothing"), "{error}");
        assert!(demand("this system", &needs[..1]).is_ok());
    }
}
