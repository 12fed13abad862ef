//! A declaration that was meant for an earlier life of a pool, and comes late.

use qos::{Policy, Settings};
use stack::Service;
use world_model::Model;

/// Found by the simulation of nodes, with messages that are delivered again after their node was gone: the
/// client of a logical unit of the earlier life was looked for in the scheduler of this one, which ended the
/// process.
#[test]
fn a_policy_for_a_client_of_another_scheduler_changes_nothing() {
    Model::new(1).run(async |world| {
        let begin = || Service::new(world.clone(), Settings::default(), std::future::pending());
        let (earlier, now) = (begin(), begin());
        let gates = ["a", "b", "c"].map(|name| earlier.gate(name));
        let own = now.gate("own");
        let policy = Policy { minimum_iops: 100, ..Policy::none() };
        let name = String::from("gold");
        for gate in &gates {
            now.set_policy(gate, None, policy);
            now.set_policy(gate, Some((&name, None)), policy);
        }
        assert_eq!((now.scheduler().minimums(), now.part("gold")), (0, None));
        now.set_policy(&own, None, policy);
        assert_eq!(now.scheduler().minimums(), 100);
        // Their own scheduler takes them as before.
        earlier.set_policy(&gates[2], Some((&name, None)), policy);
        assert_eq!(earlier.scheduler().minimums(), 100);
    });
}
