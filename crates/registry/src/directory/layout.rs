//! The file `format`, which names the layout of the directory: whoever opens one reads it, and puts it again
//! where it was lost.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::files::{durable, failed, names, rename, unique, write_new};
use crate::RegistryError;

const FORMAT: &str = "masu registry 1\n";
/// All formats begin with this.
const FORMAT_NAME: &str = "masu registry ";

/// Names the layout in a new directory; refuses one with another layout, or with other files.
pub(super) fn check(root: &Path) -> Result<(), RegistryError> {
    let file = root.join("format");
    let refused = |cause: &str| {
        let cause = format!("{}: {cause}", root.display());
        Err(RegistryError::Unreachable { cause })
    };
    match format_of(&file)? {
        Some(text) if text == FORMAT => Ok(()),
        Some(text) if text.starts_with(FORMAT_NAME) => refused("a registry of another format"),
        Some(_) => Err(without_format(&file, "damaged")),
        None if name_format(root, &file)? => Ok(()),
        None if root.join("keys").is_dir() && root.join("leases").is_dir() => {
            Err(without_format(&file, "missing"))
        }
        None => refused("not empty, and not a registry; name a new directory"),
    }
}

/// Puts the name of the layout again where it was lost: this client has read it when it opened the
/// directory. Then, what was wrong.
pub(super) fn mend(root: &Path) -> Result<Option<String>, RegistryError> {
    let file = root.join("format");
    let what = match format_of(&file)? {
        Some(text) if text == FORMAT => return Ok(None),
        Some(text) if text.starts_with(FORMAT_NAME) => {
            let cause = format!("{}: names another format now; restart the nodes", file.display());
            return Err(RegistryError::Damaged { cause });
        }
        Some(_) => "damaged",
        None => "missing",
    };
    write_format(root, &file).map_err(|_| without_format(&file, what))?;
    Ok(Some(format!("{}: {what}", file.display())))
}

/// The name of the layout; none: there is no such file. What is no text is no name.
fn format_of(file: &Path) -> Result<Option<String>, RegistryError> {
    match fs::read(file) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(file, &error)),
    }
}

/// Names the layout in a directory that had no such name a moment ago; false: it has other files.
fn name_format(root: &Path, file: &Path) -> Result<bool, RegistryError> {
    let known = |name: &String| name == "keys" || name.starts_with("format");
    if !names(root)?.unwrap_or_default().iter().all(known) {
        // Another process may have named it since, and have gone on: the name comes before everything else.
        return Ok(format_of(file)?.as_deref() == Some(FORMAT));
    }
    write_format(root, file)?;
    Ok(true)
}

/// What to do about a registry whose `format` does not name its layout, while no node runs that puts it
/// again.
fn without_format(file: &Path, what: &str) -> RegistryError {
    let (shown, line) = (file.display(), FORMAT.trim_end());
    let cause = format!(
        "{shown}: {what}. A node that runs puts it again within 10 s; if none does, and this is the registry, write it \
         anew: echo '{line}' > {shown}"
    );
    RegistryError::Damaged { cause }
}

/// In the place of whatever is there.
fn write_format(root: &Path, file: &Path) -> Result<(), RegistryError> {
    let new = root.join(format!("format.{:016x}", unique()?));
    write_new(&new, FORMAT.as_bytes(), true)?;
    rename(&new, file)?;
    durable(root)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use crate::directory::files::Files;

    #[test]
    fn a_new_directory_that_another_process_opens_at_the_same_moment_is_a_registry() {
        let dir = tempfile::tempdir().expect("a directory");
        let _other = Files::open(dir.path()).expect("a registry");
        // This process saw no name before the other one opened the directory, and lists it afterwards.
        assert_eq!(name_format(dir.path(), &dir.path().join("format")), Ok(true));
        fs::write(dir.path().join("format"), "another").expect("written");
        assert_eq!(name_format(dir.path(), &dir.path().join("format")), Ok(false));
    }

    #[test]
    fn the_name_of_the_layout_is_put_again_by_who_has_read_it_and_others_say_what_to_do() {
        let dir = tempfile::tempdir().expect("a directory");
        let (files, key) = (Files::open(dir.path()).expect("a registry"), Key::new("a/b").expect("a key"));
        let format = dir.path().join("format");
        files.put(&key, None, Some(b"one"), None).expect("put");
        let harms: [(&str, &dyn Fn()); 4] = [
            ("damaged", &|| fs::write(&format, "").expect("written")),
            ("damaged", &|| fs::write(&format, "masu reg").expect("written")),
            ("damaged", &|| fs::write(&format, b"\xff\xfe").expect("written")),
            ("missing", &|| fs::remove_file(&format).expect("removed")),
        ];
        for (what, harm) in harms {
            harm();
            assert_eq!(files.is_there(), Ok(()), "a node goes on");
            let refused = Files::open(dir.path()).err().expect("refused").to_string();
            let advice = format!("echo 'masu registry 1' > {}", format.display());
            assert!(refused.contains(what) && refused.contains(&advice), "{refused}");
            assert_eq!(files.examine(), Ok(Some(format!("{}: {what}", format.display()))));
            assert_eq!(files.examine(), Ok(None));
            assert!(Files::open(dir.path()).is_ok_and(|again| again.get(&key).is_ok_and(|e| e.is_some())));
        }
        // Another version has it now.
        fs::write(&format, "masu registry 2\n").expect("written");
        assert!(matches!(files.examine(), Err(RegistryError::Damaged { .. })));
        assert!(fs::read_to_string(&format).is_ok_and(|text| text == "masu registry 2\n"));
        fs::rename(dir.path().join("keys"), dir.path().join("gone")).expect("renamed");
        assert!(files.is_there().is_err());
    }

    #[test]
    fn a_directory_with_other_files_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("holiday.jpg"), b"x").expect("written");
        let refused = Files::open(dir.path()).err().expect("refused").to_string();
        assert!(refused.contains("not empty"), "{refused}");
        let other = tempfile::tempdir().expect("a directory");
        fs::write(other.path().join("format"), "masu registry 9\n").expect("written");
        assert!(Files::open(other.path()).is_err());
    }
}
