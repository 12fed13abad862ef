//! Who moves a logical unit to another controller when a host asks for it.

/// Moves a logical unit to the controller of other ports, with all that share its pool.
pub trait Mover {
    /// Whether hosts may ask for it at all.
    fn is_on(&self) -> bool;
    /// Begins the move to the controller of this target port group. Returns whether it has begun.
    fn begin(&self, group: u16) -> bool;
}
