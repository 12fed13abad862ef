//! What a data directory keeps, and what damaged or missing files do to it.

use super::history::HISTORY;
use super::*;

fn config(controllers: usize) -> Config {
    Config { controllers, ..Config::empty("iqn.2026-11.net.example:x") }
}

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path()).expect("a store");
    (dir, store)
}

#[test]
fn the_state_comes_back_and_its_last_ten_forms_stay() {
    let (_dir, mut store) = store();
    assert_eq!(store.load().expect("nothing"), None);
    let made = Made { volumes: ["v".to_owned()].into(), ..Made::default() };
    for controllers in 1..=14 {
        store.keep(&config(controllers), &made).expect("kept");
    }
    assert_eq!(store.load().expect("kept"), Some(Kept { config: config(14), made }));
    let history = store.dir().join(HISTORY);
    let numbers = store.history().numbers().expect("a history");
    assert_eq!(numbers, (4..=13).collect::<Vec<_>>());
    let newest = fs::read_to_string(history.join("00000013.toml")).expect("readable");
    assert!(newest.contains("controllers = 13"), "{newest}");
}

/// A start with such a form deleted a volume of today that has the name of a deleted one.
#[test]
fn no_earlier_form_deletes_what_is_declared_now() {
    let (dir, mut store) = store();
    let with = |volumes: &[&str], discarded: &[&str]| {
        let volume = |name: &&str| format!("[[volume]]\nname = \"{name}\"\npool = \"p\"\nsize = \"1MiB\"\n");
        let text = "[[drive]]\nname = \"d\"\nfile = \"d.img\"\nsize = \"1GiB\"\n\
                    [[group]]\nname = \"g\"\nlevel = \"raid0\"\ndrives = [\"d\"]\n\
                    [[pool]]\nname = \"p\"\ngroups = [\"g\"]\n"
            .to_owned()
            + &volumes.iter().map(volume).collect::<String>();
        let config = Config::parse(&text, "array.toml", dir.path()).expect("good");
        let discarded = discarded.iter().map(|name| ((*name).to_owned(), "p".to_owned())).collect();
        (config, Made { discarded, ..Made::default() })
    };
    let forms = || History::of(dir.path()).numbers().expect("a history");
    for (volumes, discarded) in [(&["v"][..], &[][..]), (&[], &["v"]), (&["w"], &["v"])] {
        let (config, made) = with(volumes, discarded);
        store.keep(&config, &made).expect("kept");
    }
    assert_eq!(forms(), [1, 2], "v is still to be deleted");
    let (config, made) = with(&["w"], &[]);
    store.keep(&config, &made).expect("kept");
    assert_eq!(forms(), [1, 2, 3], "it has been deleted");
    let (config, made) = with(&["w", "v"], &[]);
    store.keep(&config, &made).expect("kept");
    assert_eq!(forms(), [1, 4], "there is another one of that name");
    let (config, made) = with(&["w"], &["v"]);
    store.keep(&config, &made).expect("kept");
    let (config, made) = with(&["w"], &[]);
    store.keep(&config, &made).expect("kept");
    assert_eq!(forms(), [1, 4, 5, 6]);
    // A clone: its last form takes the place of a step.
    let (config, made) = with(&["w", "v"], &[]);
    store.replace(&config, &made).expect("kept");
    assert_eq!(forms(), [1, 4, 5]);
}

#[test]
fn a_state_that_is_gone_is_not_taken_for_a_new_array() {
    let (_dir, mut store) = store();
    (1..=2).for_each(|controllers| store.keep(&config(controllers), &Made::default()).expect("kept"));
    let text = store.text(FILE).expect("readable").expect("a state");
    fs::remove_file(store.dir().join(FILE)).expect("removed");
    let refused = store.load().expect_err("there was an array").to_string();
    assert!(refused.contains(HISTORY) && refused.contains("copy the newest one"), "{refused}");
    fs::remove_dir_all(store.dir().join(HISTORY)).expect("removed");
    assert_eq!(store.load().expect("nothing shows it"), None);
    fs::write(store.dir().join(DECLARED), "").expect("written");
    let refused = store.load().expect_err("there was an array").to_string();
    assert!(refused.contains("No earlier form is there: restore"), "{refused}");
    fs::write(store.dir().join(FILE), text).expect("put back");
    assert_eq!(store.load().expect("kept").expect("a state").config, config(2));
}

#[test]
fn an_empty_state_is_a_damaged_one_and_a_save_that_fails_pushes_no_form_out() {
    let (_dir, mut store) = store();
    (1..=4).for_each(|controllers| store.keep(&config(controllers), &Made::default()).expect("kept"));
    // The new form cannot be written: there is a directory in its place.
    let fresh = store.dir().join(format!("{FILE}.new"));
    fs::create_dir(&fresh).expect("made");
    for controllers in 5..=30 {
        store.keep(&config(controllers), &Made::default()).expect_err("it cannot be replaced");
    }
    assert_eq!(store.history().numbers().expect("a history"), (1..=4).collect::<Vec<_>>());
    fs::remove_dir(&fresh).expect("removed");
    for text in ["", "\n", "# What this array is.\n"] {
        fs::write(store.dir().join(FILE), text).expect("written");
        assert!(matches!(store.load(), Err(StoreError::Damaged { .. })), "{text:?}");
    }
}

