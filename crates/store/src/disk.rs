//! Room on the disk.

use std::path::Path;

use domain::Bytes;

/// Free for this user on the disk that holds `folder`, or would if it existed; `None` where the system does not say.
pub fn disk_free(folder: &Path) -> Option<Bytes> {
    let disk = folder.ancestors().find_map(|candidate| rustix::fs::statvfs(candidate).ok())?;
    Some(Bytes::new(disk.f_bavail) * disk.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_yet_to_be_made_has_the_room_of_its_disk() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(disk_free(&dir.path().join("a/b/c")).is_some_and(|free| free > Bytes::ZERO));
    }
}
