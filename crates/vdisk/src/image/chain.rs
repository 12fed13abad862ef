//! A chain of images: each differencing one finds its parent by the paths that it has of it.

use std::path::{Path, PathBuf};

use world::{DriveSpec, ImageAccess, World};

use super::{Access, Image};
use crate::VdiskError;

/// Parents above each other at most: more is a loop, or nobody's wish.
const CHAIN_MAX: usize = 32;

/// Who the parent of a differencing image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentLink {
    /// The name of its file.
    pub name: String,
    /// Identities that it may have.
    pub ids: Vec<[u8; 16]>,
    /// Paths under which it may lie, as they stand in the image.
    pub paths: Vec<String>,
}

impl ParentLink {
    /// The files that the parent of a child at `child` may be, the likeliest first: relative paths are those of the child's folder.
    fn candidates(&self, child: &Path) -> Vec<PathBuf> {
        let folder = child.parent().unwrap_or(Path::new(""));
        let mut list: Vec<PathBuf> = Vec::new();
        for path in self.paths.iter().chain([&self.name]).filter(|path| !path.is_empty()) {
            let path = path.replace('\\', "/");
            let path = path.strip_prefix("./").unwrap_or(&path);
            list.push(folder.join(path));
            // A path of another system: its last part beside the child.
            list.extend(
                path.rsplit('/').next().filter(|last| !last.is_empty()).map(|last| folder.join(last)),
            );
        }
        let mut seen = Vec::new();
        list.retain(|path| {
            path != child && !seen.contains(path) && {
                seen.push(path.clone());
                true
            }
        });
        list
    }
}

/// Opens the image file at `path` with all its parents, which are only read.
pub async fn open_file(world: &World, path: &Path, access: Access) -> Result<Image, VdiskError> {
    let image = open_one(world, path, access).await?;
    let (mut child, mut child_path) = (image.clone(), path.to_owned());
    for depth in 0.. {
        let Some(link) = child.parent_link().cloned() else { break };
        if depth == CHAIN_MAX {
            let cause = format!("more than {CHAIN_MAX} images lie above each other");
            return Err(VdiskError::Parent { name: link.name, cause });
        }
        (child, child_path) = open_parent(world, &child, &link, &child_path).await?;
    }
    Ok(image)
}

async fn open_parent(
    world: &World,
    child: &Image,
    link: &ParentLink,
    child_path: &Path,
) -> Result<(Image, PathBuf), VdiskError> {
    let mut cause = "the image names no path of it".to_owned();
    for path in link.candidates(child_path) {
        let attached = match open_one(world, &path, Access::Read).await {
            Ok(parent) => child.attach(parent.clone()).map(|()| parent),
            Err(error) => Err(error),
        };
        match attached {
            Ok(parent) => return Ok((parent, path)),
            Err(VdiskError::Parent { cause: found, .. }) => cause = format!("{}: {found}", path.display()),
            Err(error) => cause = error.to_string(),
        }
    }
    Err(VdiskError::Parent { name: link.name.clone(), cause })
}

async fn open_one(world: &World, path: &Path, access: Access) -> Result<Image, VdiskError> {
    let image_access = match access {
        Access::Read => ImageAccess::Read,
        Access::Write => ImageAccess::Write,
    };
    let spec = DriveSpec::Image { path: path.to_owned(), access: image_access };
    let drive = world.open_drive(&spec).await.map_err(|e| VdiskError::refused(e.to_string()))?;
    Image::open(world, drive, access).await
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
        };
        let found = link.candidates(Path::new("/images/child.vhd"));
        let expected = ["/images/base.vhd", "/images/C:/disks/base.vhd", "/srv/base.vhd"];
        assert_eq!(found, expected.map(PathBuf::from));
    }
}
