//! Short runs.

use std::time::Duration;

use super::bed::{Bed, Shape};
use super::scenario::{Form, Qos};
use super::{judge, play};

#[test]
fn look() {
    let (qos, _) = Qos::load(None).expect("built in");
    let qos = qos.quick();
    let bed = Bed::make(&qos, Shape::published(&qos), 1).expect("a bed");
    let capacity = play::capacity(&qos, &bed, Duration::from_secs(60), 1).expect("runs");
    eprintln!("{capacity:?}");
    let mut extras = super::extra::run(&qos, &bed, &capacity, 1, &|what| eprintln!("{what}")).expect("extras");
    for course in std::mem::take(&mut extras.courses) {
            let view = judge::view(&qos, &capacity, &course);
            for p in &view.phases {
                let rates: Vec<String> = p.vms.iter().map(|v| format!("{:.2}/{:.2} {:.2}", v.mean / 1e6, v.rates.minimum / 1e6, v.worst / 1e6)).collect();
                eprintln!("  {:<22} {} = {:.1}; depth {:.1}", p.name, rates.join(" "), p.sum / 1e6, p.depth);
            }
    }
    eprintln!("{extras:?}");
    for e in qos.experiments.iter().take(2) {
        for f in &e.forms {
            let script = play::Script::of(&qos, e);
            let course = play::model(&qos, &bed, &script, *f, &capacity, 1).expect("runs");
            let view = judge::view(&qos, &capacity, &course);
            eprintln!("{} {:?}", e.id, f);
            for p in &view.phases {
                let rates: Vec<String> = p.vms.iter().map(|v| format!("{:.2}/{:.2}", v.mean / 1e6, v.expected / 1e6)).collect();
                eprintln!("  {:<22} {} = {:.1} of {:.1}; depth {:.1}", p.name, rates.join(" "), p.sum / 1e6, p.can_do / 1e6, p.depth);
                eprintln!("     worst {:?} over {:?} off {:.3} even {:.3} scale {} told {:?}", p.worst_of_minimum(), p.over_maximum(), p.off_expected(104857.6), p.off_even(), p.scale_permille, p.told);
            }
        }
    }
    let _ = Form::Array;
}
