//! An image as a device, so that other layers and the conformance suite run on it.

use block::{BlockError, Device, Geometry, Pieces};

use super::Image;
use crate::VdiskError;

impl Image {
    fn check_range(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.geometry().check(at, len)
    }

    /// Hosts of a disk that is not thin do not expect running out of space: they get a failed write.
    fn told(&self, error: VdiskError) -> BlockError {
        match BlockError::from(error) {
            BlockError::NoSpace { pool } if self.block_bytes().is_none() => {
                BlockError::Failed { cause: format!("no space below {pool}").into() }
            }
            error => error,
        }
    }
}

impl Device for Image {
    fn geometry(&self) -> Geometry {
        Geometry { len_bytes: self.len_bytes(), block_bytes: self.sector_bytes() }
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        self.check_range(at, len as u64)?;
        Ok(Image::read(self, at, len as u64, out).await?)
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        self.check_range(at, data.len() as u64)?;
        Image::write(self, at, data).await.map_err(|error| self.told(error))
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.check_range(at, len)?;
        Image::zero(self, at, len).await.map_err(|error| self.told(error))
    }

    async fn flush(&self) -> Result<(), BlockError> {
        Ok(Image::flush(self).await?)
    }
}
