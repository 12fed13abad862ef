//! Valid images of every format with changed structures and right checksums, used in every way: see `crates/vdisk/tests/mutated`.
#![no_main]

#[path = "../../crates/vdisk/tests/mutated/exercise.rs"]
mod exercise;
#[path = "../../crates/vdisk/tests/mutated/medium.rs"]
mod medium;

use exercise::{Choices, run, templates};
use world_model::Model;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&choice, data)) = data.split_first() else { return };
    Model::new(1).run(async |world| {
        let templates = templates(&world).await;
        run(&world, &templates[usize::from(choice) % templates.len()], &mut Choices(data)).await;
    });
});
