//! Shows the menu of [`crate::menu`] at the tray icon, and does what is chosen there.

use tauri::menu::{IsMenuItem, Menu as SystemMenu, MenuItem, PredefinedMenuItem, Submenu};
use tauri::tray::{TrayIcon, TrayIconBuilder};
use tauri::{AppHandle, Manager as _, Wry};

use crate::icons;
use crate::menu::{Action, Icon, Menu, Row, menu};
use crate::shell::Door;
use crate::summary::Summary;
use crate::{quit, window};

/// The icon in the tray, with what it shows now.
pub struct Tray {
    icon: TrayIcon<Wry>,
    shown: Menu,
}

impl Tray {
    pub fn new(app: &AppHandle, summary: &Summary) -> tauri::Result<Self> {
        let menu = menu(summary);
        let icon = TrayIconBuilder::with_id("cluster")
            .icon(icons::image(menu.icon)?)
            .icon_as_template(icons::IS_TEMPLATE)
            .tooltip(&menu.tooltip)
            .menu(&system_menu(app, &menu.rows)?)
            .on_menu_event(|app, event| {
                if let Some(action) = Action::of_id(event.id().as_ref()) {
                    carry_out(app, action);
                }
            })
            .build(app)?;
        Ok(Self { icon, shown: menu })
    }

    /// Shows what changed, and touches nothing if nothing did: an open menu would close.
    pub fn show(&mut self, app: &AppHandle, summary: &Summary) -> tauri::Result<()> {
        let menu = menu(summary);
        if menu.icon != self.shown.icon {
            self.icon.set_icon_with_as_template(Some(icons::image(menu.icon)?), icons::IS_TEMPLATE)?;
        }
        if menu.tooltip != self.shown.tooltip {
            self.icon.set_tooltip(Some(&menu.tooltip))?;
        }
        if menu.rows != self.shown.rows {
            self.icon.set_menu(Some(system_menu(app, &menu.rows)?))?;
        }
        self.shown = menu;
        Ok(())
    }

    pub fn icon(&self) -> Icon {
        self.shown.icon
    }
}

fn system_menu(app: &AppHandle, rows: &[Row]) -> tauri::Result<SystemMenu<Wry>> {
    let menu = SystemMenu::new(app)?;
    for row in rows {
        menu.append(item(app, row)?.as_ref())?;
    }
    Ok(menu)
}

fn item(app: &AppHandle, row: &Row) -> tauri::Result<Box<dyn IsMenuItem<Wry>>> {
    Ok(match row {
        Row::Text(text) => Box::new(MenuItem::new(app, text, false, None::<&str>)?),
        Row::Choice { label, action } => Box::new(MenuItem::with_id(app, action.id(), label, true, None::<&str>)?),
        Row::Separator => Box::new(PredefinedMenuItem::separator(app)?),
        Row::Group { label, rows } => {
            let group = Submenu::new(app, label, true)?;
            for row in rows {
                group.append(item(app, row)?.as_ref())?;
            }
            Box::new(group)
        }
    })
}

fn carry_out(app: &AppHandle, action: Action) {
    match action {
        Action::OpenWindow => window::show(app),
        Action::CopyApiAddress => copy(&app.state::<Door>().api_url),
        Action::Quit => quit::begin(app),
    }
}

fn copy(text: &str) {
    let copied = arboard::Clipboard::new().and_then(|mut clipboard| clipboard.set_text(text));
    if let Err(error) = copied {
        tracing::warn!(%error, "the address cannot be copied");
    }
}
