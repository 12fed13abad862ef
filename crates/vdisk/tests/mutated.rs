//! Images of every format with structures that somebody changed: nothing that they say ends the process,
//! takes memory without a limit, or has masu take back what it acknowledged. `fuzz/targets/images.rs` runs
//! the same with a fuzzer's choices.

#[path = "mutated/exercise.rs"]
mod exercise;
#[path = "mutated/hostile.rs"]
mod hostile;
#[path = "mutated/medium.rs"]
mod medium;

use exercise::{Choices, run, templates};
use world_model::Model;

/// Runs so many images of each template.
fn mutate(seed: u64, count: u64) {
    Model::new(seed).run(async |world| {
        let templates = templates(&world).await;
        let mut rng = world.random("mutations");
        let mut choices = [0; 96];
        for number in 0..count {
            for template in &templates {
                rng.fill(&mut choices);
                // Found again by these two when it fails.
                let place = format!("seed {seed}, image {number} of {}", template.name);
                let told = Told(place);
                run(&world, template, &mut Choices(&choices)).await;
                std::mem::forget(told);
            }
        }
    });
}

/// Says where it was when a test panics.
struct Told(String);

impl Drop for Told {
    fn drop(&mut self) {
        eprintln!("{}", self.0);
    }
}

#[test]
fn changed_structures_end_in_errors_or_in_data() {
    mutate(19, 500);
}

#[test]
#[ignore = "minutes: make soak runs it"]
fn many_changed_structures_end_in_errors_or_in_data() {
    let mut images = 0;
    for seed in 0..u64::MAX {
        mutate(seed, 1000);
        images += 1000 * 8;
        eprintln!("{images} images");
        if images >= 2_000_000 {
            break;
        }
    }
}
