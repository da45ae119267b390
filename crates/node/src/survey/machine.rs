//! The chip and the operating system.

use domain::{Chip, OperatingSystem};
use sysinfo::{CpuRefreshKind, System};

pub(super) fn chip(system: &mut System) -> Option<Chip> {
    system.refresh_cpu_list(CpuRefreshKind::nothing());
    let cpus = system.cpus();
    let brand = cpus.first()?.brand().trim();
    let name = if brand.is_empty() { System::cpu_arch() } else { brand.to_owned() };
    Some(Chip { name, n_cores: u32::try_from(cpus.len()).ok()? })
}

pub(super) fn operating_system() -> OperatingSystem {
    let unknown = || "unknown".to_owned();
    let kernel = || System::kernel_version().unwrap_or_else(|_| unknown());
    if cfg!(target_os = "macos") {
        // What `sysinfo` calls build is the kernel's version; Apple's own is in a property list.
        let list = std::fs::read_to_string("/System/Library/CoreServices/SystemVersion.plist").unwrap_or_default();
        let build = plist_string(&list, "ProductBuildVersion").map_or_else(kernel, str::to_owned);
        let version = System::os_version().unwrap_or_else(|_| unknown());
        OperatingSystem { name: "macOS".to_owned(), version, build }
    } else {
        OperatingSystem {
            name: System::name().unwrap_or_else(|_| std::env::consts::OS.to_owned()),
            version: System::os_version().unwrap_or_else(|_| unknown()),
            build: kernel(),
        }
    }
}

/// The text that follows a key in an XML property list.
fn plist_string<'a>(list: &'a str, key: &str) -> Option<&'a str> {
    let (_, after) = list.split_once(&format!("<key>{key}</key>"))?;
    let (_, value) = after.split_once("<string>")?;
    let (value, _) = value.split_once("</string>")?;
    Some(value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_read_from_a_property_list() {
        let list = "<dict>\n\t<key>ProductBuildVersion</key>\n\t<string>25C56</string>\n\t<key>ProductName</key>\n\
                    \t<string>macOS</string>\n</dict>";
        assert_eq!(plist_string(list, "ProductBuildVersion"), Some("25C56"));
        assert_eq!(plist_string(list, "Absent"), None);
    }
}
