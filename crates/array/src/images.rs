//! Images as LUs: virtual disks in files, opened as declared.

use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::future::{Either, select};
use futures::{StreamExt, stream};
use raid::{LabelCopy, OnDrive, examine, label_copies};
use scsi::{Identity, LogicalUnit};
use status::ImageFault;
use vdisk::{Access, Chain, Image, Probed, VdiskError, WeakImage, open_chain, probe};
use world::{Drive, DriveSpec, ImageAccess};

use crate::config::{Config, FileFormat, ImageConfig, RawFile};
use crate::control::ControlError;
use crate::controller::{Controller, SECTOR_BYTES, identity_of};
use crate::event::Event;
use crate::event::Severity;
use crate::groups::OPENING_MAX;
use crate::policies::image_gate;
use crate::status::Unopened;
use crate::terms;
use stack::{Disk, ImageDisk, Storage};

/// The physical block size that hosts see: pages of the file system below.
const PHYSICAL_BLOCK_BYTES: u32 = 4096;

/// Opens the declared images of this controller that are not open yet. If an image that was just declared
/// cannot be opened, that is an error. At a start, and for images declared earlier, the error appears in the
/// status and all other LUs are served.
pub(crate) async fn open_images(
    controller: &Rc<Controller>,
    config: &Config,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    let starting = controller.state().config.target.is_empty();
    let own = config.images.iter().filter(|image| image.controller == controller.index);
    let closed = own.filter(|image| !controller.state().lus.contains_key(&image.name));
    let opened = stream::iter(closed.collect::<Vec<_>>())
        .map(|declared| async move { (declared, open_declared(controller, config, declared).await) })
        .buffered(OPENING_MAX);
    let mut opened = pin!(opened);
    while let Some((declared, outcome)) = opened.next().await {
        match outcome {
            Ok(image) => {
                refuse_labelled(controller, declared, &image).await?;
                serve(controller, config, declared, image, done);
            }
            Err(error) if starting || controller.state().config.image(&declared.name).is_some() => {
                let told = format!("image {}: not served: {error}", declared.name);
                controller.events.once(Severity::Error, told);
                let mut state = controller.state.borrow_mut();
                state.unopened.insert(declared.name.clone(), error);
            }
            Err(error) => return Err(ControlError::at(format!("image {:?}", declared.name))(&error)),
        }
    }
    Ok(())
}

fn serve(
    controller: &Rc<Controller>,
    config: &Config,
    declared: &ImageConfig,
    image: Image,
    done: &mut Vec<String>,
) {
    let number = lu_number(&declared.name, &image.disk_id());
    let identity = Identity {
        physical_block_exponent: (PHYSICAL_BLOCK_BYTES / image.sector_bytes()).ilog2() as u8,
        read_only: declared.read_only,
        ..identity_of(config, (&declared.name, number))
    };
    done.push(format!("image {}: {}, {} bytes", declared.name, image.format().name(), image.len_bytes()));
    let gate = image_gate(controller, config, &declared.name);
    controller.world.spawn(watch_task(controller.clone(), declared.name.clone(), image.downgrade()));
    let lu = LogicalUnit::new(
        controller.world.clone(),
        identity,
        Disk::new(gate, Storage::Image(ImageDisk::new(image))),
    );
    let mut state = controller.state.borrow_mut();
    state.unopened.remove(&declared.name);
    state.lus.insert(declared.name.clone(), lu);
}

/// Probes the images of this controller that are declared without a format. The footer of a fixed VHD takes
/// precedence over the first bytes of the file, because the guest can write those. For an image that was just
/// declared, an ambiguous result is an error.
pub(crate) async fn formats(controller: &Controller, config: &Config) -> Vec<(String, FileFormat)> {
    let starting = controller.state().config.target.is_empty();
    let mut found = Vec::new();
    let unknown = |i: &&ImageConfig| i.controller == controller.index && i.format.is_none();
    for declared in config.images.iter().filter(unknown) {
        let probed = match open_to_read(controller, &declared.spec).await {
            Ok(drive) => probe(&drive).await,
            Err(error) => Err(error),
        };
        if let Ok(Probed { format, disputed }) = probed
            && (starting || disputed.is_none())
        {
            found.push((declared.name.clone(), terms::declared_format(format)));
        }
    }
    found
}

