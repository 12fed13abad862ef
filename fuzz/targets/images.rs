//! Valid images of every format with changed structures and right checksums, used in every way: see
//! `crates/vdisk/tests/mutated`.
#![no_main]

#[path = "../../crates/vdisk/tests/mutated/exercise.rs"]
mod exercise;
#[path = "../../crates/vdisk/tests/mutated/medium.rs"]
mod medium;

use exercise::{Choices, Template, run, templates};
use world_model::Model;

thread_local! {
    static TEMPLATES: Vec<Template> = Model::new(1).run(async |world| templates(&world).await);
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&choice, data)) = data.split_first() else { return };
    TEMPLATES.with(|templates| {
        let template = &templates[usize::from(choice) % templates.len()];
        Model::new(1).run(async |world| run(&world, template, &mut Choices(data)).await);
    });
});
