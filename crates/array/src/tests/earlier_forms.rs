//! The earlier forms of the state, one of which is put in the place of a state that is damaged.

use std::sync::{Arc, Mutex};

use crate::config::{Config, Level, Made};
use world_model::Model;

use super::rig::{Host, declaration, group, model, start};
use crate::Keeper;

const ID: u8 = 61;

#[derive(Default)]
struct Kept {
    now: Option<(Config, Made)>,
    earlier: Vec<(Config, Made)>,
}

/// Keeps the forms as a data directory does.
#[derive(Clone, Default)]
struct Forms(Arc<Mutex<Kept>>);

impl Keeper for Forms {
    fn keep(&mut self, config: &Config, made: &Made) -> Result<(), String> {
        let mut kept = self.0.lock().expect("nobody panicked");
        let before = kept.now.replace((config.clone(), made.clone()));
        kept.earlier.extend(before);
        Ok(())
    }

    fn replace(&mut self, config: &Config, made: &Made) -> Result<(), String> {
        self.0.lock().expect("nobody panicked").now = Some((config.clone(), made.clone()));
        Ok(())
    }
}

/// The record of a clone that is being made was the newest earlier form: the state was damaged, that form
/// copied over it as the message says, and the start deleted the clone.
#[test]
fn no_earlier_form_deletes_or_overwrites_what_the_last_change_has_made() {
    let model: Model = model(ID.into(), 4);
    let forms = Forms::default();
    model.run(async |world| {
        let mut array = start(&world).kept_by(Box::new(forms.clone()), None);
        array.apply(declaration(ID, 2, vec![group("g", Level::Raid1, 0..2)])).await.expect("apply");
        let mut host = Host::log_in(&world, ID).await;
        host.fill().await;
        host.log_out().await;
        let mut next = array.config().clone();
        let more = declaration(ID, 4, vec![group("h", Level::Raid1, 2..4)]);
        next.drives = more.drives;
        next.groups.extend(more.groups);
        array.apply_over(next, &["d2".into(), "d3".into()]).await.expect("a group");
        array.clone_volume("v", "s").await.expect("cloned");
        array.stop().await.expect("stop");
    });
    let earlier = std::mem::take(&mut forms.0.lock().expect("nobody panicked").earlier);
    for (_, made) in &earlier {
        assert!(made.discarded.is_empty() && made.overwrite.is_empty(), "{made:?}");
        assert!(made.groups.values().all(|group| group.ready), "{made:?}");
    }
    let (config, made) = earlier.last().expect("there was one before the clone").clone();
    assert!(config.volume("s").is_none() && config.groups.len() == 2, "the newest one");
    model.run(async |world| {
        let mut array = start(&world).kept_by(Box::new(Forms::default()), Some((config.clone(), made)));
        array.apply(config).await.expect("it starts");
        let undeclared = array.undeclared("s").await.expect("it answers");
        assert!(undeclared.is_some(), "the clone is there, and nobody has declared it");
    });
}