/// Why the format of an image cannot be determined.
async fn no_format(controller: &Controller, declared: &ImageConfig) -> VdiskError {
    let what = match open_to_read(controller, &declared.spec).await {
        Ok(drive) => match probe(&drive).await {
            Ok(Probed { disputed: None, .. }) => {
                "the format was unknown when the image was declared; declare the format".into()
            }
            Ok(Probed { disputed: Some(disputed), .. }) => format!("{disputed}; declare the format"),
            Err(error @ VdiskError::Foreign { .. }) => {
                format!("{error}; declare the format if the image is raw")
            }
            Err(error) => return error,
        },
        Err(error) => return error,
    };
    VdiskError::Refused { what }
}

async fn open_to_read(controller: &Controller, spec: &DriveSpec) -> Result<Drive, VdiskError> {
    let spec = match spec {
        DriveSpec::Image { path, .. } => DriveSpec::Image { path: path.clone(), access: ImageAccess::Read },
        spec => spec.clone(),
    };
    let opened = controller.world.open_drive(&spec).await;
    Ok(opened?)
}

/// Opens an image. A raw one must be the file that was served before.
async fn open_declared(
    controller: &Controller,
    config: &Config,
    declared: &ImageConfig,
) -> Result<Image, Unopened> {
    let refused = |error: VdiskError| Unopened { fault: terms::open_fault(&error), cause: error.to_string() };
    if let Some(cause) = controller.state().nodes.withheld.images.get(&declared.name) {
        return Err(Unopened { fault: ImageFault::Unclaimed, cause: cause.clone() });
    }
    let image = open(controller, config, declared).await.map_err(refused)?;
    if image.file_format() != vdisk::FileFormat::Raw {
        return Ok(image);
    }
    let known = controller.state().made.images.get(&declared.name).copied();
    if let Some(what) = known.and_then(|known| known.differs(&raw_file(&image))) {
        let cause = format!("{}: {what}", image.drive().info().name);
        return Err(Unopened { cause, fault: ImageFault::Replaced });
    }
    Ok(image)
}

fn raw_file(image: &Image) -> RawFile {
    RawFile { len_bytes: image.drive().len_bytes(), file: image.drive().file_id() }
}

/// The files of the open raw images, by the names of the images.
pub(crate) fn raw_files(controller: &Controller, config: &Config) -> BTreeMap<String, RawFile> {
    let state = controller.state();
    let open =
        config.images.iter().filter_map(|i| Some((&i.name, state.lus.get(&i.name)?.disk().below().image()?)));
    let raw = open.filter(|(_, image)| image.file_format() == vdisk::FileFormat::Raw);
    raw.map(|(name, image)| (name.clone(), raw_file(image))).collect()
}

/// Refuses a raw image that was just declared and is a drive of an array: the first write of a host would
/// destroy its label. What a guest writes later is its own affair.
async fn refuse_labelled(
    controller: &Controller,
    declared: &ImageConfig,
    image: &Image,
) -> Result<(), ControlError> {
    let (before, made) = (controller.config(), controller.state().made.clone());
    let is_new = match before.target.is_empty() {
        true => made.is_first,
        false => before.image(&declared.name).is_none(),
    };
    if !is_new || declared.read_only || image.file_format() != vdisk::FileFormat::Raw {
        return Ok(());
    }
    let drive = image.drive();
    let copies = label_copies(drive).await;
    // Where there is none, the rest of the drive need not be looked at.
    if copies.iter().flatten().all(|copy| matches!(copy, LabelCopy::None)) {
        return Ok(());
    }
    match examine(drive).await {
        Ok(OnDrive::Blank | OnDrive::NotBlank { .. }) | Err(_) => Ok(()),
        Ok(found) => Err(ControlError::at(format!("image {:?}", declared.name))(&format!(
            "{} {found}: a write of a host would destroy the label; declare the drive where it belongs, or the image \
             with read_only",
            drive.info().name
        ))),
    }
}

