//! `masu vdisk attach`.

use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::mpsc::Receiver;

use anyhow::Result;
use attach::Detached;
use lab_core::words::{shown as visible_path, visible};
use lab_tools::attached::{Attached, Disk};
use lab_tools::lu::Lu;
use vdisk::Access;
use world::World;

use super::arguments::Source;
use super::in_world::in_world;
use super::served::{STOP_POLL, open, stop_signals};

pub(super) fn attach(
    source: &str,
    point: &Path,
    read_only: bool,
    raw: bool,
    image: &Source,
) -> Result<ExitCode> {
    let stop = stop_signals()?;
    in_world(async |world| {
        let disk = if source.starts_with("iscsi:") {
            Disk::Lu(Rc::new(Lu::open(&world, source).await?))
        } else {
            let access = if read_only { Access::Read } else { Access::Write };
            Disk::Image(open(&world, Path::new(source), access, raw, image).await?)
        };
        let served = serve(&world, (source, point), read_only, &disk, &stop).await;
        let closed = disk.close().await;
        served?;
        closed?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Serves the attachment until the file system is unmounted, by a signal or from outside.
async fn serve(
    world: &World,
    (source, point): (&str, &Path),
    read_only: bool,
    disk: &Disk,
    stop: &Receiver<()>,
) -> Result<()> {
    let name = shown(source);
    let mut attached = Attached::new(world, disk, point, &name, read_only)?;
    println!("{name}: {}", visible_path(&attached.file()));
    let mut is_waited_for = false;
    while !attached.has_ended() {
        if stop.try_recv().is_ok() {
            if is_waited_for {
                // What is on it meets errors from now on, as after the loss of a disk.
                return Ok(());
            }
            is_waited_for = attached.detach()? == Detached::InUse;
            if is_waited_for {
                let file = attached.file();
                eprintln!(
                    "{} is in use; unmount its file systems, or send the signal again to end at once",
                    visible_path(&file)
                );
            }
        }
        world.sleep(STOP_POLL).await;
    }
    attached.join()
}

/// The source, without a password.
fn shown(source: &str) -> String {
    match (source.strip_prefix("iscsi://"), source.rfind('@')) {
        (Some(_), Some(at)) => format!("iscsi://{}", visible(&source[at + 1..])),
        _ => visible(source),
    }
}
