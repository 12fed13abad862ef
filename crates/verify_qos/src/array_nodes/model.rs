//! The nodes of the model world: the run directs when one is lost, and when it is taken over.

use std::rc::Rc;
use std::sync::Arc;

use anyhow::Result;
use lab_core::interrupt::{Abandoned, Stop};
use lab_tools::testbed::nodes::Nodes;
use scsi::Events;

use super::bed::{self, Promised, VMS};
use super::paths::{Paths, Way};
use super::play::{Course, Ground, Stage, vm};
use super::scenario::{ArrayNodes, Form};
use crate::scenario::Qos;
use crate::vm::Route;

/// Plays a run with so many nodes.
///
/// # Errors
/// [`Abandoned`] after a stop request; and when it cannot be played.
pub(crate) fn play(
    qos: &Qos,
    shape: &ArrayNodes,
    nodes: usize,
    (seed, stop): (u64, &Stop),
) -> Result<Course> {
    let shape = &shape.clone().in_form(Form::Model);
    let bed = bed::make(qos, shape, nodes, seed)?;
    let model = bed.model(seed);
    // An event of another model in this process would wake this one's exchanges.
    Events::enter(Some(Arc::default()));
    let played = model.run_while(
        || !stop.is_asked(),
        async |world| {
            let ground = Nodes::start(&model, &world, &bed.config, shape.latency.0).await?;
            let route = |vm: usize| {
                let paths = Paths::new(&world, vm, Way::model(&ground, vm)?, shape.retry.0);
                anyhow::Ok((vm, Route::Paths(Rc::new(paths))))
            };
            let vms = (0..nodes * VMS.len()).map(|number| vm(&world, shape, route(number)?));
            let vms = vms.collect::<Result<Vec<_>>>()?;
            let mut stage = Stage { qos, shape, world, ground, vms, lost: None, node_can_do: 0.0 };
            stage.play((nodes, false)).await
        },
    );
    Events::enter(None);
    played.unwrap_or_else(|| Err(Abandoned.into()))
}

impl Ground for Nodes {
    async fn promise(&mut self, promised: Promised) -> Result<()> {
        let config = bed::with_policies(self.array.config(), promised);
        self.array.apply(config).await?;
        Ok(())
    }

    async fn lose(&mut self, node: usize) -> Result<()> {
        Nodes::lose(self, node);
        Ok(())
    }

    async fn take_over(&mut self, node: usize) -> Result<()> {
        Nodes::take_over(self, node).await
    }

    async fn below_minimum(&self) -> Result<Vec<String>> {
        let parts = self.array.status().await?;
        let volumes = parts.into_iter().flat_map(|part| part.volumes);
        let below = volumes.filter(|volume| volume.qos.state == "below_minimum");
        Ok(below.map(|volume| volume.name).collect())
    }
}
