//! Tauri's build step: checks the configuration and makes a permission of each command, so that only our own page gets them.

fn main() {
    let commands = tauri_build::AppManifest::new().commands(&["autostart", "set_autostart", "reveal_folder"]);
    if let Err(error) = tauri_build::try_build(tauri_build::Attributes::new().app_manifest(commands)) {
        panic!("{error:#}");
    }
}
