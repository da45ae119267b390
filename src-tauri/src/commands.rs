//! What the page may ask of the shell: the `Host` of `ui/src/host`.

use std::path::PathBuf;

use tauri::AppHandle;
use tauri_plugin_autostart::ManagerExt as _;
use tauri_plugin_opener::OpenerExt as _;

/// Whether the app starts at login.
#[tauri::command]
pub fn autostart(app: AppHandle) -> Result<bool, String> {
    app.autolaunch().is_enabled().map_err(|error| format!("cannot tell whether Macramé starts at login: {error}"))
}

#[tauri::command]
pub fn set_autostart(app: AppHandle, on: bool) -> Result<(), String> {
    let autolaunch = app.autolaunch();
    let done = if on { autolaunch.enable() } else { autolaunch.disable() };
    done.map_err(|error| format!("cannot change whether Macramé starts at login: {error}"))
}

/// Shows a folder in the system's file manager. Folders only: the page shall not be able to start a program by its path.
#[tauri::command]
pub fn reveal_folder(app: AppHandle, path: PathBuf) -> Result<(), String> {
    if !path.is_absolute() || !path.is_dir() {
        return Err(format!("`{}` is not a folder", path.display()));
    }
    app.opener().reveal_item_in_dir(&path).map_err(|error| format!("cannot show `{}`: {error}", path.display()))
}
