//! The one window: the node's own UI over HTTP, as a browser would show it, and nothing else.

use tauri::webview::NewWindowResponse;
use tauri::{AppHandle, Manager as _, Url, WebviewUrl, WebviewWindow, WebviewWindowBuilder, WindowEvent};
use tauri_plugin_opener::OpenerExt as _;

use crate::shell::Door;

pub const LABEL: &str = "main";

/// Room for the cluster's drawing beside a list; the page works down to [`SIZE_MIN`].
const SIZE: (f64, f64) = (1120.0, 760.0);
const SIZE_MIN: (f64, f64) = (380.0, 420.0);

/// Shows the window, opening it if it is not open yet.
pub fn show(app: &AppHandle) {
    set_presence(app, Presence::Window);
    let shown = match app.get_webview_window(LABEL) {
        Some(window) => window.unminimize().and_then(|()| window.show()).and_then(|()| window.set_focus()),
        None => open(app).map(drop),
    };
    if let Err(error) = shown {
        tracing::error!(%error, "the window cannot be shown");
    }
}

fn open(app: &AppHandle) -> tauri::Result<WebviewWindow> {
    let door = app.state::<Door>();
    let origin = door.ui_url.origin();
    let (opener, other_opener) = (app.clone(), app.clone());
    let window = WebviewWindowBuilder::new(app, LABEL, WebviewUrl::External(door.ui_url.clone()))
        .title("Macramé")
        .inner_size(SIZE.0, SIZE.1)
        .min_inner_size(SIZE_MIN.0, SIZE_MIN.1)
        .on_navigation(move |url| {
            let is_ours = url.origin() == origin;
            if !is_ours {
                open_elsewhere(&opener, url);
            }
            is_ours
        })
        .on_new_window(move |url, _| {
            open_elsewhere(&other_opener, &url);
            NewWindowResponse::Deny
        })
        .build()?;
    let hidden = window.clone();
    window.on_window_event(move |event| {
        if let WindowEvent::CloseRequested { api, .. } = event {
            api.prevent_close();
            hide(&hidden);
        }
    });
    Ok(window)
}

/// The node runs on; the icon in the menu bar brings the window back as it was.
fn hide(window: &WebviewWindow) {
    if let Err(error) = window.hide() {
        tracing::warn!(%error, "the window cannot be hidden");
    }
    set_presence(window.app_handle(), Presence::MenuBar);
}

/// Links lead to the browser: an answer of a model may hold any address, and must not replace the app.
fn open_elsewhere(app: &AppHandle, url: &Url) {
    match url.scheme() {
        "http" | "https" | "mailto" => {
            if let Err(error) = app.opener().open_url(url.as_str(), None::<&str>) {
                tracing::warn!(%error, "a link cannot be opened");
            }
        }
        scheme => tracing::warn!(scheme, "a link of this kind is not opened"),
    }
}

/// How the app shows itself to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// An accessory: no Dock icon, no menus of its own.
    MenuBar,
    /// As any app, so that ⌘-Tab and the Edit menu work.
    Window,
}

#[cfg(target_os = "macos")]
pub fn set_presence(app: &AppHandle, presence: Presence) {
    let policy = match presence {
        Presence::MenuBar => tauri::ActivationPolicy::Accessory,
        Presence::Window => tauri::ActivationPolicy::Regular,
    };
    if let Err(error) = app.set_activation_policy(policy) {
        tracing::warn!(%error, ?presence, "the Dock was not told");
    }
}

/// Elsewhere an app without a window shows itself nowhere but in the tray anyway.
#[cfg(not(target_os = "macos"))]
pub fn set_presence(_app: &AppHandle, presence: Presence) {
    tracing::debug!(?presence, "nothing to tell the system");
}
