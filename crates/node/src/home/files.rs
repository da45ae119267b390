//! Files that only their owner reads, replaced whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::HomeError;

/// Read and write for the owner, nothing for others.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
/// The rights of group and others.
const OTHERS_MASK: u32 = 0o077;

/// Makes the folder if it is missing, and closes it to other users if it is not.
pub(super) fn ensure_private_folder(path: &Path) -> Result<(), HomeError> {
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(path)
        .map_err(HomeError::io("create the folder", path))?;
    close_to_others(path, FOLDER_MODE)
}

/// Writes beside `path`, flushes to the disk, then renames: after a crash there is the old content or the new.
pub(super) fn write_private(path: &Path, content: &[u8]) -> Result<(), HomeError> {
    let written = || -> io::Result<()> {
        let new = path.with_added_extension("new");
        let mut file = private_options().write(true).create(true).truncate(true).open(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        match path.parent() {
            // The rename itself is durable only once the folder is.
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    };
    written().map_err(HomeError::io("write", path))
}

/// The file's content; `None` if there is no such file. More than `len_max` bytes are not one of our files.
pub(super) fn read_private(path: &Path, len_max: usize) -> Result<Option<Vec<u8>>, HomeError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(HomeError::io("read", path)(error)),
    };
    close_to_others(path, FILE_MODE)?;
    let mut content = Vec::new();
    file.take(len_max as u64 + 1).read_to_end(&mut content).map_err(HomeError::io("read", path))?;
    if content.len() > len_max {
        return Err(HomeError::damaged(path, format!("it is longer than {len_max} bytes")));
    }
    Ok(Some(content))
}

pub(super) fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}

/// Rights may have been widened by a copy or a restored backup. They are set right and said so: to refuse the
/// start would not undo that others could read the file until now.
fn close_to_others(path: &Path, mode: u32) -> Result<(), HomeError> {
    let found = fs::metadata(path).map_err(HomeError::io("read the rights of", path))?.permissions().mode() & 0o777;
    if found & OTHERS_MASK == 0 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(|source| HomeError::Exposed {
        path: path.to_owned(),
        mode: found,
        source,
    })?;
    tracing::warn!(path = %path.display(), rights = format!("{found:o}"), "other users could read this; closed to them now");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn files_are_private_whole_and_leave_nothing_beside_them() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("a/b");
        ensure_private_folder(&home).unwrap();
        assert_eq!(mode(&home), 0o700);
        let file = home.join("secret.json");
        assert_eq!(read_private(&file, 10).unwrap(), None);
        write_private(&file, b"one").unwrap();
        write_private(&file, b"two").unwrap();
        assert_eq!(mode(&file), 0o600);
        assert_eq!(read_private(&file, 10).unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(fs::read_dir(&home).unwrap().count(), 1);
    }

    #[test]
    fn open_rights_are_repaired() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("node.key");
        fs::write(&file, b"key").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        read_private(&file, 10).unwrap();
        assert_eq!(mode(&file), 0o600);
    }

    #[test]
    fn a_file_that_cannot_be_ours_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("boot");
        write_private(&file, &[b'1'; 11]).unwrap();
        let error = read_private(&file, 10).unwrap_err();
        assert!(error.to_string().contains("longer than 10 bytes"), "{error}");
    }
}
