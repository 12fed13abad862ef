//! Chains of images: each differencing image finds its parent by its stored paths.

use std::path::{Component, Path, PathBuf};

use world::{DriveSpec, ImageAccess, World};

use super::{Access, FileFormat, Image};
use crate::VdiskError;

/// Limit of images in a chain: a longer one is a loop or a mistake.
const CHAIN_MAX: usize = 32;

/// The parent of a differencing image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentLink {
    /// The name of its file.
    pub name: String,
    /// Its possible identities.
    pub ids: Vec<[u8; 16]>,
    /// Its possible paths, as stored in the image.
    pub paths: Vec<String>,
    /// In a VHD, when the parent's file had been written last as the child was created, in seconds since
    /// 2000-01-01 00:00 UTC; 0: unknown. The identity of a VHD does not change when it is written.
    pub time_stamp_s: u32,
}

impl ParentLink {
    /// The candidates for the parent of a child at `child`, most likely first: relative paths are relative to
    /// the child's directory.
    fn candidates(&self, child: &Path) -> Vec<PathBuf> {
        let folder = child.parent().unwrap_or(Path::new(""));
        let mut list: Vec<PathBuf> = Vec::new();
        for path in self.paths.iter().chain([&self.name]).filter(|path| !path.is_empty()) {
            let path = path.replace('\\', "/");
            list.push(plain(&folder.join(&path)));
            // A path of another system: its last component, in the child's directory.
            let last = path.rsplit('/').next().filter(|last| !last.is_empty());
            list.extend(last.map(|last| plain(&folder.join(last))));
        }
        let mut seen = Vec::new();
        list.retain(|path| {
            *path != plain(child) && !seen.contains(path) && {
                seen.push(path.clone());
                true
            }
        });
        list
    }
}

/// The path without `.` and, as far as possible, without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(plain.components().next_back(), Some(Component::Normal(_))) => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// An image with its parents, and the directories of parents.
#[derive(Clone, Copy, Debug)]
pub struct Chain<'a> {
    /// The image.
    pub path: &'a Path,
    /// Read or write.
    pub access: Access,
    /// Its format. None: detected, if unambiguous; only for a file that no guest wrote.
    pub format: Option<FileFormat>,
    /// Directories of parents, besides that of the image.
    pub parents_in: &'a [PathBuf],
}

impl Chain<'_> {
    /// What to open for a parent at this path: only from an allowed directory.
    fn spec(&self, path: &Path) -> Result<DriveSpec, VdiskError> {
        let own = self.path.parent().unwrap_or(Path::new(""));
        for folder in [own].into_iter().chain(self.parents_in.iter().map(PathBuf::as_path)) {
            let folder = plain(folder);
            // In a relative directory, any relative path that stays inside.
            let inside = match folder.as_os_str().is_empty() {
                true => path.is_relative().then_some(path),
                false => path.strip_prefix(&folder).ok(),
            };
            let is_beneath =
                |path: &&Path| path.components().all(|part| matches!(part, Component::Normal(_)));
            if let Some(inside) = inside.filter(is_beneath) {
                return Ok(DriveSpec::ImageWithin { folder, path: inside.to_owned() });
            }
        }
        let what = "not in the directory of the image; declare its directory (parents_in)";
        Err(VdiskError::refused(format!("{}: {what}", path.display())))
    }
}

/// Opens the image file at `path` with all its parents read-only; parents must be in the same directory.
///
/// # Errors
///
/// The file or a parent cannot be opened or is damaged, a parent is not in the directory, or is another image
/// than the child expects.
pub async fn open_file(world: &World, path: &Path, access: Access) -> Result<Image, VdiskError> {
    open_chain(world, &Chain { path, access, format: None, parents_in: &[] }).await
}

/// Opens an image with all its parents read-only.
///
/// # Errors
///
/// As [`open_file`].
pub async fn open_chain(world: &World, chain: &Chain<'_>) -> Result<Image, VdiskError> {
    let access = match chain.access {
        Access::Read => ImageAccess::Read,
        Access::Write => ImageAccess::Write,
    };
    let spec = DriveSpec::Image { path: chain.path.to_owned(), access };
    let drive = world.open_drive(&spec).await?;
    let image = match chain.format {
        Some(format) => Image::open_as(world, drive, chain.access, format).await?,
        None => Image::open(world, drive, chain.access).await?,
    };
    attach_parents(world, &image, chain).await?;
    Ok(image)
}

