//! A LU over iSCSI as a device of this machine.

use anyhow::{Context, Result, bail};
use block::{BlockError, Device, Geometry, Pieces};
use iscsi::initiator::{Session, Url};
use scsi::Lun;
use world::{BUF_LEN_MAX, Buf, World};

use crate::hosts::{Capabilities, Disk, DiskError, OUT_OF_SPACE, login_of};

/// Most commands in flight: those of an attached file, with some headroom.
const DEPTH_MAX: u16 = 64;

/// It: one session of its own.
pub struct Lu {
    name: String,
    session: Session,
    disk: Disk,
    limits: Capabilities,
    read_only: bool,
}

impl Lu {
    /// Logs in where an `iscsi://` URL points, as an initiator port that no other session has.
    pub async fn open(world: &World, url: &str) -> Result<Lu> {
        let url = Url::parse(url)?;
        let name = url.to_string();
        let mut login = login_of(&url)?;
        let [a, b, c, ..] = world.random("initiator port").u64(..).to_be_bytes();
        login.isid = [0x80, a, b, c, 0, 0];
        login.depth_max = DEPTH_MAX;
        let session = Session::login(world, &login).await.with_context(|| name.clone())?;
        let disk =
            Disk::open(world.clone(), session.clone(), Lun(url.lun)).await.with_context(|| name.clone())?;
        let limits = disk.capabilities().await?;
        if limits.block_bytes as usize > BUF_LEN_MAX || !limits.block_bytes.is_power_of_two() {
            bail!("{name}: blocks of {} bytes", limits.block_bytes);
        }
        let read_only = disk.is_write_protected().await?;
        Ok(Lu { name, session, disk, limits, read_only })
    }

    /// Whether it may be read only.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The name of the LU, from INQUIRY.
    pub async fn product(&self) -> Result<String> {
        Ok(self.disk.product().await?)
    }

    /// Makes what was written durable, and logs out.
    pub async fn close(&self) -> Result<()> {
        self.disk.synchronize_cache().await?;
        self.session.logout().await?;
        Ok(())
    }

    /// Splits a range for commands of at most `most` bytes each; zero means no limit.
    fn parts(
        &self,
        at: u64,
        len: u64,
        most: u64,
        otherwise: u64,
    ) -> impl Iterator<Item = (u64, u64)> + use<> {
        let block = u64::from(self.limits.block_bytes);
        let most = if most == 0 { otherwise } else { most.min(u64::from(u32::MAX) / 2) };
        let most = (most - most % block).max(block);
        (0..len.div_ceil(most)).map(move |part| (at + part * most, most.min(len - part * most)))
    }

    fn transfers(&self, at: u64, len: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let otherwise = BUF_LEN_MAX as u64;
        self.parts(at, len, self.limits.transfer_bytes_max.min(otherwise), otherwise)
    }

    fn failed(&self, error: &DiskError) -> BlockError {
        match error.sense() {
            Some(OUT_OF_SPACE) => BlockError::NoSpace { pool: self.name.clone() },
            _ => BlockError::Failed { cause: format!("{}: {error}", self.name).into() },
        }
    }
}

impl Device for Lu {
    fn geometry(&self) -> Geometry {
        Geometry { len_bytes: self.limits.len_bytes, block_bytes: self.limits.block_bytes }
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        self.geometry().check(at, len as u64)?;
        for (at, len) in self.transfers(at, len as u64) {
            out.append(self.disk.read(at, len).await.map_err(|e| self.failed(&e))?);
        }
        Ok(())
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        self.geometry().check(at, data.len() as u64)?;
        for (part, len) in self.transfers(at, data.len() as u64) {
            let data = data.slice((part - at) as usize, len as usize);
            self.disk.write(part, data).await.map_err(|e| self.failed(&e))?;
        }
        Ok(())
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.geometry().check(at, len)?;
        if !self.limits.write_same {
            for (at, len) in self.transfers(at, len) {
                let zeros = Buf::shared_zeros(len as usize).freeze();
                self.disk.write(at, zeros.into()).await.map_err(|e| self.failed(&e))?;
            }
            return Ok(());
        }
        let block = Buf::shared_zeros(self.limits.block_bytes as usize).freeze();
        for (at, len) in self.parts(at, len, self.limits.write_same_bytes_max, BUF_LEN_MAX as u64) {
            let done = if self.limits.write_same_unmaps {
                self.disk.write_same_unmap(at, len, block.clone()).await
            } else {
                self.disk.write_same(at, len, block.clone()).await
            };
            done.map_err(|e| self.failed(&e))?;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), BlockError> {
        self.disk.synchronize_cache().await.map_err(|e| self.failed(&e))
    }
}
