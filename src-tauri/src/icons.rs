//! The pictures of the tray icon.

use tauri::image::Image;

use crate::menu::Icon;

/// macOS draws them in the menu bar's own colour: black and alpha only.
pub const IS_TEMPLATE: bool = cfg!(target_os = "macos");

pub fn image(icon: Icon) -> tauri::Result<Image<'static>> {
    Image::from_bytes(bytes(icon))
}

/// At twice the 18 points of the menu bar, which the system scales.
#[cfg(target_os = "macos")]
const fn bytes(icon: Icon) -> &'static [u8] {
    match icon {
        Icon::Idle => include_bytes!("../../assets/tray/idle@2x.png"),
        Icon::Busy => include_bytes!("../../assets/tray/busy@2x.png"),
        Icon::Problem => include_bytes!("../../assets/tray/problem@2x.png"),
    }
}

#[cfg(not(target_os = "macos"))]
const fn bytes(icon: Icon) -> &'static [u8] {
    match icon {
        Icon::Idle => include_bytes!("../../assets/tray/idle-colour.png"),
        Icon::Busy => include_bytes!("../../assets/tray/busy-colour.png"),
        Icon::Problem => include_bytes!("../../assets/tray/problem-colour.png"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_icon_is_a_square_picture_that_shows_something() {
        for icon in [Icon::Idle, Icon::Busy, Icon::Problem] {
            let image = image(icon).unwrap();
            assert_eq!(image.width(), image.height());
            assert!(image.rgba().iter().skip(3).step_by(4).any(|alpha| *alpha == 255), "{icon:?} is empty");
        }
    }
}