/// Opens the parents of an image that is open alone.
///
/// # Errors
///
/// As [`open_file`], of the parents.
pub async fn attach_parents(world: &World, image: &Image, chain: &Chain<'_>) -> Result<(), VdiskError> {
    let (mut child, mut child_path) = (image.clone(), chain.path.to_owned());
    let mut ids = vec![image.id()];
    while let Some(link) = child.parent_link().cloned() {
        let failed = |cause: String| VdiskError::Parent { name: link.name.clone(), cause };
        if ids.len() > CHAIN_MAX {
            return Err(failed(format!("the chain has more than {CHAIN_MAX} images")));
        }
        (child, child_path) = open_parent(world, chain, &child, &link, &child_path).await?;
        if ids.contains(&child.id()) {
            return Err(failed(format!("{} is already in the chain", child_path.display())));
        }
        ids.push(child.id());
    }
    Ok(())
}

async fn open_parent(
    world: &World,
    chain: &Chain<'_>,
    child: &Image,
    link: &ParentLink,
    child_path: &Path,
) -> Result<(Image, PathBuf), VdiskError> {
    let mut causes = Vec::new();
    for path in link.candidates(child_path) {
        let attached = match open_at(world, chain, child, &path).await {
            Ok(parent) => child.attach(parent.clone()).map(|()| parent),
            Err(error) => Err(error),
        };
        match attached {
            Ok(parent) => return Ok((parent, path)),
            Err(VdiskError::Parent { cause, .. }) => causes.push(format!("{}: {cause}", path.display())),
            Err(error) => causes.push(error.to_string()),
        }
    }
    let cause =
        if causes.is_empty() { "the image has no path of its parent".into() } else { causes.join("; ") };
    Err(VdiskError::Parent { name: link.name.clone(), cause })
}

async fn open_at(world: &World, chain: &Chain<'_>, child: &Image, path: &Path) -> Result<Image, VdiskError> {
    let drive = world.open_drive(&chain.spec(path)?).await?;
    child.open_parent(world, drive).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_looked_for_beside_the_child_and_under_their_paths() {
        let link = ParentLink {
            name: "base.vhd".into(),
            ids: vec![],
            paths: vec![".\\base.vhd".into(), "C:\\disks\\base.vhd".into(), "/srv/base.vhd".into()],
            time_stamp_s: 0,
        };
        let found = link.candidates(Path::new("/images/child.vhd"));
        let expected = ["/images/base.vhd", "/images/C:/disks/base.vhd", "/srv/base.vhd"];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn a_parent_is_opened_from_the_directory_of_the_image_or_from_one_that_is_declared() {
        let check = |image: &str, parents_in: &[&str], parent: &str, expected: Option<(&str, &str)>| {
            let parents_in: Vec<PathBuf> = parents_in.iter().map(PathBuf::from).collect();
            let path = Path::new(image);
            let chain = Chain { path, access: Access::Read, format: None, parents_in: &parents_in };
            let spec = chain.spec(&plain(Path::new(parent))).ok();
            let expected = expected
                .map(|(folder, path)| DriveSpec::ImageWithin { folder: folder.into(), path: path.into() });
            assert_eq!(spec, expected, "{parent} of {image}");
        };
        check("/images/child.vhd", &[], "/images/a/base.vhd", Some(("/images", "a/base.vhd")));
        check("/images/child.vhd", &[], "/images/../etc/shadow", None);
        check("/images/child.vhd", &[], "/imagesx/base.vhd", None);
        check("/images/child.vhd", &["/golden/"], "/golden/./base.vhd", Some(("/golden", "base.vhd")));
        check("/images/child.vhd", &["/golden"], "/golden/../etc/shadow", None);
        check("child.vhd", &[], "base.vhd", Some(("", "base.vhd")));
        check("child.vhd", &[], "../base.vhd", None);
        check("child.vhd", &[], "/etc/shadow", None);
    }
}
