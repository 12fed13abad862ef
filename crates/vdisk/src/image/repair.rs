//! Repairs from a second copy, a log or the table.

use super::Image;
use crate::VdiskError;

impl Image {
    /// Writes what is missing or damaged and known from elsewhere: the log's pages in place, a footer or a
    /// region table from its other copy. An image with faults is not open for writing, so it is never
    /// repaired here.
    pub async fn repair(&self) -> Result<(), VdiskError> {
        self.begin().await?;
        let steps = self.0.repairs.take();
        self.take(steps).await?;
        self.flush().await?;
        self.close().await?;
        self.0.findings.borrow_mut().notes.clear();
        Ok(())
    }
}