#[test]
fn the_form_before_a_refused_change_is_put_back_without_room() {
    let (_dir, mut store) = store();
    (1..=4).for_each(|controllers| store.keep(&config(controllers), &Made::default()).expect("kept"));
    store.keep(&config(9), &Made::default()).expect("the first save of a change");
    // Nothing new can be written: there is a directory in its place.
    fs::create_dir(store.dir().join(format!("{FILE}.new"))).expect("made");
    store.keep(&config(10), &Made::default()).expect_err("the second one");
    store.may_keep(&config(10), &Made::default()).expect_err("nor would another");
    for _ in 0..2 {
        store.put_back(&config(4), &Made::default()).expect("it is put back, also again");
        assert_eq!(store.load().expect("read").expect("kept").config, config(4));
    }
    // What was refused is no earlier form.
    assert_eq!(store.history().numbers().expect("a history"), (1..=3).collect::<Vec<_>>());
    fs::remove_dir(store.dir().join(format!("{FILE}.new"))).expect("removed");
    store.may_keep(&config(10), &Made::default()).expect("there is room");
    store.put_back(&config(7), &Made::default()).expect("a form that is not there is kept as ever");
    assert_eq!(store.load().expect("read").expect("kept").config, config(7));
}

#[test]
fn what_cannot_be_shared_is_not_kept_and_what_was_shared_is_adopted() {
    let (_dir, first) = store();
    let shared = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (into, room) = (shared.clone(), Arc::new(std::sync::atomic::AtomicBool::new(true)));
    let has_room = room.clone();
    let mut first = first.shared_by(Arc::new(move |name, text| {
        if !has_room.load(std::sync::atomic::Ordering::Relaxed) {
            return Err("away".into());
        }
        into.lock().expect("a lock").push((name.to_owned(), text.to_owned()));
        Ok(())
    }));
    first.keep(&config(2), &Made::default()).expect("kept");
    room.store(false, std::sync::atomic::Ordering::Relaxed);
    assert!(first.keep(&config(3), &Made::default()).expect_err("refused").contains("away"));
    assert_eq!(first.load().expect("read").expect("kept").config, config(2));
    let (_dir, mut second) = store();
    second.keep(&config(9), &Made::default()).expect("kept");
    for (name, text) in shared.lock().expect("a lock").iter() {
        second.adopt(name, text).expect("adopted");
        second.adopt(name, text).expect("adopted again");
    }
    assert_eq!(second.load().expect("read").expect("kept").config, config(2));
}

#[test]
fn a_damaged_declaration_of_before_is_named_with_what_to_do() {
    let (_dir, store) = store();
    assert_eq!(store.declared().expect("none"), None);
    store.save_declared(&config(3)).expect("kept");
    assert_eq!(store.declared().expect("read").map(|c| c.controllers), Some(3));
    let path = store.dir().join(DECLARED);
    let text = fs::read_to_string(&path).expect("readable");
    // An older masu wrote no checksum.
    let older: String = text.lines().skip(2).map(|line| format!("{line}\n")).collect();
    fs::write(&path, &older).expect("written");
    assert_eq!(store.declared().expect("read").map(|c| c.controllers), Some(3));
    let other = text.replace("controllers = 3", "controllers = 2");
    let cut = &text[..text.find("target").expect("a key")];
    for damaged in [other.as_bytes(), cut.as_bytes(), b"", b"[[drive\n", b"\xff\xfe"] {
        fs::write(&path, damaged).expect("written");
        let said = store.declared().expect_err("damaged").to_string();
        for part in [DECLARED, "damaged", "move this file away", "SIGHUP"] {
            assert!(said.contains(part), "{damaged:?}: {said}");
        }
    }
    fs::remove_file(&path).expect("removed");
    fs::create_dir(&path).expect("made");
    assert!(matches!(store.declared(), Err(StoreError::Declared { .. })));
}

#[test]
fn a_state_that_was_damaged_or_is_newer_starts_nothing() {
    let (_dir, mut store) = store();
    store.keep(&config(1), &Made::default()).expect("kept");
    let path = store.dir().join(FILE);
    let text = fs::read_to_string(&path).expect("readable");
    fs::write(&path, text.replace("controllers = 1", "controllers = 2")).expect("written");
    assert!(matches!(store.load(), Err(StoreError::Damaged { .. })));
    fs::write(&path, text.replace("masu-state 2", "masu-state 3")).expect("written");
    assert!(matches!(store.load(), Err(StoreError::Newer { format: 3, .. })));
}

#[test]
fn a_state_of_the_first_format_was_all_made() {
    let (_dir, store) = store();
    let text = "target = \"iqn.2026-11.net.example:x\"\n[[drive]]\nname = \"d0\"\nfile = \"d0.img\"\nsize = \"1GiB\"\n\
         [[group]]\nname = \"g0\"\nlevel = \"raid0\"\ndrives = [\"d0\"]\n[[pool]]\nname = \"p0\"\ngroups = [\"g0\"]\n";
    fs::write(store.dir().join(FILE), text).expect("written");
    let made = store.load().expect("read").expect("kept").made;
    assert!(made.has_group("g0") && made.pools.contains("p0") && made.drives.contains("d0"));
}
