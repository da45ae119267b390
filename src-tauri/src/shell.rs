//! Puts tray, window and commands together and runs the event loop. Decides nothing about the cluster.

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use api::Server;
use node::NodeHandle;
use tauri::ipc::CapabilityBuilder;
use tauri::{App, AppHandle, Manager as _, RunEvent, Url};
use tauri_plugin_autostart::MacosLauncher;
use tokio::runtime::Handle;

use crate::flags::{AtStart, Flags};
use crate::summary::Summary;
use crate::tray::Tray;
use crate::window::Presence;
use crate::{commands, quit, window};

/// Where the node's API is, for the window and the menu.
pub struct Door {
    /// With the token in its fragment.
    pub ui_url: Url,
    pub api_url: String,
}

/// Makes the app, without showing anything. Ends this process if the app runs already: that one shows its window.
pub fn build(flags: &Flags, runtime: &Handle) -> Result<App> {
    tauri::async_runtime::set(runtime.clone());
    let mut builder = tauri::Builder::default();
    // A node with a home of its own is another one, whatever program it is; two apps may run then.
    if flags.node.home.is_none() {
        builder = builder.plugin(tauri_plugin_single_instance::init(|app, _, _| window::show(app)));
    }
    builder
        .plugin(tauri_plugin_autostart::init(MacosLauncher::LaunchAgent, None))
        .plugin(tauri_plugin_opener::Builder::new().open_js_links_on_click(false).build())
        .menu(app_menu)
        .on_menu_event(|app, event| {
            if event.id() == QUIT_ID {
                quit::begin(app);
            }
        })
        .invoke_handler(tauri::generate_handler![commands::autostart, commands::set_autostart, commands::reveal_folder])
        .build(tauri::generate_context!())
        .context("the app's window system cannot start")
}

/// Shows the app until it is quit.
pub fn run(app: App, flags: &Flags, node: &NodeHandle, server: &Server) -> Result<ExitCode> {
    let ui_url: Url = server.ui_url().parse().context("the API's address is none")?;
    let handle = app.handle().clone();
    handle.manage(Door { ui_url: ui_url.clone(), api_url: format!("{}/v1", server.url()) });
    // The page comes over HTTP from this node, at this port; no other page gets to ask anything of the shell.
    let page = CapabilityBuilder::new("page")
        .local(false)
        .remote(ui_url.origin().ascii_serialization())
        .window(window::LABEL)
        .permission("allow-autostart")
        .permission("allow-set-autostart")
        .permission("allow-reveal-folder");
    handle.add_capability(page).context("the page cannot be let in")?;
    window::set_presence(&handle, Presence::MenuBar);
    handle.manage(Mutex::new(Tray::new(&handle, &Summary::from(&*node.state())).context("no icon in the tray")?));
    let following = tauri::async_runtime::spawn(follow(handle.clone(), node.clone()));
    tauri::async_runtime::spawn(quit::on_request(handle, flags.parent));

    let at_start = flags.at_start;
    let code = app.run_return(move |app, event| match (event, at_start) {
        (RunEvent::Ready, AtStart::Window) => window::show(app),
        // The last window is gone, which is no reason to end: the node lives in the menu bar.
        (RunEvent::ExitRequested { code: None, api, .. }, _) => api.prevent_exit(),
        #[cfg(target_os = "macos")]
        (RunEvent::Reopen { .. }, _) => window::show(app),
        // Of the system's many events, these are all that concern us.
        _ => {}
    });
    // The node ends next, and there is no event loop left to be told.
    following.abort();
    Ok(if code == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Brings every change of the cluster to the tray.
async fn follow(app: AppHandle, node: NodeHandle) {
    let mut changes = node.watch();
    while changes.changed().await.is_ok() {
        let summary = Summary::from(&**changes.borrow_and_update());
        let shown = app.clone().run_on_main_thread({
            let app = app.clone();
            move || {
                let tray = app.state::<Mutex<Tray>>();
                let mut tray = tray.lock().unwrap_or_else(PoisonError::into_inner);
                if let Err(error) = tray.show(&app, &summary) {
                    tracing::warn!(%error, icon = ?tray.icon(), "the tray does not show the latest");
                }
            }
        });
        if let Err(error) = shown {
            tracing::debug!(%error, "the event loop has ended");
            return;
        }
    }
    // The node has ended, so there is nothing left to be the icon of.
    quit::begin(&app);
}

const QUIT_ID: &str = "quit-app";

/// The menu bar of the app itself. macOS finds the keys of copy and paste there, and ⌘Q, which must drain.
#[cfg(target_os = "macos")]
fn app_menu(app: &AppHandle) -> tauri::Result<tauri::menu::Menu<tauri::Wry>> {
    use tauri::menu::{AboutMetadata, MenuBuilder, MenuItem, SubmenuBuilder};

    let quit = MenuItem::with_id(app, QUIT_ID, "Quit Macramé", true, Some("CmdOrCtrl+Q"))?;
    let own = SubmenuBuilder::new(app, "Macramé")
        .about(Some(AboutMetadata::default()))
        .separator()
        .hide()
        .hide_others()
        .separator()
        .item(&quit)
        .build()?;
    let edit = SubmenuBuilder::new(app, "Edit").undo().redo().separator().cut().copy().paste().select_all().build()?;
    let windows = SubmenuBuilder::new(app, "Window").minimize().close_window().build()?;
    MenuBuilder::new(app).items(&[&own, &edit, &windows]).build()
}

/// Elsewhere the window has no menu bar: its keys work without.
#[cfg(not(target_os = "macos"))]
fn app_menu(app: &AppHandle) -> tauri::Result<tauri::menu::Menu<tauri::Wry>> {
    tauri::menu::Menu::new(app)
}