async fn open(controller: &Controller, config: &Config, declared: &ImageConfig) -> Result<Image, VdiskError> {
    let access = if declared.read_only { Access::Read } else { Access::Write };
    let refused = |what: String| VdiskError::Refused { what };
    let Some(format) = declared.format.map(terms::format) else {
        return Err(no_format(controller, declared).await);
    };
    let image = match &declared.spec {
        DriveSpec::Image { path, .. } => {
            let parents_in = &declared.parents_in;
            let chain = Chain { path, access, format: Some(format), parents_in };
            open_chain(&controller.world, &chain).await?
        }
        spec => {
            let drive = controller.world.open_drive(spec).await?;
            Image::open_as(&controller.world, drive, access, format).await?
        }
    };
    if config.controllers > 1 && image.sector_bytes() != SECTOR_BYTES {
        let bytes = image.sector_bytes();
        return Err(refused(format!(
            "unsupported sector size of {bytes} bytes: only an array with one \
            controller serves such an image"
        )));
    }
    Ok(image)
}

/// How often masu checks open images for trouble.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Looks after the file of an open image; raises an event when the image has trouble, and when the trouble is
/// over.
async fn watch_task(controller: Rc<Controller>, name: String, image: WeakImage) {
    let watch = controller.state().image_watch.clone();
    let mut told = None;
    loop {
        if let Either::Left(_) = select(Box::pin(watch.ended()), controller.world.sleep(LOOK_INTERVAL)).await
        {
            return;
        }
        let Some(image) = image.upgrade() else { return };
        image.look().await;
        let trouble = image.trouble();
        drop(image);
        if trouble == told {
            continue;
        }
        let object = format!("image {name}");
        controller.events.event(match &trouble {
            Some(trouble) => Event::error(object, trouble.to_string()),
            None => Event::info(object, "writes succeed again"),
        });
        told = trouble;
    }
}

/// The number of an image's LU. It differs for another disk under the same name, and for the same disk under
/// another name: a copy of a file is another disk.
fn lu_number(name: &str, disk_id: &[u8; 16]) -> u64 {
    // The LU's names have 60 bits for it.
    world::fnv1a(name.bytes().chain(*disk_id)) >> 4
}

/// The open images of these names.
pub(crate) fn images_of(controller: &Controller, names: &[String]) -> Vec<Image> {
    let state = controller.state();
    names.iter().filter_map(|name| state.lus.get(name)?.disk().below().image().cloned()).collect()
}

/// All open images.
pub(crate) fn all_images(controller: &Controller) -> Vec<Image> {
    controller.state().lus.values().filter_map(|lu| lu.disk().below().image().cloned()).collect()
}

/// Makes images durable and closes them. An error does not stop the rest.
pub(crate) async fn close_images(images: Vec<Image>) -> Result<(), ControlError> {
    let mut outcome = Ok(());
    for image in images {
        let place = ControlError::at(format!("image {}", image.drive().info().name));
        outcome = outcome.and(image.close().await.map_err(|e| place(&e)));
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_another_number_under_another_name_or_with_another_disk() {
        let numbers = [lu_number("a", &[1; 16]), lu_number("b", &[1; 16]), lu_number("a", &[2; 16])];
        assert_eq!(numbers[0], lu_number("a", &[1; 16]));
        assert!(numbers[0] != numbers[1] && numbers[0] != numbers[2] && numbers[1] != numbers[2]);
        assert!(numbers.iter().all(|n| *n < 1 << 60));
    }
}
